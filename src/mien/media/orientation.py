"""The eight ways in which stored pixels are turned to be shown upright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mien.types import Box


@dataclass(frozen=True, slots=True)
class Orientation:
    """Stored → shown: transpose first, then mirror left-right, then top-bottom."""

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @classmethod
    def from_exif(cls, value: int) -> Orientation:
        """From EXIF tag 0x0112 (1–8); any other value means upright."""
        transpose = value in (5, 6, 7, 8)
        return cls(transpose, value in (2, 3, 6, 7), value in (3, 4, 7, 8))

    @classmethod
    def from_matrix(cls, matrix: Sequence[int] | None) -> Orientation:
        """From FFmpeg's 3×3 display matrix (9 integers, or None); other angles go to the nearest quarter turn.

        A stored pixel (p, q) is shown at x = a·p + c·q, y = b·p + d·q.
        """
        if matrix is None:
            return cls()
        a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
        if abs(c) > abs(a):
            return cls(True, c < 0, b < 0)
        return cls(False, a < 0, d < 0)

    @property
    def rotation(self) -> int:
        """Counter-clockwise degrees (0, 90, 180, 270) that show the stored pixels upright, mirroring aside."""
        if self.transpose:
            return 90 if self.flip_y else 270
        return 180 if self.flip_y else 0

    @property
    def mirrored(self) -> bool:
        """True when the stored pixels are a mirror image, which no rotation alone undoes."""
        return (self.transpose + self.flip_x + self.flip_y) % 2 == 1

    def size(self, width: int, height: int) -> tuple[int, int]:
        """(width, height) as shown, from the stored ones, and the other way round."""
        return (height, width) if self.transpose else (width, height)

    def apply(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Stored (H, W[, C]) to shown; the array itself when nothing turns."""
        if self.transpose:
            array = _transpose(array)
        return _flip(array, self.flip_x, self.flip_y)

    def undo(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Shown (H, W[, C]) to stored."""
        array = _flip(array, self.flip_x, self.flip_y)
        return _transpose(array) if self.transpose else array

    def to_stored(self, box: Box, width: int, height: int) -> Box:
        """A box of a frame shown at width × height, in stored pixels."""
        x0, x1 = (width - box.x1, width - box.x0) if self.flip_x else (box.x0, box.x1)
        y0, y1 = (height - box.y1, height - box.y0) if self.flip_y else (box.y0, box.y1)
        return Box(y0, x0, y1, x1) if self.transpose else Box(x0, y0, x1, y1)


def _transpose(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # cv2 is several times faster than a copy of NumPy's transposed view.
    return np.asarray(cv2.transpose(array)).reshape(array.shape[1], array.shape[0], *array.shape[2:])


def _flip(array: npt.NDArray[Any], x: bool, y: bool) -> npt.NDArray[Any]:
    if not (x or y):
        return array
    flipped = cv2.flip(array, -1 if x and y else 1 if x else 0)
    return np.asarray(flipped).reshape(array.shape)
