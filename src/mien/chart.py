"""A target's face on a small grid: where the mesh is seen, its UV coordinates, its border and its open mouth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np

from mien.atlas import atlas
from mien.color import smooth
from mien.mesh import MOUTH, SURFACE, interpolate, polygon_mask, rasterise, topology
from mien.texture import sample, surface
from mien.types import FloatArray

GRID = 256
"""Longest side of the usual grid."""
FEATHER = (0.02, 0.05)
"""Width of the soft border along jaw and temples, and on the forehead, as a share of the face."""
FOREHEAD = 0.4
"""v of the UV map above which the border begins to widen."""
OPEN = (0.04, 0.12)
"""Height over width of the mouth's inside at which the target's inside begins to show, and shows fully."""


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A crop's grid: what is smooth is made here."""

    width: int
    height: int
    extent: float
    """Side of the face in grid pixels."""
    inside: FloatArray
    """(h, w) 0/1 where the mesh is seen."""
    uv: FloatArray
    """(h, w, 2) 0–1, continued outside the mesh."""


def chart_in(mesh: FloatArray, width: int, height: int) -> Chart:
    """The chart of a (478, 3) mesh on the usual grid over a crop of width × height pixels."""
    return charted_in(mesh, width, height, np.empty((SURFACE, 0), np.float32))[0]


def charted_in(mesh: FloatArray, width: int, height: int, values: FloatArray) -> tuple[Chart, FloatArray]:
    """That chart, and (h, w, C) values of the (468, C) surface points on it; 0 outside of the mesh."""
    shrink = min(1.0, GRID / max(width, height))
    small = max(1, round(width * shrink)), max(1, round(height * shrink))
    scale = np.array([small[0] / width, small[1] / height], np.float32)
    points = np.asarray((mesh[:SURFACE, :2] + 0.5) * scale - 0.5, np.float32)
    return _charted(points, mesh[:SURFACE, 2], *small, values)


def chart_of(points: FloatArray, depth: FloatArray, width: int, height: int) -> Chart:
    """The chart of a mesh.

    Args:
        points: (468, 2) in the grid's pixels.
        depth: (468,) smaller is nearer.
    """
    return _charted(points, depth, width, height, np.empty((SURFACE, 0), np.float32))[0]


def _charted(
    points: FloatArray, depth: FloatArray, width: int, height: int, values: FloatArray
) -> tuple[Chart, FloatArray]:
    ids = rasterise(points, depth, width, height)
    inside = (ids >= 0).astype(np.float32)
    found = interpolate(ids, points, np.concatenate([topology().uv, values], axis=1))
    uv = found[..., :2]
    uv = np.where(inside[..., None] > 0, uv, smooth(uv, inside, 2.0))
    return Chart(width, height, float(np.ptp(points, axis=0).max()), inside, uv.astype(np.float32)), found[..., 2:]


def shifted(chart: Chart, shift: FloatArray) -> Chart:
    """The chart with its UV coordinates read from elsewhere: each pixel's from (h, w, 2) `shift` away, x then y."""
    rows, columns = np.mgrid[: chart.height, : chart.width].astype(np.float32)
    uv = cv2.remap(
        chart.uv, columns + shift[..., 0], rows + shift[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return replace(chart, uv=np.asarray(uv, np.float32))


def border(chart: Chart) -> FloatArray:
    """(h, w) rises from 0 at the mesh's outline to 1; the frame's own edge is no outline."""
    padded = cv2.copyMakeBorder(chart.inside.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    distance = cv2.distanceTransform(padded, cv2.DIST_L2, 5)[1:-1, 1:-1]
    # On the forehead there is skin on both sides, and a wide border shows least; at the jaw there is not.
    top = np.clip((FOREHEAD - chart.uv[..., 1]) / (0.5 * FOREHEAD), 0, 1)
    width = np.maximum(1.0, (FEATHER[0] + (FEATHER[1] - FEATHER[0]) * top) * chart.extent)
    ramp = np.clip(distance / width, 0, 1)
    return np.asarray(ramp * ramp * (3 - 2 * ramp), np.float32)


def mouth(mesh: FloatArray, width: int, height: int, softness: float) -> FloatArray:
    """(height, width) 1 inside an open mouth, where the target's teeth and tongue stay."""
    gap = np.linalg.norm(mesh[13, :2] - mesh[14, :2]) / max(float(np.linalg.norm(mesh[78, :2] - mesh[308, :2])), 1e-3)
    share = np.clip((gap - OPEN[0]) / (OPEN[1] - OPEN[0]), 0, 1)
    if share <= 0:
        return np.zeros((height, width), np.float32)
    inner = polygon_mask(mesh[list(MOUTH), :2], width, height)
    return np.asarray(share * cv2.GaussianBlur(inner, (0, 0), max(0.7, softness)), np.float32)


def visible(masks: Mapping[str, FloatArray] | None, chart: Chart) -> FloatArray:
    """(h, w) 0–1 where nothing is in front of the face; masks of any size over the same crop."""
    if masks is None:
        return np.ones((chart.height, chart.width), np.float32)
    maps = atlas(256)
    parts = (sample(part, chart.uv, chart.extent) for part in (maps.beard, maps.feature, maps.forehead))
    return surface({name: resize(mask, chart.width, chart.height) for name, mask in masks.items()}, *parts)


def resize(values: FloatArray, width: int, height: int) -> FloatArray:
    """(H, W[, C]) scaled by linear interpolation."""
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
