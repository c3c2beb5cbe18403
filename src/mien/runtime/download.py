"""Fetching weights: verified, bounded, resumed, and with a clear end whatever the server does.

The standard library does it. pooch 1.9 was tried: it checks the hash, the short body and a silent server too, but takes
a body of any length before it looks, never ends on a server that sends a byte now and then, cannot go on with a part,
leaves a new temporary file behind each time it is killed, and brings six packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from io import BufferedRandom, BufferedReader
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from mien.errors import DownloadError, OutputError

try:
    import fcntl
except ImportError:  # not there on every system; without it nothing is resumed
    fcntl = None  # type: ignore[assignment]

BLOCK = 1 << 16
SLOWEST = 1000
"""Bytes per second below which a server counts as silent."""
LARGEST = (1 << 31) - 1
"""Bytes of a file whose size was not known beforehand."""


class _BrokenOff(Exception):
    """The transfer ended early, and may succeed if it is tried again."""


def download(
    url: str,
    path: Path,
    *,
    sha256: str,
    size: int,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
    progress: Callable[[int], None] | None = None,
    opener: OpenerDirector | None = None,
    instead: str = "",
) -> Path:
    """Fetch one file whose hash is known beforehand; nothing is fetched when it is there already.

    What arrives goes to `NAME.part` beside it, which takes the name only when it is whole and its hash is right; a part
    that was left by an earlier call is gone on with. Several threads or processes may fetch one file.

    Args:
        sha256, size: of the whole file, in hexadecimal digits and in bytes; no byte more is read. Size 0: the server is
            asked first.
        timeout: seconds without an answer, or with less than 1000 bytes a second, after which the server is given up.
        attempts: how often a transfer may break off; what arrived is kept between them.
        pause: seconds before the second attempt; doubled each time.
        progress: called with the number of bytes that are there.
        opener: how addresses are opened; by default HTTP and HTTPS only, with the proxies of the environment.
        instead: what errors advise at their end; by default to put the file at `path` by hand.

    Raises:
        DownloadError: names the address, the reason and what to do.
        OutputError: the file cannot be written there.
    """
    instead = instead or f"put the file at {path} yourself"
    job = _Job(url, path, sha256.lower(), size, timeout, progress, opener or http_opener(), instead)
    if urlsplit(url).scheme not in ("http", "https"):
        raise job.error("is no http or https address", "give another one")
    if job.is_whole(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _part(path) as file:
            _fill(job, file, attempts, pause)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
    except (DownloadError, OutputError):
        raise
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); free space, or choose another folder"
        ) from error
    return path


def http_opener(proxies: dict[str, str] | None = None) -> OpenerDirector:
    """Opens http and https addresses, and no other, redirected ones included; `proxies` None: the environment's."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(proxies),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPRedirectHandler(),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
        UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


@dataclass(frozen=True, slots=True)
class _Job:
    url: str
    path: Path
    sha256: str
    size: int
    timeout: float
    progress: Callable[[int], None] | None
    opener: OpenerDirector
    instead: str

    def error(self, reason: str, step: str = "check the network and try again") -> DownloadError:
        return DownloadError(f"{self.url}: {reason}; {step}, or {self.instead}")

    def is_whole(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return self.is_right(file)
        except OSError:
            return False

    def is_right(self, file: BufferedReader | BufferedRandom) -> bool:
        """Whether an open file is the one that was asked for."""
        if self.size and file.seek(0, os.SEEK_END) != self.size:
            return False
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


@contextmanager
def _part(path: Path) -> Iterator[BufferedRandom]:
    """The file that takes what arrives: the shared part, or one of our own while another download has that."""
    shared = _shared(path.with_name(f"{path.name}.part"))
    with shared or _own(path) as file:
        try:
            yield file
        except BaseException:
            if shared is None or not os.fstat(file.fileno()).st_size:
                os.unlink(file.name)
            raise


def _own(path: Path) -> BufferedRandom:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    os.close(handle)
    return Path(name).open("a+b")


def _shared(part: Path) -> BufferedRandom | None:
    """The part, locked; None when another process or thread holds it, or has just made the file of it."""
    if fcntl is None:
        return None
    file = part.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), part.stat()):
            return file
    except OSError:
        pass
    file.close()
    return None


