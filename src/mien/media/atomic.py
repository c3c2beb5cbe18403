"""Outputs appear whole or not at all: they are written beside their place and then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mien.errors import OutputError

_NAME_LIMIT = 255


def check_output(path: Path) -> None:
    """Raise OutputError where `path` plainly cannot be written."""
    if len(os.fsencode(path.name)) > _NAME_LIMIT:
        raise OutputError(f"{path}: the name is too long; use at most {_NAME_LIMIT} bytes")
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: the folder {path.parent} may not be written to; choose another")


def partial_path(path: Path) -> Path:
    """A fresh hidden name beside `path`: same disk, so that the rename is atomic; short, since names have a limit."""
    return path.with_name(f".mien-{secrets.token_hex(6)}.part")


def commit(partial: Path, path: Path) -> None:
    """Move a finished partial file into place."""
    try:
        os.replace(partial, path)
    except OSError as error:
        discard(partial)
        raise write_error(path, error) from error


def discard(partial: Path) -> None:
    """Remove a partial file, if it is there."""
    partial.unlink(missing_ok=True)


def write_error(path: Path, error: Exception) -> OutputError:
    """An OutputError that names the file and the system's reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OutputError(f"{path}: cannot be written ({reason}); check the disk's space and permissions")


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """A partial path to write to, moved to `path` at the end and removed on any error."""
    check_output(path)
    partial = partial_path(path)
    try:
        yield partial
    except OSError as error:
        discard(partial)
        raise (error if isinstance(error, OutputError) else write_error(path, error)) from error
    except BaseException:
        discard(partial)
        raise
    commit(partial, path)
