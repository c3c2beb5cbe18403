"""`OUT.mien/`: the folder beside an output in which it grows, owned by one run at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from mien.errors import OutputError

NAME_LIMIT = 255
"""Bytes of a file's name."""
LOCK = "lock"
"""Name of the file in the folder by which a run owns it."""
_SUFFIX = ".mien"
_MARK = b"The work of a mien run. Delete the folder when no run uses it.\n"


def work_path(output: Path) -> Path:
    """Where the work on `output` lies: same disk, so that moving the result into place is atomic."""
    name = output.name + _SUFFIX
    if len(os.fsencode(name)) > NAME_LIMIT:
        name = f".{hashlib.sha256(os.fsencode(output.name)).hexdigest()[:32]}{_SUFFIX}"
    return output.with_name(name)


class WorkFolder:
    """The folder, locked until `remove` or `release`. A folder that a dead run left is taken over.

    Args:
        keep: leave in it what an interrupted run left.

    Raises:
        OutputError: another run works on this output, or the folder cannot be made.
    """

    def __init__(self, output: Path, *, keep: bool = False) -> None:
        self.output, self.path = output, work_path(output)
        if output.exists() and not output.is_file():
            raise OutputError(f"{output}: is a pipe or a device, which cannot be replaced; name a file")
        self._lock: int | None = None
        try:
            self._lock = _acquire(self.path, output)
            if not keep:
                self._clear()
        except BaseException as error:
            self.release()
            if isinstance(error, OSError) and not isinstance(error, OutputError):
                raise write_error(output, error) from error
            raise

    @property
    def held(self) -> bool:
        """Whether this run owns the folder."""
        return self._lock is not None

    def file(self, name: str) -> Path:
        """Path of a file in the folder."""
        return self.path / name

    def publish(self, partial: Path) -> None:
        """Make a finished file of the folder the output, and remove the folder."""
        try:
            sync(partial)
            os.replace(partial, self.output)
        except OSError as error:
            self.remove()
            raise write_error(self.output, error) from error
        with suppress(OSError):  # Its folder may not be read; the output is there all the same.
            sync_folder(self.output.parent)
        self.remove()

    def remove(self) -> None:
        """Delete the folder and what is in it. Harmless when repeated."""
        if self._lock is None:
            return
        try:
            try:
                self._clear()
                if sys.platform != "win32":
                    (self.path / LOCK).unlink(missing_ok=True)
            finally:
                self.release()
            if sys.platform == "win32":
                with suppress(PermissionError):  # Windows deletes no open file: neither ours nor the next run's.
                    (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):  # the next run may be in it already
                raise OutputError(f"{self.path}: cannot be deleted ({error.strerror}); delete it yourself") from error

    def release(self) -> None:
        """Leave the folder for a later run."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _clear(self) -> None:
        for entry in os.scandir(self.path):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK:
                os.unlink(entry.path)


def _acquire(folder: Path, output: Path) -> int:
    """A locked descriptor of the folder's lock file."""
    while True:
        _make(folder)
        try:
            if _is_foreign(folder):
                raise _foreign(output, folder)
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # Its owner removed it just now.
        except OSError:
            with suppress(OSError):  # Made just now, it is empty.
                folder.rmdir()
            raise
        if not _try_lock(lock):
            os.close(lock)
            raise OutputError(f"{output}: another run is writing it; wait for its end, or choose another output")
        if _same(lock, folder / LOCK):
            _sign(lock, output, folder)
            return lock
        os.close(lock)  # Its owner finished and removed it between our opening and locking.


def _sign(lock: int, output: Path, folder: Path) -> None:
    """Say in a new lock file whose it is; an old one must say it."""
    try:
        found = os.read(lock, len(_MARK))
        if found == b"" and len(os.listdir(folder)) == 1:
            os.write(lock, _MARK)
            os.fsync(lock)
        elif found != _MARK:
            raise _foreign(output, folder)
    except OSError as error:
        if not isinstance(error, OutputError):  # The disk is full: leave nothing.
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        os.close(lock)
        raise


def _foreign(output: Path, folder: Path) -> OutputError:
    return OutputError(f"{output}: {folder} is needed for the work and is not mien's; move it away")


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_symlink() or folder.is_file():
            raise


def _is_foreign(folder: Path) -> bool:
    """True if it holds something and no lock."""
    names = {entry.name for entry in os.scandir(folder)}
    return bool(names) and LOCK not in names


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        """False if another run holds it. File systems without locks let every run in."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True


def sync(path: Path) -> None:
    """Bring a file's bytes to the disk, so that they survive a power loss."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring a folder's names to the disk, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def write_error(path: Path, error: Exception) -> OutputError:
    """An OutputError that names the file and the system's reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OutputError(f"{path}: cannot be written ({reason}); check the disk's space and permissions")
