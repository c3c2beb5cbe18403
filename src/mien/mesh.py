"""The 478-point face mesh: topology, rasterising, UV maps and visibility.

Topology, UV and canonical shape: MediaPipe's canonical face model (Apache-2.0). Points 0–467 are the
surface, 468–477 the irises. UV is normalised to 0–1, v down, forehead on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mien.errors import ModelError
from mien.types import FloatArray

IntArray = npt.NDArray[np.int32]

POINTS, SURFACE = 478, 468

OVAL = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
"""Face outline, clockwise from the top of the forehead."""
LIPS = (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185)
"""Outer lip contour."""
MOUTH = (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308, 415, 310, 311, 312, 13, 82, 81, 80, 191)
"""Inner lip contour."""
EYES = (
    (33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246),
    (263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466),
)
"""Eyelid contours: image left, image right."""
BROWS = (
    (70, 63, 105, 66, 107, 55, 65, 52, 53, 46),
    (300, 293, 334, 296, 336, 285, 295, 282, 283, 276),
)
"""Eyebrow contours: image left, image right."""
IRISES = ((468, 469, 470, 471, 472), (473, 474, 475, 476, 477))
"""Iris centre and four rim points: image left, image right."""
NOSE_TIP, MOUTH_CORNERS, EYE_CORNERS = 4, (61, 291), (33, 263)
VIEW98 = (
    (162, 127, 39), (127, 127, 0), (127, 234, 64), (234, 93, 29), (234, 93, 92), (93, 132, 51), (132, 58, 9),
    (132, 58, 64), (58, 172, 23), (58, 172, 90), (172, 136, 70), (136, 150, 51), (150, 149, 38), (149, 176, 38),
    (176, 148, 35), (148, 152, 23), (152, 152, 0), (377, 152, 23), (400, 377, 35), (378, 400, 38), (379, 378, 38),
    (365, 379, 51), (397, 365, 70), (288, 397, 90), (288, 397, 23), (361, 288, 64), (361, 288, 9), (323, 361, 51),
    (454, 323, 92), (454, 323, 29), (356, 454, 64), (356, 356, 0), (389, 356, 39), (46, 70, 50), (63, 105, 50),
    (105, 66, 60), (66, 107, 40), (107, 55, 50), (55, 55, 0), (65, 55, 30), (52, 65, 50), (53, 52, 50),
    (336, 285, 50), (296, 336, 40), (334, 296, 60), (293, 334, 50), (276, 300, 50), (283, 282, 50), (282, 295, 50),
    (295, 285, 30), (285, 285, 0), (168, 6, 50), (197, 195, 50), (5, 5, 0), (4, 1, 50), (98, 98, 0), (97, 97, 0),
    (2, 2, 0), (326, 326, 0), (327, 327, 0), (33, 33, 0), (161, 160, 50), (159, 159, 0), (158, 157, 50),
    (133, 133, 0), (154, 153, 50), (145, 145, 0), (144, 163, 50), (362, 362, 0), (385, 384, 50), (386, 386, 0),
    (388, 387, 50), (263, 263, 0), (373, 390, 50), (374, 374, 0), (381, 380, 50), (61, 61, 0), (39, 40, 30),
    (37, 37, 0), (0, 0, 0), (267, 267, 0), (269, 270, 30), (291, 291, 0), (321, 321, 0), (314, 405, 50), (17, 17, 0),
    (84, 181, 50), (91, 91, 0), (78, 78, 0), (81, 82, 20), (13, 13, 0), (311, 312, 20), (308, 308, 0), (402, 402, 0),
    (14, 14, 0), (178, 178, 0), (468, 468, 0), (473, 473, 0),
)  # fmt: skip
"""WFLW's 98 points: each lies between two points of the mesh, so many hundredths of the way to the second.

Measured on 62 photos with hand-placed landmarks: the 31 points that both have are 1.4 % of the distance of the outer
corners of the eyes apart, and the jaw lies 1.2 % off the drawn one.
"""
VIEW68 = (
    *(VIEW98[i] for i in (*range(0, 33, 2), *range(33, 38), *range(42, 47), *range(51, 60))),
    *((i, i, 0) for i in (33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380)),
    *VIEW98[76:96],
)
"""iBUG's 68 points, as those of `VIEW98`; its lids are marked at thirds, not at quarters."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """What all faces share."""

    vertices: FloatArray
    """(468, 3) canonical shape in cm."""
    uv: FloatArray
    """(468, 2) in 0–1."""
    triangles: IntArray
    """(898, 3); front-facing triangles have positive signed area in an image."""
    mirror: IntArray
    """(468,) index of each vertex's mirror image."""


def constants(file: str, *names: str) -> list[npt.NDArray[Any]]:
    """Arrays of a .npz file that ships under `mien/weights`.

    Raises:
        ModelError: the file is missing or damaged.
    """
    path = files("mien") / "weights" / file
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as data:
            return [data[name] for name in names]
    except Exception as error:  # a damaged archive fails in many ways
        raise ModelError(f"{path}: cannot be read ({error}); install mien again") from error