def _fill(job: _Job, file: BufferedRandom, attempts: int, pause: float) -> None:
    """Bring the part to its full length and right content."""
    broken = 0
    while True:
        kept = file.seek(0, os.SEEK_END)
        try:
            if not job.size:
                job = replace(job, size=_length(job, file))
            if kept > job.size:
                kept = _empty(file)
            if kept < job.size:
                _fetch(job, file, kept)
        except _BrokenOff as error:
            broken += 1
            if broken >= attempts:
                raise job.error(str(error)) from error
            time.sleep(pause * 2 ** (broken - 1))
            continue
        if job.is_right(file):
            return
        _empty(file)
        if not kept:  # else the part was of something else: once more, from the start
            raise job.error("its content is not the expected one (another sha256)", "update mien")


def _empty(file: BufferedRandom) -> int:
    """Throw the part away; 0, its new length."""
    file.seek(0)
    return file.truncate()


def _length(job: _Job, file: BufferedRandom) -> int:
    """What the server says that the whole file is long."""
    with _opened(job, file, 0) as response:
        length = response.headers.get("Content-Length", "")
    if not length.isdigit() or not int(length):
        raise job.error("does not tell its length", "give another address")
    if int(length) > LARGEST:
        raise job.error(f"holds {int(length)} bytes, more than any file of weights", "update mien")
    return int(length)


def _opened(job: _Job, file: BufferedRandom, kept: int) -> HTTPResponse:
    """The answer, from the byte `kept` on where the server can."""
    request = Request(job.url, headers={"User-Agent": "mien", "Accept-Encoding": "identity"})
    if kept:
        request.add_header("Range", f"bytes={kept}-")
    with _reasons(job, file):
        response: HTTPResponse = job.opener.open(request, timeout=job.timeout)
    return response


def _fetch(job: _Job, file: BufferedRandom, kept: int) -> None:
    with _opened(job, file, kept) as response:
        if response.status != 206 or not _continues(response, kept):
            if response.status == 206:
                _empty(file)
                raise _BrokenOff("sent another part than it was asked for")
            kept = _empty(file)  # the server sends it all
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and int(length) != job.size - kept:
            raise job.error(f"holds {int(length) + kept} bytes, not the expected {job.size}", "update mien")
        _receive(job, response, file, kept)


def _continues(response: HTTPResponse, kept: int) -> bool:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return found is not None and int(found[1]) == kept


def _receive(job: _Job, response: HTTPResponse, file: BufferedRandom, kept: int) -> None:
    since, before = time.monotonic(), kept
    while True:
        with _reasons(job, file):
            block = response.read1(min(BLOCK, job.size - kept + 1))
        if not block:
            break
        kept += len(block)
        if kept > job.size:
            _empty(file)
            raise job.error(f"sends more than the expected {job.size} bytes", "update mien")
        file.write(block)
        if job.progress is not None:
            job.progress(kept)
        if (now := time.monotonic()) - since >= job.timeout:
            if kept - before < SLOWEST * job.timeout and kept < job.size:
                raise _BrokenOff(f"sent only {kept - before} bytes in {now - since:.0f} s")
            since, before = now, kept
    file.flush()
    if kept < job.size:
        raise _BrokenOff(f"ended after {kept} of {job.size} bytes")


@contextmanager
def _reasons(job: _Job, file: BufferedRandom) -> Iterator[None]:
    """What a transfer can raise, as what it means: worth another attempt, or final."""
    try:
        yield
    except HTTPError as error:
        with error:
            text = f"the server answered {error.code} {' '.join(str(error.reason).split())}"
        if error.code == 416:
            _empty(file)  # the part is longer than what lies there
        if error.code in (408, 416, 429) or error.code >= 500:
            raise _BrokenOff(text) from error
        raise job.error(text, "update mien, since it may have moved") from error
    except (URLError, HTTPException, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            raise _BrokenOff(f"no answer for {job.timeout:g} s") from error
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, socket.gaierror | ConnectionRefusedError | ssl.SSLCertVerificationError):
            raise job.error(f"cannot be reached ({text})") from error
        raise _BrokenOff(f"the connection broke ({text})") from error
