"""The folder of weights that do not ship with mien: what users pulled, and files of their own.

Each is a file, whose name holds the start of its sha256, and a `.json` beside it that tells what it is. The file comes
first, whole, and the `.json` takes its name at once; so whenever a process is killed, what the `.json` tells is there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mien.errors import MienError, ModelError, OutputError
from mien.zoo.cards import TASKS, Task
from mien.zoo.locks import locked, try_lock

FOLDER = "MIEN_CACHE"
"""Environment variable that names the cache folder."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TEMPORARY = re.compile(r"\.(?P<name>.+)~[^~]+\.tmp")


def cache_folder() -> Path:
    """Where mien keeps what it can make or fetch again: `MIEN_CACHE`, else the system's cache folder (XDG).

    Raises:
        OutputError: the environment names neither, nor does the system know a home folder of this user.
    """
    if chosen := os.environ.get(FOLDER):
        return Path(chosen)
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "mien"
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mien"
    except RuntimeError as error:
        raise OutputError(f"this user has no home folder to keep models in; name a folder in {FOLDER}") from error


def is_name(name: str) -> bool:
    """Whether a model can be called so: letters, digits, `.`, `_` and `-`, at most 64, and no file's ending."""
    return _NAME.fullmatch(name) is not None and not name.endswith((".", ".onnx", ".dfm", ".json", ".part", ".tmp"))


@dataclass(frozen=True, slots=True)
class Installed:
    """One file of the store."""

    name: str
    """What users call it: the registered name, or one of their own."""
    task: Task
    family: str
    """Registered name whose class runs it."""
    file: str
    """Within the folder of its task."""
    sha256: str
    size: int
    """Bytes."""

    def __post_init__(self) -> None:
        texts = (self.name, self.task, self.family, self.file, self.sha256)
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.size, int):
            raise ValueError("values of other types")
        if self.task not in TASKS or not is_name(self.name) or Path(self.file).name != self.file:
            raise ValueError("no task or no name")


class Store:
    """Weights by task and name. Every call looks into the folder anew, so what others add is seen at once.

    Args:
        folder: where they lie; by default `models` in the cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_folder() / "models" if folder is None else folder

    def find(self, task: Task, name: str) -> Installed | None:
        """What is installed under this name.

        Raises:
            ModelError: its description is damaged.
        """
        if not is_name(name):
            return None
        path = self._description(task, name)
        try:
            return _read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{path}: cannot be read; `mien models remove {name}`, then add it again") from error

    def path(self, installed: Installed) -> Path:
        """Where its weights lie."""
        return self.folder / installed.task / installed.file

    def all(self) -> Mapping[tuple[Task, str], Installed]:
        """Everything that is installed, by task and name, but what has a damaged description."""
        found = {}
        for task, name in self.names():
            try:
                found[task, name] = _read(self._description(task, name))
            except (OSError, ValueError, TypeError):
                continue  # `find` tells it to whoever asks for this one
        return found

    def names(self) -> tuple[tuple[Task, str], ...]:
        """Task and name of everything that is described, well or not."""
        paths = [(task, path.stem) for task in TASKS for path in sorted((self.folder / task).glob("*.json"))]
        return tuple((task, name) for task, name in paths if is_name(name))

    def describe(self, installed: Installed) -> str:
        """The text of its `.json` file."""
        return json.dumps(asdict(installed), indent=2)

    def place(self, task: Task, name: str, sha256: str) -> Path:
        """Where weights of this content lie when they are installed under this name."""
        return self.folder / task / f"{name}.{sha256[:16]}.onnx"

    @contextmanager
    def changing(self, task: Task, name: str, waiting: Callable[[], None] | None = None) -> Iterator[Path]:
        """Alone with what is called so, over all processes, until the block ends. Gives the folder of the task.

        Raises:
            OutputError: the folder cannot be written to.
        """
        folder = self.folder / task
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(self._lock(task, name), waiting):
                yield folder
        except MienError:  # some are OSErrors too
            raise
        except OSError as error:
            raise OutputError(
                f"{error.filename or folder}: cannot be written ({error.strerror}); free space, or choose another "
                f"cache folder with {FOLDER}"
            ) from error
        with suppress(OSError):
            self._sweep()

    @contextmanager
    def temporary(self, task: Task, name: str) -> Iterator[Path]:
        """A file to write to, within `changing`; gone afterwards unless it was moved to its place."""
        path = self.folder / task / f".{name}~{secrets.token_hex(8)}.tmp"
        path.open("xb").close()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def apart(self, task: Task, name: str) -> Iterator[Path]:
        """As `temporary`, but outside of `changing`: what is tried out for long keeps nobody of this name waiting.

        Raises:
            OutputError: the folder cannot be written to.
        """
        own = f"{name}~{secrets.token_hex(8)}"
        with self.changing(task, own), self.temporary(task, own) as path:
            yield path

    def install(self, installed: Installed) -> None:
        """Make its file, which lies at its place, the one of this name; within `changing`."""
        with self.temporary(installed.task, installed.name) as path:
            with path.open("w", encoding="utf-8") as file:
                file.write(self.describe(installed))
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, self._description(installed.task, installed.name))
        sync_folder(self.folder / installed.task)
        self.clean(installed.task, installed.name, keep=installed.file)

    def forget(self, task: Task, name: str) -> None:
        """Delete the description and then the files of this name; within `changing`."""
        self._description(task, name).unlink(missing_ok=True)
        self.clean(task, name)

    def clean(self, task: Task, name: str, keep: str = "") -> None:
        """Delete the weights of this name, whole or in part, but for the file called `keep`; within `changing`."""
        mine = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{16}}\.onnx(\..+)?")
        for path in (self.folder / task).iterdir():
            if path.name != keep and mine.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete temporaries that killed processes left: nobody holds the lock of their name."""
        for task in TASKS:
            for path in (self.folder / task).glob(".*~*.tmp"):
                found = _TEMPORARY.fullmatch(path.name)
                if found is not None and try_lock(self._lock(task, found["name"])):
                    path.unlink(missing_ok=True)
            for path in (self.folder / task).glob(".*~*.lock"):  # of `apart`, whose names nobody takes again
                if try_lock(path):
                    path.unlink(missing_ok=True)

    def _description(self, task: Task, name: str) -> Path:
        return self.folder / task / f"{name}.json"

    def _lock(self, task: Task, name: str) -> Path:
        return self.folder / task / f".{name}.lock"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a power loss, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path) -> Installed:
    installed = Installed(**json.loads(path.read_bytes()))
    if (installed.task, installed.name) != (path.parent.name, path.stem):
        raise ValueError("another model's description")
    return installed
