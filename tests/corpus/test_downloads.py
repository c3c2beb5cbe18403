"""Downloads: whatever a server does, the file is right or there is one clear error, soon, and no half file."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mien.errors import MienError
from mien.runtime.download import download, http_opener

DATA = np.random.default_rng(9).bytes(100_000)
RIGHT = {"sha256": hashlib.sha256(DATA).hexdigest(), "size": len(DATA)}


class Handler(BaseHTTPRequestHandler):
    """Answers by the path; knows no HEAD."""

    heads = 0

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        type(self).heads += 1
        self.send_error(405)

    def do_GET(self) -> None:
        what = self.path.strip("/")
        if what.isdigit():
            self.send_error(int(what))
            return
        self.send_response(200)
        if what != "unsized":
            self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        if what == "short":
            self.wfile.write(DATA[:30_000])
        elif what == "wrong":
            self.wfile.write(DATA[:-1] + bytes([DATA[-1] ^ 1]))
        elif what == "stall":
            self.wfile.write(DATA[:30_000])
            self.wfile.flush()
            self.server.done.wait(30)  # type: ignore[attr-defined]
        else:
            self.wfile.write(DATA)


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server with bad manners."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.done = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.done.set()  # type: ignore[attr-defined]
    made.shutdown()
    made.server_close()


def fetch(url: str, path: Path, **changes: Any) -> Path:
    settings: dict[str, Any] = {**RIGHT, "timeout": 0.5, "attempts": 2, "pause": 0.01, "opener": http_opener({})}
    return download(url, path, **{**settings, **changes})


@pytest.mark.parametrize(("what", "word"), [
    ("short", "30000"), ("wrong", "sha256"), ("404", "404"), ("500", "500"), ("503", "503"), ("stall", ""),
])  # fmt: skip
def test_a_bad_answer_is_one_clear_error(server: str, tmp_path: Path, what: str, word: str) -> None:
    path, url, started = tmp_path / "weights.onnx", f"{server}/{what}", time.monotonic()
    with pytest.raises(MienError) as caught:
        fetch(url, path)
    assert url in str(caught.value)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not path.exists()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("what", ["good", "unsized"])
def test_no_head_is_needed_and_no_length(server: str, tmp_path: Path, what: str) -> None:
    path = fetch(f"{server}/{what}", tmp_path / "weights.onnx")
    assert path.read_bytes() == DATA
    assert [each.name for each in tmp_path.iterdir()] == ["weights.onnx"]
    assert Handler.heads == 0


def test_no_network_is_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}/w.onnx", "http://no-such-host.invalid/w.onnx"):
        with pytest.raises(MienError) as caught:
            fetch(url, tmp_path / "w.onnx")
        assert url in str(caught.value)
        assert list(tmp_path.iterdir()) == []


def test_a_short_body_is_gone_on_with(server: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.onnx"
    with pytest.raises(MienError):
        fetch(f"{server}/short", path)
    assert not path.exists()
    assert fetch(f"{server}/good", path).read_bytes() == DATA
    assert [each.name for each in tmp_path.iterdir()] == ["weights.onnx"]
