"""Points of other landmarkers on faces that were found, and the pose of a head."""

from __future__ import annotations

from functools import cache

import numpy as np

from mien.geometry import invert, scale_of, template_matrix, transform
from mien.mesh import topology, view68
from mien.types import FloatArray
from mien.views import Frame, crop_of
from mien.zoo.contracts import Landmarker, PointLandmarker

TILT, DEPTH = 6.5, 1.16
"""Degrees by which InsightFace's mean head looks higher than the canonical one, and its depth over that one's."""


def crop_matrix(bbox: FloatArray, margin: float, size: int, shift: float = 0.0) -> FloatArray:
    """(2, 3) from frame pixels to the size × size crop of a bbox, not turned; see `contracts.Landmarker`.

    The centre of the bbox comes to size / 2, as in the tools that these networks come from.
    """
    width, height = float(bbox[2] - bbox[0]), float(bbox[3] - bbox[1])
    longer = max(width, height, 1.0)
    centre = np.array([(bbox[0] + bbox[2]) / 2, (bbox[1] + bbox[3]) / 2 + shift * longer])
    scale = size / (margin * longer)
    return np.array([[scale, 0, size / 2 - scale * centre[0]], [0, scale, size / 2 - scale * centre[1]]], np.float32)


def landmarks(frame: Frame, bbox: FloatArray, model: Landmarker) -> tuple[FloatArray, float]:
    """(points, 2 or 3) in frame pixels and the score of one face, by a landmarker that looks at its bbox.

    Raises:
        ModelError: see `zoo.tensors.Network`.
    """
    matrix = crop_matrix(bbox, model.margin, model.size, model.shift)
    points, scores = model(crop_of(frame, matrix, model.size)[None])
    return to_frame(points[0], matrix), float(scores[0])


def landmarks_of_keypoints(keypoints: FloatArray, model: PointLandmarker) -> FloatArray:
    """(points, 2) in frame pixels from the (5, 2) keypoints of a face.

    Raises:
        GeometryError: keypoints that coincide.
        ModelError: see `zoo.tensors.Network`.
    """
    matrix = template_matrix(keypoints, model.template, 1)
    return transform(model(transform(keypoints, matrix)[None])[0], invert(matrix))


def to_frame(points: FloatArray, matrix: FloatArray) -> FloatArray:
    """Crop pixels → frame pixels, by the frame → crop matrix; z is scaled."""
    flat = transform(points[:, :2], invert(matrix))
    return flat if points.shape[1] == 2 else np.c_[flat, points[:, 2] / np.float32(scale_of(matrix))]


def pose(points: FloatArray) -> FloatArray:
    """(3,) pitch, yaw and roll in degrees of a head with these (68, 3) points of iBUG's layout, x and y in pixels.

    Positive: looking up, turned to the right of the picture, tilted clockwise. The affine camera that takes a mean head
    to the points, as InsightFace does it. The mean head is another; InsightFace's own, turned up to 40°, is read within
    1.5°.
    """
    mean = np.c_[_mean_head(), np.ones(68)]
    camera = np.linalg.lstsq(mean, np.asarray(points[:, :2], np.float64), rcond=None)[0].T[:, :3]
    right, down = camera / np.maximum(np.linalg.norm(camera, axis=1, keepdims=True), 1e-12)
    front = np.cross(right, down)
    flat = float(np.hypot(right[0], down[0]))
    pitch, roll = np.arctan2(front[1], front[2]), np.arctan2(down[0], right[0])
    if flat < 1e-6:
        pitch, roll = np.arctan2(-down[2], down[1]), 0.0
    return np.asarray(np.degrees([pitch, np.arctan2(-front[0], flat), roll]), np.float32)


@cache
def _mean_head() -> FloatArray:
    """(68, 3) of the canonical mesh: x right, y down, z towards the viewer."""
    x, y, z = view68(topology().vertices).T * np.array([[1], [-1], [DEPTH]])
    cos, sin = np.cos(np.radians(TILT)), np.sin(np.radians(TILT))
    head = np.stack([x, cos * y - sin * z, sin * y + cos * z], 1).astype(np.float32)
    head.setflags(write=False)
    return head
