"""Constant maps of the UV space, one set per texture size: which texel is skin, feature, beard, eye."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from mien.mesh import BROWS, EYES, LIPS, IntArray, polygon_mask, rasterise, topology
from mien.types import FloatArray

NOSTRILS = (98, 327, 2, 97, 326)
NOSE_BASE, BROW_TOP = 2, 66


@dataclass(frozen=True, slots=True, eq=False)
class Atlas:
    """Maps of size × size texels; all floats 0–1."""

    size: int
    points: FloatArray
    """(468, 2) vertices in texels."""
    ids: IntArray
    """Triangle at each texel, −1 outside."""
    inside: FloatArray
    skin: FloatArray
    """Plain skin: no lips, eyes, brows, nostrils."""
    feature: FloatArray
    """Lips, eyes, brows and their surroundings."""
    beard: FloatArray
    """Where hair on the face is beard or moustache, not something in front of it."""
    forehead: FloatArray
    """Above the brows."""
    rim: FloatArray
    """Near the outline, where hair, ears and ground come in."""
    eyes: FloatArray
    """(size, size, 2) inside the lids: image left, image right."""
    sockets: FloatArray
    """(size, size, 2) each eye with its brow and lids, soft."""


@cache
def atlas(size: int) -> Atlas:
    """The maps for one texture size."""
    points = (topology().uv * (size - 1)).astype(np.float32)
    ids = rasterise(points, None, size, size)
    inside = (ids >= 0).astype(np.float32)
    features = [LIPS, *EYES, *BROWS]
    nostrils = np.zeros((size, size), np.uint8)
    for index in NOSTRILS:
        x, y = np.rint(points[index]).astype(int).tolist()
        cv2.circle(nostrils, (x, y), round(0.03 * size), 1, -1)
    skin = inside * (1 - _area(points, features, size, 0.015)) * (1 - nostrils)
    below = (np.arange(size, dtype=np.float32)[:, None] > points[NOSE_BASE, 1]).astype(np.float32)
    beard = below * cv2.erode(inside, np.ones((round(0.28 * size),) * 2, np.uint8))
    eyes = np.stack([polygon_mask(points[list(lids)], size, size) for lids in EYES], axis=2)
    return Atlas(
        size,
        points,
        ids,
        inside,
        _blur(skin, 0.004 * size),
        _blur(_area(points, features, size, 0.025), 0.02 * size),
        _blur(beard, 0.02 * size),
        _blur(inside * (np.arange(size, dtype=np.float32)[:, None] < points[BROW_TOP, 1]), 0.02 * size),
        _blur(inside - cv2.erode(inside, np.ones((round(0.24 * size),) * 2, np.uint8)), 0.02 * size),
        _blur(eyes, 0.006 * size),
        np.stack([_blur(_socket(points, pair, size), 0.02 * size) for pair in zip(EYES, BROWS, strict=True)], axis=2),
    )


def _socket(points: FloatArray, contours: Sequence[Sequence[int]], size: int) -> FloatArray:
    hull = np.asarray(cv2.convexHull(np.concatenate([points[list(c)] for c in contours])), np.float32)[:, 0]
    mask = polygon_mask(hull, size, size)
    return np.asarray(cv2.dilate(mask, np.ones((2 * round(0.02 * size) + 1,) * 2, np.uint8)), np.float32)


def _area(points: FloatArray, contours: Sequence[Sequence[int]], size: int, grow: float) -> FloatArray:
    """Union of the contours, grown by a share of the size."""
    mask = np.max([polygon_mask(points[list(contour)], size, size) for contour in contours], axis=0)
    return np.asarray(cv2.dilate(mask, np.ones((2 * round(grow * size) + 1,) * 2, np.uint8)), np.float32)


def _blur(mask: FloatArray, sigma: float) -> FloatArray:
    return np.asarray(cv2.GaussianBlur(np.asarray(mask, np.float32), (0, 0), max(sigma, 0.5)), np.float32)
