"""What the protocols share: reports, the folder and models of a run, photos and the faces in them."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mien.color import as_bytes
from mien.errors import InputError
from mien.evaluate.protocols.options import ProtocolOptions
from mien.faces import ArrayFrame, FaceFinder
from mien.media import open_reader
from mien.types import ByteArray, Face, FloatArray
from mien.zoo.registry import Zoo

DOCS = "docs/protocols.md"


@dataclass(frozen=True, slots=True)
class Report(ABC):
    """What a protocol measured."""

    protocol: ClassVar[str]
    folder: str
    models: tuple[str, ...]
    """Names of the models that were loaded."""
    notes: tuple[str, ...]
    """What limits the figures, such as faces that were not found."""

    @abstractmethod
    def table(self) -> list[list[str]]:
        """Rows of equal length, a heading first."""

    def lines(self) -> list[str]:
        """The report as text: a table, then the notes."""
        title = f"{self.protocol}: {self.folder}, with {', '.join(self.models) or 'no model'}"
        return [title, *aligned(self.table()), *(f"note: {note}" for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; None for what could not be measured."""
        told: dict[str, Any] = _plain({"protocol": self.protocol, **asdict(self)})
        return told

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), indent=2)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A protocol at work."""

    folder: Path
    options: ProtocolOptions
    zoo: Zoo
    tell: Callable[[int, int], None]
    """Is told what is done, and the number of all."""

    def models(self) -> tuple[str, ...]:
        """Names of the models that were loaded, for the report."""
        return tuple(sorted({card.name for card in self.zoo.loaded}))

    def first(self, names: Sequence[str], what: str) -> Path:
        """The first of these files or folders that is there.

        Raises:
            InputError: none is; names them.
        """
        found = next((self.folder / name for name in names if (self.folder / name).exists()), None)
        if found is None:
            listed = " or ".join(names)
            raise InputError(f"{self.folder}: {what} is missing, looked for {listed}; lay the set out as {DOCS} tells")
        return found


def pixels(path: Path) -> ByteArray:
    """(H, W, 3) RGB uint8 of a photo.

    Raises:
        InputError: it is missing, though the set's list names it.
        MediaError: it cannot be read.
    """
    if not path.exists():
        raise InputError(f"{path}: is missing, though the set's list names it; complete the set as {DOCS} tells")
    with open_reader(path) as reader:
        frame = next(iter(reader))
        return as_bytes(frame.read(frame.box))


def faces_of(finder: FaceFinder, image: ByteArray, *, expressions: bool = False) -> tuple[Face, ...]:
    """The faces of a photo, without embeddings: by a quick search, and by a thorough one where that finds nothing."""
    frame = ArrayFrame(image)
    found = finder(frame, thorough=False, embeddings=False, expressions=expressions)
    return found or finder(frame, embeddings=False, expressions=expressions)


def nearest(faces: Sequence[Face], to: FloatArray) -> Face | None:
    """The face whose bbox has its centre nearest to a (2,) point; None where there is no face."""
    return min(faces, key=lambda face: float(np.linalg.norm(centre(face.bbox) - to)), default=None)


def centre(bbox: FloatArray) -> FloatArray:
    """(2,) centre of a (4,) x0, y0, x1, y1 box."""
    return np.asarray((bbox[:2] + bbox[2:]) / 2, np.float32)


def number(text: str, where: str) -> float:
    """A finite number of a set's list.

    Raises:
        InputError: it is none; names the place.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: {text!r} is no number; take the list from the set's own archive")
    return value


def read_lines(path: Path) -> list[str]:
    """Lines of a set's list, without those that are empty.

    Raises:
        InputError: it is no text.
    """
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}); take it from the set's own archive") from error


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def percent(value: float, digits: int = 2) -> str:
    """A share as a percentage; a dash for what could not be measured."""
    return f"{100 * value:.{digits}f} %" if math.isfinite(value) else "–"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
