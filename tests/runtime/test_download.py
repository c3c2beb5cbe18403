"""Downloads from a server that does everything wrong: always a clear end, and never a wrong file."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mien.errors import DownloadError, OutputError
from mien.runtime.download import download, http_opener

DATA = np.random.default_rng(3).bytes(300_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
HALF = len(DATA) // 2
DIRECT = http_opener({})


class Server(ThreadingHTTPServer):
    """Answers each GET by the function that has the path's name; HEAD is not supported."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []
        """The Range header of each request."""
        self.left = threading.Event()
        """Set at the end: whoever is silent on purpose may go."""

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no error of the test."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_error(405)

    def do_GET(self) -> None:
        self.server.ranges.append(self.headers["Range"])
        getattr(self, self.path.strip("/"))()

    def start(self, code: int = 200, **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def good(self) -> None:
        """The file, or the part of it that is asked for."""
        if (asked := self.headers["Range"]) is None:
            self.start(Content_Length=len(DATA))
            self.wfile.write(DATA)
            return
        begin = int(asked.removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}"
        self.start(206, Content_Length=len(DATA) - begin, Content_Range=span)
        self.wfile.write(DATA[begin:])

    def whole(self) -> None:
        """Knows no ranges."""
        self.start(Content_Length=len(DATA))
        self.wfile.write(DATA)

    def chunked(self) -> None:
        self.protocol_version = "HTTP/1.1"
        self.start(Transfer_Encoding="chunked", Connection="close")
        for begin in range(0, len(DATA), 50_000):
            self.wfile.write(b"c350\r\n" + DATA[begin : begin + 50_000] + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def nameless(self) -> None:
        """No length; what arrives ends when the connection does."""
        self.start()
        self.wfile.write(DATA)

    def redirect(self) -> None:
        self.start(302, Location="/good")

    def loop(self) -> None:
        self.start(302, Location="/loop")

    def to_a_file(self) -> None:
        self.start(302, Location="file:///etc/hostname")

    def short(self) -> None:
        """Ends after half, each time from the start."""
        self.start(Content_Length=len(DATA))
        self.wfile.write(DATA[:HALF])

    def short_nameless(self) -> None:
        self.start()
        self.wfile.write(DATA[:HALF])

    def flaky(self) -> None:
        """Ends after half the first time."""
        if self.headers["Range"]:
            self.good()
        else:
            self.short()

    def wrong(self) -> None:
        self.start(Content_Length=len(DATA))
        self.wfile.write(bytes(len(DATA)))

    def longer(self) -> None:
        self.start(Content_Length=len(DATA) + 1)
        self.wfile.write(DATA + b"x")

    def bomb(self) -> None:
        """Never ends, without a length."""
        self.start()
        while True:
            self.wfile.write(bytes(1 << 16))

    def large(self) -> None:
        self.start(Content_Length=1 << 31)

    def stall(self) -> None:
        self.start(Content_Length=len(DATA))
        self.wfile.write(DATA[:HALF])
        self.server.left.wait(30)

    def silent(self) -> None:
        self.server.left.wait(30)

    def drip(self) -> None:
        """A byte now and then, so that no read waits for long."""
        self.start(Content_Length=len(DATA))
        for begin in range(1000):
            self.wfile.write(DATA[begin : begin + 1])
            if self.server.left.wait(0.02):
                return

    def elsewhere(self) -> None:
        """Gives another part than was asked for."""
        self.start(206, Content_Length=10, Content_Range=f"bytes 5-14/{len(DATA)}")
        self.wfile.write(DATA[5:15])

    def no_more(self) -> None:
        """Has less than it was asked to go on from."""
        if self.headers["Range"]:
            self.send_error(416)
        else:
            self.whole()

    def missing(self) -> None:
        self.send_error(404)

    def broken(self) -> None:
        self.send_error(500)

    def busy(self) -> None:
        if len(self.server.ranges) < 3:
            self.send_error(503)
        else:
            self.whole()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.left.set()
        made.shutdown()
        thread.join()


def fetch(server: Server, name: str, path: Path, **options: Any) -> Path:
    """Quick to give up."""
    options = {"sha256": SHA256, "size": len(DATA), "timeout": 20.0, "attempts": 2, "pause": 0.01, **options}
    return download(server.url(name), path, opener=DIRECT, **options)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["good", "whole", "chunked", "nameless", "redirect", "flaky", "busy"])
def test_a_server_that_works_in_the_end(server: Server, name: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "net.onnx"
    assert fetch(server, name, path, attempts=3) == path
    assert path.read_bytes() == DATA
    assert files(path.parent) == ["net.onnx"]


@pytest.mark.parametrize(
    ("name", "reason", "left"),
    [
        ("missing", "the server answered 404 Not Found; update mien, since it may have moved", 0),
        ("broken", "the server answered 500 Internal Server Error; check the network", 0),
        ("loop", "the server answered 302 The HTTP server returned a redirect error", 0),
        ("to_a_file", "the server answered 302 Found - Redirection to url 'file:///etc/hostname' is not allowed", 0),
        ("wrong", "its content is not the expected one (another sha256); update mien", 0),
        ("longer", "holds 300001 bytes, not the expected 300000; update mien", 0),
        ("bomb", "sends more than the expected 300000 bytes; update mien", 0),
        ("short", "ended after 150000 of 300000 bytes; check the network and try again", HALF),
        ("short_nameless", "ended after 150000 of 300000 bytes; check the network and try again", HALF),
        ("stall", "no answer for 0.3 s; check the network and try again", HALF),
        ("silent", "no answer for 0.3 s; check the network and try again", 0),
        ("drip", "sent only ", None),
    ],
)
def test_a_server_that_fails_is_one_error_and_no_file(
    server: Server, name: str, reason: str, left: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    began, timeout = time.perf_counter(), {"stall": 0.3, "silent": 0.3, "drip": 1.0}.get(name, 20.0)
    with pytest.raises(DownloadError) as caught:
        fetch(server, name, path, timeout=timeout)
    text = str(caught.value)
    assert text.startswith(f"{server.url(name)}: {reason}") and text.endswith(f", or put the file at {path} yourself")
    assert "\n" not in text
    assert isinstance(caught.value, ConnectionError)
    assert time.perf_counter() - began < 15
    if left is not None:
        assert files(tmp_path) == (["net.onnx.part"] if left else [])
    if left:
        assert (tmp_path / "net.onnx.part").read_bytes() == DATA[:left]
    assert not path.exists()


def test_a_download_that_broke_off_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with pytest.raises(DownloadError):
        fetch(server, "short", path, attempts=1)
    seen: list[int] = []
    fetch(server, "good", path, progress=seen.append)
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert path.read_bytes() == DATA
    assert seen[0] > HALF and seen[-1] == len(DATA) and seen == sorted(seen)
    assert files(tmp_path) == ["net.onnx"]


def test_a_download_that_was_interrupted_keeps_its_part(server: Server, tmp_path: Path) -> None:
    def interrupt(done: int) -> None:
        if done > HALF:
            raise KeyboardInterrupt

    path = tmp_path / "net.onnx"
    with pytest.raises(KeyboardInterrupt):
        fetch(server, "good", path, progress=interrupt)
    (part,) = tmp_path.iterdir()
    kept = part.read_bytes()
    assert part.name == "net.onnx.part" and len(kept) > HALF and DATA.startswith(kept)
    fetch(server, "good", path)
    assert path.read_bytes() == DATA and server.ranges[1] == f"bytes={len(kept)}-"


KILLED = """
import sys
from pathlib import Path
from mien.runtime.download import download, http_opener

url, path, sha256, size = sys.argv[1:]
download(url, Path(path), sha256=sha256, size=int(size), opener=http_opener({}))
"""


def test_a_download_whose_process_was_killed_goes_on_in_the_next(server: Server, tmp_path: Path) -> None:
    path, part = tmp_path / "net.onnx", tmp_path / "net.onnx.part"
    command = [sys.executable, "-c", KILLED, server.url("stall"), str(path), SHA256, str(len(DATA))]
    with subprocess.Popen(command) as process:
        until = time.monotonic() + 30
        while not part.exists() or not part.stat().st_size:
            assert time.monotonic() < until
            time.sleep(0.01)
        process.kill()
    kept = part.stat().st_size
    assert files(tmp_path) == ["net.onnx.part"]
    fetch(server, "good", path)
    assert server.ranges == [None, f"bytes={kept}-"]
    assert path.read_bytes() == DATA and files(tmp_path) == ["net.onnx"]


@pytest.mark.parametrize("name", ["good", "whole", "no_more"])
@pytest.mark.parametrize(
    "part",
    [bytes(1000), DATA[:1000], DATA, bytes(len(DATA)), DATA + b"x"],
    ids=["another", "a part", "whole", "as long", "longer"],
)
def test_whatever_part_lies_there_the_result_is_right(server: Server, name: str, part: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.onnx.part").write_bytes(part)
    path = fetch(server, name, tmp_path / "net.onnx")
    assert path.read_bytes() == DATA
    assert files(tmp_path) == ["net.onnx"]
    assert bool(server.ranges) == (part != DATA)


def test_a_part_from_elsewhere_is_not_put_together_with_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "net.onnx.part").write_bytes(DATA[:1000])
    with pytest.raises(DownloadError, match="sent another part than it was asked for"):
        fetch(server, "elsewhere", tmp_path / "net.onnx")
    assert files(tmp_path) == []


def test_what_is_there_already_is_not_fetched_again_and_what_is_wrong_is_replaced(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(DATA)
    fetch(server, "missing", path)
    assert server.ranges == []
    path.write_bytes(DATA[:-1])
    with pytest.raises(DownloadError):
        fetch(server, "missing", path)
    assert path.read_bytes() == DATA[:-1]
    fetch(server, "good", path, sha256=SHA256.upper())
    assert path.read_bytes() == DATA


def test_many_at_once_fetch_one_file(server: Server, tmp_path: Path) -> None:
    path, failed = tmp_path / "net.onnx", []

    def work() -> None:
        try:
            fetch(server, "good", path)
            assert path.read_bytes() == DATA
        except BaseException as error:  # told below
            failed.append(error)

    for _ in range(5):
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert failed == []
        assert files(tmp_path) == ["net.onnx"]
        path.unlink()


def test_a_second_download_does_not_wait_for_the_first(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    first = threading.Thread(target=lambda: _quietly(lambda: fetch(server, "stall", path, attempts=1, timeout=1.0)))
    first.start()
    while not server.ranges:
        time.sleep(0.005)
    fetch(server, "good", path)
    assert path.read_bytes() == DATA
    first.join(10)
    assert files(tmp_path) == ["net.onnx", "net.onnx.part"]


def _quietly(call: Callable[[], object]) -> None:
    with pytest.raises(DownloadError):
        call()


@pytest.mark.parametrize("name", ["good", "whole", "redirect", "flaky"])
def test_a_file_of_unknown_size(server: Server, name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    fetch(server, name, path, size=0)
    assert path.read_bytes() == DATA and files(tmp_path) == ["net.onnx"]
    fetch(server, "missing", path, size=0)
    (tmp_path / "net.onnx.part").write_bytes(DATA[:1000])
    path.unlink()
    fetch(server, "good", path, size=0)
    assert path.read_bytes() == DATA and server.ranges[-2:] == [None, "bytes=1000-"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nameless", "does not tell its length"),
        ("bomb", "does not tell its length"),
        ("large", "holds 2147483648 bytes, more than any file of weights"),
        ("wrong", "its content is not the expected one (another sha256)"),
        ("missing", "the server answered 404 Not Found"),
        ("silent", "no answer for 0.3 s"),
    ],
)
def test_a_file_of_unknown_size_that_cannot_be_had(server: Server, name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(server, name, tmp_path / "net.onnx", size=0, timeout=0.3 if name == "silent" else 20.0)
    assert str(caught.value).startswith(f"{server.url(name)}: {reason}; ")
    assert files(tmp_path) == []


def test_errors_advise_what_the_caller_says(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"404 Not Found; update mien, since it may have moved, or sing$"):
        fetch(server, "missing", tmp_path / "net.onnx", instead="sing")


def test_no_network(server: Server, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/net"
        with pytest.raises(DownloadError) as caught:
            download(url, tmp_path / "net", sha256=SHA256, size=9, pause=60, opener=DIRECT)
    assert str(caught.value).startswith(f"{url}: cannot be reached (Connection refused); check the network")
    with pytest.raises(DownloadError, match=r"^http://nowhere\.invalid/net: cannot be reached \("):
        download("http://nowhere.invalid/net", tmp_path / "net", sha256=SHA256, size=9, pause=60, opener=DIRECT)
    assert files(tmp_path) == []


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "net.onnx", ""])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="is no http or https address; give another one, or put the file at"):
        download(url, tmp_path / "net", sha256=SHA256, size=9)


def test_a_folder_that_cannot_be_written_is_an_output_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"net\.onnx: cannot be written \(.*\); free space, or choose another folder"):
        fetch(server, "good", tmp_path / "file" / "net.onnx")