@cache
def topology() -> Topology:
    """The canonical mesh, read once."""
    vertices, uv, triangles = constants("face_mesh_478.npz", "vertices", "uv", "triangles")
    if uv[10, 1] > uv[152, 1]:
        uv = np.c_[uv[:, 0], 1 - uv[:, 1]]
    uv = uv.astype(np.float32)
    flipped = signed_area(uv, triangles) < 0
    triangles[flipped] = triangles[flipped][:, ::-1]
    flipped_uv = uv * np.array([-1, 1], np.float32) + np.array([1, 0], np.float32)
    distance = np.linalg.norm(flipped_uv[:, None] - uv[None], axis=2)
    return Topology(vertices.astype(np.float32), uv, triangles, distance.argmin(1).astype(np.int32))


def view68(mesh: FloatArray) -> FloatArray:
    """(68, D) points in iBUG's layout of a (478, D) mesh."""
    return _between(mesh, VIEW68)


def view98(mesh: FloatArray) -> FloatArray:
    """(98, D) points in WFLW's layout of a (478, D) mesh."""
    return _between(mesh, VIEW98)


def _between(mesh: FloatArray, view: tuple[tuple[int, int, int], ...]) -> FloatArray:
    first, second, hundredths = np.array(view).T
    return np.asarray(mesh[first] + (mesh[second] - mesh[first]) * (hundredths[:, None] / 100), np.float32)


def signed_area(points: FloatArray, triangles: IntArray) -> FloatArray:
    """Twice the signed area of each triangle of (N, 2) points."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    u, v = b - a, c - a
    return np.asarray(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0], np.float32)


def rasterise(points: FloatArray, depth: FloatArray | None, width: int, height: int) -> IntArray:
    """(height, width) index of the triangle seen at each pixel, −1 outside.

    Triangles that face away are culled; the rest are painted far to near (`depth`: smaller = nearer),
    so a nose in front of a cheek hides it.
    """
    mesh = topology()
    order = np.flatnonzero(signed_area(points, mesh.triangles) > 0)
    if depth is not None:
        order = order[np.argsort(-depth[mesh.triangles[order]].mean(1), kind="stable")]
    ids = np.full((height, width), -1, np.int32)
    corners = np.round(points[mesh.triangles] * 16).astype(np.int32)
    for index in order.tolist():
        cv2.fillConvexPoly(ids, corners[index], index, shift=4)
    return ids


def interpolate(ids: IntArray, points: FloatArray, values: FloatArray) -> FloatArray:
    """(height, width, C) barycentric interpolation of per-vertex `values` (N, C); 0 outside."""
    triangles = topology().triangles
    rows, columns = np.nonzero(ids >= 0)
    # Per triangle, not per pixel: the affine map from (x, y, 1) to the value, and the value's bounds.
    corners = np.concatenate([points[triangles], np.ones((len(triangles), 3, 1), np.float32)], 2).astype(np.float64)
    corners[np.abs(np.linalg.det(corners)) < 1e-6] += np.eye(3)
    affine = np.linalg.solve(corners, values[triangles].astype(np.float64)).astype(np.float32)
    seen = ids[rows, columns]
    at = affine[seen]
    out = np.zeros((*ids.shape, values.shape[1]), np.float32)
    value = at[:, 0] * columns[:, None] + at[:, 1] * rows[:, None] + at[:, 2]
    of = values[triangles]
    out[rows, columns] = np.clip(value, of.min(1)[seen], of.max(1)[seen])
    return out


def vertex_normals(points: FloatArray) -> FloatArray:
    """(468, 3) unit normals of a (≥468, 3) mesh; z < 0 looks at the camera."""
    triangles = topology().triangles
    a, b, c = (points[triangles[:, i]] for i in range(3))
    normal = -np.cross(b - a, c - a)
    total = np.zeros((SURFACE, 3), np.float64)
    for corner in range(3):
        np.add.at(total, triangles[:, corner], normal)
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-9), np.float32)


def polygon_mask(points: FloatArray, width: int, height: int) -> FloatArray:
    """(height, width) 0/1 inside the closed polygon (N, 2)."""
    mask = np.zeros((height, width), np.uint8)
    cv2.fillPoly(mask, [np.round(points * 16).astype(np.int32)], 1, shift=4)
    return mask.astype(np.float32)


def upright_matrix(mesh: FloatArray, margin: float, size: int) -> FloatArray:
    """(2, 3) to a size × size crop, `margin` times the mesh's extent, turned upright by the eye corners."""
    across = mesh[EYE_CORNERS[1], :2] - mesh[EYE_CORNERS[0], :2]
    angle = float(np.arctan2(across[1], across[0]))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    points = mesh[:SURFACE, :2] @ turn.T
    low, high = points.min(0), points.max(0)
    scale = size / max(float((high - low).max()) * margin, 1e-3)
    return np.asarray(np.c_[scale * turn, (size - 1) / 2 - scale * (low + high) / 2], np.float32)
