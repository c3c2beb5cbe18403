"""Temporal stability: how much the face's surface flickers from frame to frame, the motion taken out by the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt

from mien.color import as_float, to_lab
from mien.mesh import SURFACE, interpolate, rasterise, signed_area, topology
from mien.types import FloatArray, Image

GRID = 96
"""Side of the UV map that faces are compared on."""
BLUR = 0.01
"""Width of the blur before sampling, as a share of the face: finer detail is the mesh's own noise."""
FLOOR = 0.01
"""Energy that nobody sees, L²."""


def face_map(image: Image, mesh: FloatArray | None) -> FloatArray:
    """(GRID, GRID) lightness L* of a face in UV space; NaN where the mesh faces away, or without one.

    Args:
        image: (H, W, 3) RGB.
        mesh: (478, 3) in its pixels.
    """
    if mesh is None:
        return np.full((GRID, GRID), np.nan, np.float32)
    points = mesh[:SURFACE, :2]
    extent = float(np.ptp(points, axis=0).max())
    low = np.floor(points.min(0) - 0.1 * extent).astype(int).clip(0)
    high = np.ceil(points.max(0) + 0.1 * extent).astype(int) + 1
    part = image[low[1] : high[1], low[0] : high[0]]
    if part.size == 0:
        return np.full((GRID, GRID), np.nan, np.float32)
    light = to_lab(as_float(np.ascontiguousarray(part)))[..., 0]
    light = np.asarray(cv2.GaussianBlur(light, (0, 0), max(0.5, BLUR * extent)), np.float32)
    where = interpolate(_ids(), _uv(), np.asarray(points - low, np.float32))
    found = cv2.remap(light, where[..., 0], where[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    facing = signed_area(points, topology().triangles) > 0
    seen = (_ids() >= 0) & facing[np.maximum(_ids(), 0)]
    return np.where(seen, found, np.float32(np.nan)).astype(np.float32)


def flicker_energy(maps: Sequence[FloatArray]) -> float:
    """Mean square of the second difference in time of face maps in order, L²; NaN for fewer than three.

    A steady change, such as a light that is turned up or a turning head, has none.
    """
    if len(maps) < 3:
        return float("nan")
    series = np.stack(maps).astype(np.float64)
    second = series[2:] - 2 * series[1:-1] + series[:-2]
    known = np.isfinite(second)
    return float((second[known] ** 2).mean()) if known.any() else float("nan")


def flicker(before: Sequence[FloatArray], after: Sequence[FloatArray]) -> float:
    """ln of the flicker energy of the output over the target's; 0 where it is the same."""
    return float(np.log((flicker_energy(after) + FLOOR) / (flicker_energy(before) + FLOOR)))


@cache
def _uv() -> FloatArray:
    return np.asarray(topology().uv * GRID - 0.5, np.float32)


@cache
def _ids() -> npt.NDArray[np.int32]:
    """(GRID, GRID) triangle of each texel, −1 outside the face."""
    return rasterise(_uv(), None, GRID, GRID)
