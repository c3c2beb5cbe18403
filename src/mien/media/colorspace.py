"""Linear maps between RGB and the code values of a pixel format (ITU-R BT.601, 709, 2020; H.273)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mien.types import FloatArray

UNSPECIFIED = 2
"""H.273 code of an untagged matrix, transfer or primaries."""
LIMITED = 1
"""FFmpeg's AVCOL_RANGE_MPEG: 8-bit luma from 16 to 235."""
FULL_RANGE = 2
"""FFmpeg's AVCOL_RANGE_JPEG: black is 0, white the highest code."""
HD_HEIGHT = 720
"""Stored height from which untagged video is read as BT.709; below, as BT.601."""

_BT709, _BT601 = 1, 6
_YCGCO = 8
# H.273 matrix code → (Kr, Kb). 10 (BT.2020 constant luminance) is read as its near twin, 9.
_LUMA = MappingProxyType(
    {
        _BT709: (0.2126, 0.0722),
        4: (0.30, 0.11),
        5: (0.299, 0.114),
        _BT601: (0.299, 0.114),
        7: (0.212, 0.087),
        9: (0.2627, 0.0593),
        10: (0.2627, 0.0593),
    }
)
# H.273 matrix code → libswscale's SWS_CS_*, which knows no YCgCo.
_SWSCALE = MappingProxyType({_BT709: 1, 4: 4, 5: 5, _BT601: 5, 7: 7, 9: 9, 10: 9})


@dataclass(frozen=True, slots=True, eq=False)
class ColorModel:
    """RGB 0–1 to code values, code = forward · rgb + offset, and back."""

    forward: FloatArray
    """(C, 3), C = 3 components, or 1 for grey."""
    offset: FloatArray
    """(C,) codes of black."""
    inverse: FloatArray
    """(3, C + 1): rgb = inverse[:, :C] · code + inverse[:, C]."""
    peak: int
    """Highest code."""

    @property
    def components(self) -> int:
        """3, or 1 for grey."""
        return len(self.offset)

    @classmethod
    def yuv(cls, matrix: int, full_range: bool, depth: int) -> ColorModel:
        """Luma and two colour differences, by H.273 matrix code (see `resolve_matrix`)."""
        luma, chroma, black = _scales(full_range, depth)
        scale = np.array([luma, chroma, chroma])
        grey = float(1 << (depth - 1))
        return cls._build(_yuv_matrix(matrix) * scale[:, None], np.array([black, grey, grey]), depth)

    @classmethod
    def rgb(cls, depth: int) -> ColorModel:
        """Red, green and blue planes, full range."""
        return cls._build(np.eye(3) * ((1 << depth) - 1), np.zeros(3), depth)

    @classmethod
    def grey(cls, matrix: int, full_range: bool, depth: int) -> ColorModel:
        """One luma plane; red, green and blue read the same."""
        scale, _, black = _scales(full_range, depth)
        forward = _yuv_matrix(matrix)[:1] * scale
        return cls._build(forward, np.array([black]), depth, np.full((3, 1), 1 / scale))

    @classmethod
    def _build(
        cls, forward: np.ndarray, offset: np.ndarray, depth: int, inverse: np.ndarray | None = None
    ) -> ColorModel:
        inverse = np.linalg.inv(forward) if inverse is None else inverse
        inverse = np.c_[inverse, -inverse @ offset]
        return cls(_constant(forward), _constant(offset), _constant(inverse), (1 << depth) - 1)


def resolve_matrix(tag: int, height: int) -> int:
    """The H.273 matrix to use: the tag if it is known, else BT.709 from `HD_HEIGHT` lines up and BT.601 below."""
    if tag in _LUMA or tag == _YCGCO:
        return tag
    return _BT709 if height >= HD_HEIGHT else _BT601


def swscale_colorspace(matrix: int) -> int | None:
    """libswscale's number for an H.273 matrix, or None where it has none."""
    return _SWSCALE.get(matrix)


def _constant(array: np.ndarray) -> FloatArray:
    made = np.ascontiguousarray(array, np.float32)
    made.setflags(write=False)
    return made


def _scales(full_range: bool, depth: int) -> tuple[float, float, float]:
    """(luma scale, chroma scale, black) in codes."""
    if full_range:
        peak = float((1 << depth) - 1)
        return peak, peak, 0.0
    step = float(1 << (depth - 8))
    return 219 * step, 224 * step, 16 * step


def _yuv_matrix(matrix: int) -> np.ndarray:
    """(3, 3) from RGB to luma 0–1 and differences −0.5–0.5."""
    if matrix == _YCGCO:
        return np.array([[0.25, 0.5, 0.25], [-0.25, 0.5, -0.25], [0.5, 0.0, -0.5]])
    kr, kb = _LUMA[matrix]
    luma = np.array([kr, 1 - kr - kb, kb])
    blue = (np.array([0.0, 0.0, 1.0]) - luma) / (2 * (1 - kb))
    red = (np.array([1.0, 0.0, 0.0]) - luma) / (2 * (1 - kr))
    return np.stack([luma, blue, red])
