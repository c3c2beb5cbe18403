"""Outputs appear whole or not at all: they are written in `OUT.mien/` beside their place and then moved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mien.errors import OutputError
from mien.media.work import NAME_LIMIT, WorkFolder, write_error


def check_output(path: Path) -> None:
    """Raise OutputError where `path` plainly cannot be written."""
    if len(os.fsencode(path.name)) > NAME_LIMIT:
        raise OutputError(f"{path}: the name is too long; use at most {NAME_LIMIT} bytes")
    try:
        is_folder, has_folder = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        raise write_error(path, error) from error
    if is_folder:
        raise OutputError(f"{path}: is a folder; name a file")
    if not has_folder:
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: the folder {path.parent} may not be written to; choose another")


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """A path to write to, moved to `path` at the end and removed on any error."""
    check_output(path)
    work = WorkFolder(path)
    partial = work.file("output")
    try:
        yield partial
        work.publish(partial)
    except OSError as error:
        work.remove()
        raise (error if isinstance(error, OutputError) else write_error(path, error)) from error
    except BaseException:
        work.remove()
        raise
