"""One at a time, over threads and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path

try:
    import fcntl
except ImportError:  # not there on every system; without it two may do the same work, and the later one's stays
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at `path`. It is gone afterwards, and a process that was killed holds nothing.

    Args:
        waiting: called once when another has it.

    Raises:
        OSError: the file cannot be made.
    """
    if fcntl is None:
        yield
        return
    file = _acquire(path, waiting)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: who waits for it sees that it is gone, and makes another
        file.close()


def try_lock(path: Path) -> bool:
    """Whether nobody holds the lock file at `path`, which may be there or not."""
    if fcntl is None or not path.exists():
        return fcntl is not None
    with path.open("a+b") as file:
        return _take(file, wait=False)


def _acquire(path: Path, waiting: Callable[[], None] | None) -> BufferedRandom:
    told = False
    while True:
        file = path.open("a+b")
        try:
            if not _take(file, wait=False):
                if waiting is not None and not told:
                    told = True
                    waiting()
                _take(file, wait=True)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()


def _take(file: BufferedRandom, *, wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
