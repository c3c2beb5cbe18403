"""Pixels that are not square: a frame is handed out as it is shown, and edits are brought back to its samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import cv2
import numpy as np
import numpy.typing as npt

from mien.types import Box, FloatArray, Image

_WIDEST = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Enlarges the side along which pixels are long, so that nothing is lost; sizes and boxes are upright."""

    x: float = 1.0
    """Columns as shown per column of samples, 1 or more."""
    y: float = 1.0
    """Rows as shown per row of samples, 1 or more."""

    @classmethod
    def of(cls, aspect: Fraction, width: int, height: int) -> Stretch | None:
        """For pixels `aspect` times as wide as high, of a frame of that size; None for square ones.

        Shapes beyond 4:1, which no camera makes, are taken for a mistake.
        """
        if aspect == 1 or not Fraction(1, _WIDEST) <= aspect <= _WIDEST:
            return None
        if aspect > 1:
            return cls(x=round(width * aspect) / width)
        return cls(y=round(height / aspect) / height)

    def size(self, width: int, height: int) -> tuple[int, int]:
        """(width, height) as shown, from that of the samples."""
        return round(width * self.x), round(height * self.y)

    def source(self, box: Box, width: int, height: int) -> Box:
        """The samples, of width × height, that a box as shown depends on."""
        x0, x1 = math.floor((box.x0 + 0.5) / self.x - 0.5), math.ceil((box.x1 - 0.5) / self.x - 0.5) + 1
        y0, y1 = math.floor((box.y0 + 0.5) / self.y - 0.5), math.ceil((box.y1 - 0.5) / self.y - 0.5) + 1
        return Box(x0, y0, x1, y1).clip(width, height)

    def show(self, image: Image, source: Box, box: Box) -> Image:
        """The box as shown, from the image of `source`; linear."""
        return _warp(image, self._matrix(source, box), box, cv2.BORDER_REPLICATE)

    def undo(self, change: FloatArray, box: Box, source: Box) -> FloatArray:
        """What a change of the box as shown is for the samples of `source`; 0 beyond the box."""
        matrix = np.linalg.inv(np.vstack([self._matrix(source, box), [0, 0, 1]]))[:2]
        return np.asarray(_warp(change, matrix, source, cv2.BORDER_CONSTANT), np.float32)

    def _matrix(self, source: Box, box: Box) -> npt.NDArray[np.float64]:
        """(2, 3) from the pixels of `box` to those of `source`; pixel centres are whole."""
        x = (box.x0 + 0.5) / self.x - 0.5 - source.x0
        y = (box.y0 + 0.5) / self.y - 0.5 - source.y0
        return np.array([[1 / self.x, 0, x], [0, 1 / self.y, y]], np.float64)


def _warp(image: Image, matrix: npt.NDArray[np.float64], box: Box, border: int) -> Image:
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(image, matrix, (box.width, box.height), flags=flags, borderMode=border))
