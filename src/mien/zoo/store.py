"""The folder of weights that do not ship with mien: what users pulled, and files of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mien.errors import ModelError
from mien.zoo.cards import Task

FOLDER = "MIEN_CACHE"
"""Environment variable that names the cache folder."""


def cache_folder() -> Path:
    """Where mien keeps what it can make or fetch again: `MIEN_CACHE`, else the system's cache folder (XDG)."""
    if chosen := os.environ.get(FOLDER):
        return Path(chosen)
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "mien"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mien"


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


class Store:
    """Weights by task and name; each is a file and a `.json` beside it that tells what it is.

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
        path = self.folder / task / f"{name}.json"
        try:
            return Installed(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{path}: cannot be read; `mien models remove {name}`, then add it again") from error

    def path(self, installed: Installed) -> Path:
        """Where its weights lie."""
        return self.folder / installed.task / installed.file

    def all(self) -> Mapping[tuple[Task, str], Installed]:
        """Everything that is installed, by task and name."""
        found = {}
        for path in sorted(self.folder.glob("*/*.json")):
            try:
                one = Installed(**json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # `find` tells it to whoever asks for this one
            found[one.task, one.name] = one
        return found

    def describe(self, installed: Installed) -> str:
        """The text of its `.json` file."""
        return json.dumps(asdict(installed), indent=2)
