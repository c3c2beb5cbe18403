"""Similarity transforms, 5-point templates and warps. Matrices are (2, 3) float32, p' = M·[x, y, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import cv2
import numpy as np

from mien.errors import GeometryError
from mien.types import FloatArray, Image


def _points(*xy: tuple[float, float]) -> FloatArray:
    points = np.array(xy, np.float32)
    points.setflags(write=False)
    return points


TEMPLATES: Mapping[str, FloatArray] = MappingProxyType(
    {
        "arcface_112_v1": _points(
            (0.35473214, 0.45658929), (0.64526786, 0.45658929), (0.5, 0.61154464),
            (0.37913393, 0.776875), (0.62086607, 0.776875),
        ),
        "arcface_112_v2": _points(
            (0.34191607, 0.46157411), (0.65653393, 0.45983393), (0.500225, 0.64050536),
            (0.37097589, 0.82469196), (0.63151696, 0.82325089),
        ),
        "arcface_128": _points(
            (0.36167656, 0.40387734), (0.63696719, 0.40235469), (0.50019687, 0.56044219),
            (0.38710391, 0.72160547), (0.61507734, 0.72034453),
        ),
        "dfl_whole_face": _points(
            (0.35342266, 0.39285716), (0.62797622, 0.39285716), (0.48660713, 0.5401786),
            (0.38839287, 0.68750011), (0.59821427, 0.68750011),
        ),
        "dlib_150": _points(
            (47.41 / 150, 44.57 / 150), (100.71 / 150, 45.05 / 150), (74.25 / 150, 77.48 / 150),
            (49.86 / 150, 97.85 / 150), (98.78 / 150, 98.02 / 150),
        ),
        "ffhq_512": _points(
            (0.37691676, 0.46864664), (0.62285697, 0.46912813), (0.50123859, 0.61331904),
            (0.39308822, 0.725411), (0.61150205, 0.72490465),
        ),
        "mtcnn_512": _points(
            (0.36562865, 0.46733799), (0.63305391, 0.46585885), (0.50019127, 0.61942959),
            (0.39032951, 0.77598822), (0.61178945, 0.77476328),
        ),
        "styleganex_384": _points(
            (0.42353745, 0.52289879), (0.57725008, 0.52319972), (0.50123859, 0.61331904),
            (0.43364461, 0.68337652), (0.57015325, 0.68306005),
        ),
    }
)  # fmt: skip
"""Normalised 5-point layouts (multiply by the crop size): left eye, right eye, nose, mouth corners."""


def fit_similarity(source: FloatArray, target: FloatArray) -> FloatArray:
    """Least-squares rotation, uniform scale and translation that takes source (N, 2) to target (N, 2).

    Umeyama, "Least-squares estimation of transformation parameters", 1991, without reflection.

    Raises:
        GeometryError: fewer than two distinct finite points.
    """
    a, b = np.asarray(source, np.float64), np.asarray(target, np.float64)
    if a.shape != b.shape or a.ndim != 2 or a.shape[1] != 2 or len(a) < 2:
        raise GeometryError(f"cannot fit points of shapes {a.shape} and {b.shape}; pass two N×2 arrays, N ≥ 2")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise GeometryError("cannot fit points that are not finite; check the landmarks")
    mean_a, mean_b = a.mean(0), b.mean(0)
    u, v = a - mean_a, b - mean_b
    spread = float((u * u).sum())
    cos, sin = float((u * v).sum()), float((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum())
    if spread < 1e-6 or cos * cos + sin * sin < 1e-12 * spread:
        raise GeometryError("cannot fit points that coincide; check the landmarks")
    linear = np.array([[cos, -sin], [sin, cos]]) / spread
    return np.asarray(np.c_[linear, mean_b - linear @ mean_a], np.float32)


def template_matrix(keypoints: FloatArray, template: str, size: int) -> FloatArray:
    """(2, 3) from frame pixels to a size × size crop laid out as `template`."""
    return fit_similarity(keypoints, TEMPLATES[template] * size)


def invert(matrix: FloatArray) -> FloatArray:
    """Inverse of a (2, 3) affine matrix."""
    return np.asarray(cv2.invertAffineTransform(matrix), np.float32)


def transform(points: FloatArray, matrix: FloatArray) -> FloatArray:
    """Apply a (2, 3) matrix to (..., 2) points."""
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2], np.float32)


def scale_of(matrix: FloatArray) -> float:
    """Uniform scale of a similarity matrix."""
    return float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))


def warp(image: Image, matrix: FloatArray, width: int, height: int) -> Image:
    """Warp by a source→crop matrix; area-like when it shrinks, border replicated.

    Shrinking by more than 2 first halves the image, since OpenCV's warp has no area filter.
    """
    matrix = np.asarray(matrix, np.float32)
    scale = scale_of(matrix)
    while scale < 0.5 and min(image.shape[:2]) > 1:
        h, w = image.shape[:2]
        half = (max(1, w // 2), max(1, h // 2))
        image = cv2.resize(image, half, interpolation=cv2.INTER_AREA)
        fx, fy = w / half[0], h / half[1]
        up = np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2], [0, 0, 1]], np.float32)
        matrix = np.asarray(matrix @ up, np.float32)
        scale = scale_of(matrix)
    return cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
