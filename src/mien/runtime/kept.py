"""What is made of a model once and kept: named by content, written whole or not at all, safe between processes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mien.errors import ModelError, OutputError

try:
    import fcntl
except ImportError:  # not there on every system; without it two processes may do the same work, with the same result
    fcntl = None  # type: ignore[assignment]


def sha256_of(model: Path | bytes) -> str:
    """Of a model's file or its bytes, in hexadecimal digits: about a millisecond a megabyte.

    Raises:
        ModelError: the file cannot be read.
    """
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    try:
        with model.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{model}: cannot be read ({error.strerror}); verify the file, or fetch it again") from error


def key_of(*parts: object) -> str:
    """A short name for what was made under these circumstances."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a file that others only ever see whole, also after the machine lost its power.

    Args:
        lasting: wait until it is on the disk.

    Raises:
        OutputError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); free space, or name another folder in MIEN_CACHE"
        ) from error


def write_json(path: Path, values: Mapping[str, Any], *, lasting: bool = True) -> None:
    """Keep a small record; see `write_whole`."""
    write_whole(path, json.dumps(values, indent=2, sort_keys=True).encode(), lasting=lasting)


def read_json(path: Path) -> dict[str, Any] | None:
    """A record, or None when there is none that can be read: it is then made anew."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes and threads that ask for the same path waiting, so that work is done once.

    Raises:
        OutputError: the folder cannot be written to.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise OutputError(
            f"{lock}: cannot be written ({error.strerror}); free space, or name another folder in MIEN_CACHE"
        ) from error
    with file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
