"""What the parts of an animation are, when each is shown, and how they make up whole pictures."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mien.types import Box

Disposal = Literal["keep", "clear", "restore"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One picture of an animation, as stored."""

    box: Box
    """Where on the canvas it is drawn."""
    duration: Fraction
    """Seconds."""
    disposal: Disposal
    """What happens to its box before the next piece is drawn."""
    over: bool
    """Whether it is blended over what is there, or replaces it."""
    spans: tuple[tuple[int, int], ...]
    """(start, stop) bytes of the file that hold its samples."""
    clear: int | None = None
    """Index that is transparent, for GIF."""
    palette: tuple[int, int] | None = None
    """Bytes of the file that hold its colours, for GIF."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The order of events of an animation, or the pages of a TIFF."""

    width: int
    """Pixels, as stored."""
    height: int
    durations: tuple[Fraction | None, ...]
    """Seconds of each frame; None for pages."""
    plays: int = 0
    """How often the whole is shown; 0 is for ever."""
    pieces: tuple[Piece, ...] = ()
    pages: tuple[int, ...] = ()
    """For TIFF, which of its pictures are pages."""
    orientation: int = 1
    """EXIF orientation."""
    notes: tuple[str, ...] = ()

    @property
    def duration(self) -> Fraction | None:
        """Seconds of all frames; None for pages."""
        total = Fraction(0)
        for duration in self.durations:
            if duration is None:
                return None
            total += duration
        return total


class Canvas:
    """Draws the pieces of an animation over each other.

    Args:
        shape: (H, W, C); the last channel is alpha if C is 2 or 4.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: npt.DTypeLike) -> None:
        self._array: npt.NDArray[Any] = np.zeros(shape, dtype)
        self._last: tuple[Box, Disposal, npt.NDArray[Any] | None] | None = None

    def draw(self, piece: Piece, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The whole picture (H, W, C) once the piece (h, w, C) is drawn; a copy."""
        self._dispose()
        box = piece.box
        place = self._array[box.y0 : box.y1, box.x0 : box.x1]
        self._last = (box, piece.disposal, place.copy() if piece.disposal == "restore" else None)
        samples = samples[: place.shape[0], : place.shape[1]]
        if piece.over and samples.shape[2] in (2, 4):
            _blend(place, samples)
        else:
            place[:] = samples
        return self._array.copy()

    def _dispose(self) -> None:
        if self._last is None:
            return
        box, disposal, before = self._last
        if disposal == "clear":
            self._array[box.y0 : box.y1, box.x0 : box.x1] = 0
        elif before is not None:
            self._array[box.y0 : box.y1, box.x0 : box.x1] = before


def _blend(below: npt.NDArray[Any], above: npt.NDArray[Any]) -> None:
    """Put `above` over `below`, in place; exact where it is opaque or fully transparent."""
    peak = int(np.iinfo(below.dtype).max)
    alpha = above[..., -1]
    opaque = alpha == peak
    below[opaque] = above[opaque]
    mixed = (alpha > 0) & ~opaque
    if mixed.any():
        top, bottom = above[mixed].astype(np.float64), below[mixed].astype(np.float64)
        a, b = top[:, -1:] / peak, bottom[:, -1:] / peak
        total = a + b * (1 - a)
        colors = (top[:, :-1] * a + bottom[:, :-1] * b * (1 - a)) / total
        below[mixed] = np.rint(np.concatenate([colors, total * peak], axis=1)).astype(below.dtype)
