"""A web server of weights, for tests of what fetches them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FileServer:
    """Serves bytes by path, and parts of them."""

    address: str
    files: dict[str, bytes]
    stalls: set[str] = field(default_factory=set)
    """Paths whose whole is sent by half, and then nothing more."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range header of each request."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set at the end."""

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[FileServer]:
    """A server on this machine, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            path, asked = self.path.strip("/"), self.headers["Range"]
            made.asked.append((path, asked))
            data = made.files.get(path)
            if data is None:
                self.send_error(404)
                return
            begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - begin))
            self.end_headers()
            if path in made.stalls and not asked:
                self.wfile.write(data[: len(data) // 2])
                made.left.wait(60)
            else:
                self.wfile.write(data[begin:])

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that has gone is no error of the test."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made = FileServer(f"http://127.0.0.1:{server.server_port}", dict(files))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.left.set()
            server.shutdown()
            thread.join()
