"""Antialiased shapes, smooth noise and tiled textures: what all made-up occluders are drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from training.occluder.crops import SIZE, Array

FINE = 4
"""Shapes are drawn this much larger, then averaged down."""


@dataclass(slots=True, eq=False)
class Layer:
    """Something in front of the face, SIZE×SIZE."""

    rgb: Array
    """0–1."""
    alpha: Array
    """How much of the face it hides."""
    cover: Array | None = None
    """What the network should say; None: `alpha`."""
    shadow: float = 0.0
    """Darkness of the shadow that it throws on the face, 0–1."""
    lift: float = 2.0
    """Its distance from the face: offset and blur of the shadow in pixels."""
    weight: float = 1.0
    """Weight of its pixels in the loss; thin things need more."""


def _fine(points: Array) -> Array:
    return np.round((np.asarray(points) + 0.5) * FINE - 0.5).astype(np.int32)


def _shrink(canvas: Array) -> Array:
    small = cv2.resize(canvas, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32) / 255


def filled(*polygons: Array) -> Array:
    """Coverage of the union of polygons, each (N, 2) pixels."""
    canvas = np.zeros((SIZE * FINE, SIZE * FINE), np.uint8)
    for polygon in polygons:
        cv2.fillPoly(canvas, [_fine(polygon)], 255)
    return _shrink(canvas)


def stroked(lines: Sequence[Array], widths: Sequence[float], closed: bool = False) -> Array:
    """Coverage of polylines with round ends; widths in pixels, at least 1/4."""
    canvas = np.zeros((SIZE * FINE, SIZE * FINE), np.uint8)
    for line, width in zip(lines, widths, strict=True):
        cv2.polylines(canvas, [_fine(line)], closed, 255, max(1, round(width * FINE)))
    return _shrink(canvas)


def strands(lines: Sequence[Array], widths: Sequence[float], shades: Sequence[float]) -> tuple[Array, Array]:
    """Coverage of thin lines, and their mean shade (0–1 each) where they are."""
    canvas = np.zeros((SIZE * FINE, SIZE * FINE, 3), np.uint8)
    for line, width, shade in zip(lines, widths, shades, strict=True):
        cv2.polylines(canvas, [_fine(line)], False, (255, int(shade * 255), 0), max(1, round(width * FINE)))
    drawn = _shrink(canvas)
    return drawn[..., 0], np.clip(drawn[..., 1] / np.maximum(drawn[..., 0], 1e-3), 0, 1)


def capsule(start: Array, end: Array, first: float, last: float) -> Array:
    """Outline (N, 2) of a tapered capsule between two points with two radii."""
    along = np.arctan2(*(end - start)[::-1])
    turn = np.linspace(np.pi / 2, 3 * np.pi / 2, 9) + along
    back = start + first * np.c_[np.cos(turn), np.sin(turn)]
    front = end + last * np.c_[np.cos(turn + np.pi), np.sin(turn + np.pi)]
    return np.concatenate([back, front]).astype(np.float32)


def curve(points: Sequence[Array], count: int = 16) -> Array:
    """(count, 2) Bézier curve through the first and last of 3 or 4 points."""
    t = np.linspace(0, 1, count)[:, None]
    level = [np.asarray(p, np.float64)[None] for p in points]
    while len(level) > 1:
        level = [(1 - t) * a + t * b for a, b in pairwise(level)]
    return level[0].astype(np.float32)


def smooth(polygon: Array, rounds: int = 2) -> Array:
    """Cut a closed polygon's corners (Chaikin)."""
    for _ in range(rounds):
        after = np.roll(polygon, -1, axis=0)
        polygon = np.stack([0.75 * polygon + 0.25 * after, 0.25 * polygon + 0.75 * after], 1).reshape(-1, 2)
    return polygon


def blur(image: Array, sigma: float) -> Array:
    """Gaussian blur."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), max(sigma, 0.2)), np.float32)


def noise(rng: np.random.Generator, cell: float, wide: float = 1.0) -> Array:
    """Smooth noise of mean 0 and deviation about 1; `cell` pixels from grain to grain, `wide` times that across."""
    rows, columns = max(2, round(SIZE / cell)), max(2, round(SIZE / (cell * wide)))
    coarse = rng.standard_normal((rows + 1, columns + 1)).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC), np.float32)


def tile(patch: Array, rng: np.random.Generator, zoom: float = 1.0, angle: float | None = None) -> Array:
    """A patch turned, zoomed and mirrored over the whole crop, 0–1."""
    turn = rng.uniform(0, 360) if angle is None else angle
    side = patch.shape[0]
    matrix: Array = cv2.getRotationMatrix2D((side / 2, side / 2), turn, zoom)
    matrix[:, 2] += rng.uniform(0, SIZE, 2)
    flat = cv2.warpAffine(patch, matrix, (SIZE, SIZE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(flat, np.float32) / 255


def rounded(alpha: Array, radius: float) -> Array:
    """Height 0–1 of a body with that silhouette and round edges, for shading."""
    depth: Array = cv2.distanceTransform((alpha > 0.4).astype(np.uint8), cv2.DIST_L2, 3) / max(radius, 1)
    return np.asarray(np.sqrt(np.clip(1 - (1 - np.minimum(depth, 1)) ** 2, 0, 1)), np.float32)


def lit(height: Array, rng: np.random.Generator, strength: float) -> Array:
    """Brightness around 1 of a body lit from a random side."""
    angle = rng.uniform(0, 2 * np.pi)
    soft = blur(height, 1.0)
    slope = cv2.Sobel(soft, cv2.CV_32F, 1, 0) * np.cos(angle) + cv2.Sobel(soft, cv2.CV_32F, 0, 1) * np.sin(angle)
    return np.asarray(1 - strength * 0.5 * (1 - height) + strength * np.clip(slope, -1, 1) * 0.5, np.float32)
