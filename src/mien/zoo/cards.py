"""What is known of a model before it is loaded: its weights file, licence and origin."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from mien.errors import ModelError

Task = Literal[
    "detector", "landmarker", "embedder", "converter", "swapper", "enhancer", "masker", "expression", "attribute"
]
TASKS: tuple[Task, ...] = get_args(Task)
Supply = Literal["ships", "pull", "add"]
"""In the wheel; fetched by `mien models pull`; the user's own file, by `mien models add`."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One weights file. Those that ship in the wheel lie under `mien/weights`; users pull or add the others."""

    file: str
    """Its usual name."""
    sha256: str = ""
    """Empty where it is not known."""
    size: int = 0
    """Bytes; 0 where it is not known."""
    urls: tuple[str, ...] = ()
    """Where it can be fetched, first choice first; empty where nobody may or where a hash is not known."""
    bundled: bool = True
    """Whether it ships in the wheel."""

    @property
    def path(self) -> Path:
        """Where a bundled file lies on this machine."""
        return Path(str(files("mien") / "weights" / self.file))

    def checked(self) -> Path:
        """The path of a bundled file, once it is known to be the one that was shipped: a millisecond per megabyte.

        Raises:
            ModelError: it is missing, cut or altered.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ModelError(f"{self.path}: cannot be read ({error.strerror}); install mien again") from error
        if len(data) != self.size:
            raise ModelError(f"{self.path}: is damaged ({len(data)} bytes of {self.size}); install mien again")
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ModelError(f"{self.path}: is damaged (its sha256 is not the one it shipped with); install mien again")
        return self.path


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a user must know of a model before using it."""

    name: str
    task: Task
    licence: str
    """SPDX identifier, or `LicenseRef-…` with words that say what it allows."""
    commercial: bool
    """Whether the licence of the weights allows commercial use."""
    origin: str
    weights: Weights | None = None
    """None for a model without a network."""

    @property
    def bundled(self) -> Weights | None:
        """The weights, where they ship in the wheel."""
        return self.weights if self.weights is not None and self.weights.bundled else None

    @property
    def supply(self) -> Supply:
        """How its weights come to a user."""
        if self.weights is None or self.weights.bundled:
            return "ships"
        return "pull" if self.weights.urls and self.weights.sha256 else "add"

    @property
    def next_step(self) -> str:
        """What to run to install it; empty for what ships."""
        match self.supply:
            case "pull":
                return f"run `mien models pull {self.name}`"
            case "add" if self.weights is not None:
                get = f"get {self.weights.file} ({self.origin})"
                return f"{get}, then run `mien models add FILE --as {self.name}`"
            case _:
                return ""
