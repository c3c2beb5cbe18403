"""Curvature of a face as a map in its picture, to compare shapes by what shading shows of them."""

from __future__ import annotations

from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.mesh import EYES, MOUTH, interpolate, polygon_mask, rasterise, vertex_normals
from mien.types import FloatArray

DoubleArray: TypeAlias = npt.NDArray[np.float64]

MAP, SCALE = 160, 0.019
"""Side of a curvature map, three quarters of which the face takes up, and the blur of its normals: 1/40 of the face."""


def curvature_map(points: FloatArray, camera: DoubleArray, side: int = MAP) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """(side, side) mean curvature of a mesh as a camera sees it, and where it is defined.

    Half the divergence of the normals' x and y. `points` (468, 2) are pixels of that map, `camera` (468, 3) cm in
    camera axes. The normals are blurred by `SCALE` of the side; eyes, mouth and a rim are left out.
    """
    points = np.ascontiguousarray(points, np.float32)
    ids = rasterise(points, camera[:, 2].astype(np.float32), side, side)
    normals = interpolate(ids, points, vertex_normals(camera.astype(np.float32)))
    inside = (ids >= 0).astype(np.float32)
    normals /= np.maximum(np.linalg.norm(normals, axis=2, keepdims=True), 1e-6)
    blurred = cv2.GaussianBlur(np.dstack([normals[..., :2] * inside[..., None], inside]), (0, 0), SCALE * side)
    x, y = (blurred[..., i] / np.maximum(blurred[..., 2], 1e-3) for i in (0, 1))
    mean = (np.gradient(x, axis=1) + np.gradient(y, axis=0)) / 2
    for ring in (*EYES, MOUTH):
        inside *= 1 - polygon_mask(points[list(ring)], side, side)
    return np.asarray(mean, np.float32), cv2.erode(inside, np.ones((3, 3), np.uint8), iterations=3) > 0


def curvature_correlation(truth: tuple[FloatArray, DoubleArray], found: tuple[FloatArray, DoubleArray]) -> float:
    """Correlation of two curvature maps; each face: (468, 2) pixels of one picture, (468, 3) cm in camera axes."""
    low, high = truth[0].min(0), truth[0].max(0)
    zoom = 0.75 * MAP / float((high - low).max())
    maps = [
        curvature_map(np.asarray((points - (low + high) / 2) * zoom + (MAP - 1) / 2, np.float32), camera)
        for points, camera in (truth, found)
    ]
    both = maps[0][1] & maps[1][1]
    return float(np.corrcoef(maps[0][0][both], maps[1][0][both])[0, 1])
