"""Synthetic heads: the canonical mesh, posed and projected, and pictures painted through its UV map."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.faces import keypoints_of_mesh
from mien.identity_data import IdentityData
from mien.mesh import EYES, IRISES, SURFACE, interpolate, polygon_mask, rasterise, topology
from mien.shape import neutral
from mien.texture import fuse, unwrap
from mien.types import Face, FloatArray

DoubleArray: TypeAlias = npt.NDArray[np.float64]
Paint: TypeAlias = Callable[[FloatArray], FloatArray]

SPOT = (0.74, 0.52)
"""UV of a mark on the cheek at the right of the image."""
IRIS = 0.55
"""Radius of an iris, cm."""


def turn(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0) -> DoubleArray:
    """(3, 3) rotation in image axes (x right, y down, z away) by degrees; roll turns x towards y."""
    a, b, c = np.radians([yaw, pitch, roll])
    about_y = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    about_z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_x @ about_y, np.float64)


def canonical() -> DoubleArray:
    """(478, 3) the canonical mesh in image axes, cm, its eyes looking ahead."""
    surface = topology().vertices.astype(np.float64) * [1, -1, -1]
    rims = np.array([[0, 0], [1, 0], [0, -1], [-1, 0], [0, 1]], np.float64) * IRIS
    irises = [surface[list(lids)].mean(0) + np.c_[rims, np.zeros(5)] for lids in EYES]
    assert IRISES[0][0] == SURFACE
    return np.concatenate([surface, *irises])


def mesh(
    width: float = 100.0,
    centre: tuple[float, float] = (100.0, 100.0),
    rotation: DoubleArray | None = None,
    shape: DoubleArray | None = None,
) -> FloatArray:
    """(478, 3) a head `width` pixels across when it looks ahead, its middle at `centre`, without perspective."""
    points = canonical() if shape is None else shape
    ahead = np.ptp(points[:SURFACE], axis=0)
    points = (points - (points[:SURFACE].max(0) + points[:SURFACE].min(0)) / 2) * (width / ahead[0])
    points = points @ (np.eye(3) if rotation is None else rotation).T
    return np.asarray(points + np.array([*centre, 0.0]), np.float32)


def face(points: FloatArray, embedding: FloatArray | None = None, blendshapes: FloatArray | None = None) -> Face:
    """A face with this mesh."""
    bbox = np.concatenate([points[:SURFACE, :2].min(0), points[:SURFACE, :2].max(0)])
    return Face(bbox, 0.9, keypoints_of_mesh(points), points, 0.99, embedding, blendshapes)


def gradient(uv: FloatArray) -> FloatArray:
    """(..., 2) UV → (..., 3) a skin-like colour that tells its place, and that warps of a few texels change little."""
    u, v = uv[..., 0], uv[..., 1]
    return np.stack([0.55 + 0.2 * u, 0.35 + 0.2 * v, 0.35 + 0.1 * np.sin(3 * u + 2 * v)], axis=-1).astype(np.float32)


def picture(
    points: FloatArray, width: int, height: int, paint: Paint = gradient, ground: tuple[float, ...] = (0.1, 0.2, 0.6)
) -> FloatArray:
    """(height, width, 3) 0–1: what a camera sees of a head painted in UV space, before a plain ground."""
    surface = np.ascontiguousarray(points[:SURFACE, :2])
    ids = rasterise(surface, points[:SURFACE, 2], width, height)
    seen = paint(interpolate(ids, surface, topology().uv))
    return np.where(ids[..., None] >= 0, seen, np.array(ground, np.float32)).astype(np.float32)


def identity(points: FloatArray, image: FloatArray, embedding: FloatArray) -> IdentityData:
    """The person that a picture of this mesh, without expression, shows."""
    texture = fuse([unwrap(image, points, {}, 256)])
    return IdentityData(embedding, texture.rgb, texture.trust, points, neutral(points, np.zeros(52, np.float32)))


def marked(uv: FloatArray) -> FloatArray:
    """The usual skin with a dark mark at `SPOT`."""
    away = np.linalg.norm(uv - np.array(SPOT, np.float32), axis=-1)[..., None]
    return np.where(away < 0.03, np.float32(0.4), np.float32(1)) * gradient(uv)


def spot_on(points: FloatArray, width: int, height: int) -> tuple[int, int]:
    """Row and column of the mark in a picture of this mesh."""
    surface = np.ascontiguousarray(points[:SURFACE, :2])
    uv = interpolate(rasterise(surface, points[:SURFACE, 2], width, height), surface, topology().uv)
    row, column = np.unravel_index(np.linalg.norm(uv - np.array(SPOT, np.float32), axis=2).argmin(), uv.shape[:2])
    return int(row), int(column)


def middle(points: FloatArray, width: int, height: int, share: float = 0.75) -> FloatArray:
    """(height, width) 0/1 over the middle of the face, `share` of its size."""
    flat = points[:SURFACE, :2]
    centre = flat.mean(0)
    hull = cv2.convexHull(np.asarray((flat - centre) * np.float32(share) + centre, np.float32))
    return polygon_mask(np.asarray(hull, np.float32)[:, 0], width, height)


def uv_grid(size: int) -> FloatArray:
    """(size, size, 2) the UV of each texel's centre."""
    axis = np.arange(size, dtype=np.float32) / (size - 1)
    return np.stack(np.meshgrid(axis, axis), axis=2)
