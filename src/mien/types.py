"""Value objects that every part of mien speaks. Coordinates are pixels, x right, y down, in the
frame's display orientation; the centre of the top-left pixel is (0, 0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
"""float32 array."""
ByteArray: TypeAlias = npt.NDArray[np.uint8]
"""uint8 array."""
Image: TypeAlias = npt.NDArray[Any]
"""H×W×3 RGB, uint8 or float32 in 0–1."""


@dataclass(frozen=True, slots=True)
class Box:
    """Half-open integer rectangle: columns x0 ≤ x < x1, rows y0 ≤ y < y1, in pixels."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.x1 - self.x0

    @property
    def height(self) -> int:
        """Rows."""
        return self.y1 - self.y0

    @property
    def empty(self) -> bool:
        """True when the box holds no pixel."""
        return self.x1 <= self.x0 or self.y1 <= self.y0

    def clip(self, width: int, height: int) -> Box:
        """The part inside a frame of width × height pixels."""
        return Box(max(self.x0, 0), max(self.y0, 0), min(self.x1, width), min(self.y1, height))


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """One detector hit."""

    bbox: FloatArray
    """(4,) x0, y0, x1, y1 in pixels."""
    score: float
    """0–1."""
    keypoints: FloatArray
    """(5, 2) left eye, right eye, nose tip, left and right mouth corner; left = smaller x when upright."""
    guessed: bool = False
    """Whether the keypoints are only where those of most faces lie in such a box: the detector gives none."""


@dataclass(frozen=True, slots=True, eq=False)
class Face:
    """One face in one frame."""

    bbox: FloatArray
    """(4,) x0, y0, x1, y1 in pixels, from the detector."""
    score: float
    """Detector score, 0–1."""
    keypoints: FloatArray
    """(5, 2) pixels; the template order of `geometry.TEMPLATES`."""
    mesh: FloatArray
    """(478, 3) x, y in pixels, z on the same scale (smaller = nearer); 468–477 are the irises."""
    presence: float
    """Landmarker confidence, 0–1."""
    embedding: FloatArray | None = None
    """(D,) L2-normalised identity embedding."""
    blendshapes: FloatArray | None = None
    """(52,) expression scores, 0–1."""
    shape: FloatArray | None = None
    """(468, 3) neutral shape of the person, cm in the canonical frame; see `mien.shape`."""
    track: int = -1
    """Track number within the clip; −1 when untracked."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """What a swapper, enhancer or editor hands to the paste."""

    rgb: FloatArray
    """(H, W, 3) 0–1, in the crop's pixels."""
    mask: FloatArray
    """(H, W) 0–1; 0 leaves the frame untouched."""
