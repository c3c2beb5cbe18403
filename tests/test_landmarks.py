from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.geometry import transform
from mien.landmarks import crop_matrix, landmarks, landmarks_of_keypoints, pose, to_frame
from mien.mesh import VIEW68, topology, view68, view98
from mien.types import Box, ByteArray, Face, FloatArray, Image
from mien.views import ArrayFrame
from mien.zoo.cards import ModelCard
from tests.fakes import card


class Mirror:
    """Says that each point lies where the crop's colour is: x is red, y is green, z is blue."""

    card: ModelCard = card("landmarker")
    size, points, margin, shift = 64, 2, 1.5, 0.0
    crop: Literal["mesh", "bbox"] = "bbox"

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        assert crops.dtype == np.uint8 and crops.shape[1:] == (64, 64, 3)
        found = crops[:, [32, 16], [32, 48]].astype(np.float32)
        return found, np.full(len(crops), 0.75, np.float32)


@given(
    st.floats(-500, 500), st.floats(-500, 500), st.floats(2, 900), st.floats(2, 900), st.floats(1, 2),
    st.sampled_from([96, 192, 256]), st.sampled_from([0.0, 0.1]),
)  # fmt: skip
@settings(deadline=None)
def test_the_longer_side_of_the_bbox_fills_its_share_of_the_crop(
    x: float, y: float, width: float, height: float, margin: float, size: int, shift: float
) -> None:
    bbox = np.array([x, y, x + width, y + height], np.float32)
    matrix = crop_matrix(bbox, margin, size, shift)
    corners = transform(bbox.reshape(2, 2), matrix)
    extent = corners[1] - corners[0]
    assert extent.max() == pytest.approx(size / margin, rel=1e-3)
    assert extent[0] / extent[1] == pytest.approx((bbox[2] - bbox[0]) / (bbox[3] - bbox[1]), rel=1e-3)
    np.testing.assert_allclose(corners.mean(0), (size / 2, size / 2 - shift * size / margin), atol=size / 500)


def test_a_bbox_is_cut_out_as_2dfan_wants_it() -> None:
    # Its reference scales the longer side to 195 pixels and moves the centre to 128.
    matrix = crop_matrix(np.array([100, 50, 295, 200], np.float32), 256 / 195, 256)
    np.testing.assert_allclose(matrix, np.array([[1, 0, 128 - 197.5], [0, 1, 128 - 125]]), atol=1e-4)


def test_points_come_back_to_the_frame() -> None:
    image = np.zeros((200, 300, 3), np.uint8)
    image[:, :, 0], image[:, :, 1], image[:, :, 2] = np.arange(300)[None] % 256, np.arange(200)[:, None], 30
    bbox = np.array([100, 60, 140, 80], np.float32)
    points, score = landmarks(ArrayFrame(image), bbox, Mirror())
    matrix = crop_matrix(bbox, 1.5, 64)
    seen = np.array([[120, 70, 30], [120 + 15, 70 - 15, 30]], np.float32)
    np.testing.assert_allclose(points, to_frame(seen, matrix), atol=0.6)
    assert points[0, 2] == pytest.approx(30 * 60 / 64, rel=1e-3)
    assert score == 0.75


def test_points_from_keypoints_keep_to_the_face() -> None:
    class Same:
        card: ModelCard = card("landmarker")
        template, points = "ffhq_512", 5
        crop: Literal["points"] = "points"

        def __call__(self, keypoints: FloatArray) -> FloatArray:
            assert keypoints.shape == (1, 5, 2) and 0 < keypoints.min() < keypoints.max() < 1
            return keypoints

    keypoints = np.array([[100, 90], [150, 95], [122, 120], [104, 150], [146, 154]], np.float32)
    np.testing.assert_allclose(landmarks_of_keypoints(keypoints, Same()), keypoints, atol=1e-3)


def turn(pitch: float, yaw: float, roll: float) -> FloatArray:
    """Rotation about x, then y, then z; x right, y down, z towards the viewer."""
    (a, b, c), (d, e, f) = np.cos(np.radians([pitch, yaw, roll])), np.sin(np.radians([pitch, yaw, roll]))
    about_x = np.array([[1, 0, 0], [0, a, -d], [0, d, a]])
    about_y = np.array([[b, 0, e], [0, 1, 0], [-e, 0, b]])
    about_z = np.array([[c, -f, 0], [f, c, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x, np.float32)


HEAD = (view68(topology().vertices) * np.array([1, -1, 1.16], np.float32)) @ turn(6.5, 0, 0).T


def turned(pitch: float, yaw: float, roll: float) -> FloatArray:
    """The mean head, 20 pixels to the unit."""
    return np.asarray((HEAD @ turn(pitch, yaw, roll).T) * 20, np.float32)


@pytest.mark.parametrize(
    "angles", [(0, 0, 0), (20, 0, 0), (-25, 0, 0), (0, 40, 0), (0, -40, 0), (0, 0, 70), (10, 30, -15)]
)
def test_pose_tells_how_a_head_is_turned(angles: tuple[float, float, float]) -> None:
    np.testing.assert_allclose(pose(turned(*angles) + 300), angles, atol=0.01)


def test_pose_of_a_profile_is_finite() -> None:
    assert np.isfinite(pose(turned(0, 90, 0))).all()
    assert np.isfinite(pose(np.zeros((68, 3), np.float32))).all()


def test_views_lie_on_the_mesh() -> None:
    mesh = np.random.default_rng(0).normal(size=(478, 3)).astype(np.float32)
    points = view98(mesh)
    assert points.shape == (98, 3) and points.dtype == np.float32
    np.testing.assert_array_equal(
        points[[16, 60, 64, 68, 72, 76, 82, 96, 97]], mesh[[152, 33, 133, 362, 263, 61, 291, 468, 473]]
    )
    np.testing.assert_allclose(points[61], (mesh[161] + mesh[160]) / 2, atol=1e-6)
    assert view68(mesh).shape == (68, 3)
    np.testing.assert_array_equal(view68(mesh)[[8, 30, 36, 48]], points[[16, 54, 60, 76]])
    assert len(set(VIEW68)) == 68


@pytest.mark.parametrize(
    ("view", "pairs"),
    [
        (view68, {0: 16, 5: 11, 17: 26, 21: 22, 31: 35, 36: 45, 39: 42, 41: 46, 48: 54, 50: 52, 59: 55, 67: 65}),
        (view98, {0: 32, 9: 23, 33: 46, 37: 42, 38: 50, 41: 47, 55: 59, 60: 72, 61: 71, 67: 73, 77: 81, 95: 93}),
    ],
)  # fmt: skip
def test_views_are_symmetric(view: object, pairs: dict[int, int]) -> None:
    assert callable(view)
    points = view(np.r_[topology().vertices, np.zeros((10, 3), np.float32)])
    for left, right in pairs.items():
        np.testing.assert_allclose(points[left] * (-1, 1, 1), points[right], atol=0.02)
        assert points[left, 0] < 0 < points[right, 0]


def test_views_on_a_portrait(woman_face: tuple[Image, Face]) -> None:
    _, face = woman_face
    points = view68(face.mesh)[:, :2]
    box = Box(*(int(v) for v in (*points.min(0), *points.max(0))))
    assert points[8, 1] == points[:, 1].max() or points[7, 1] == points[:, 1].max()
    np.testing.assert_allclose(points[36:42].mean(0), face.keypoints[0], atol=0.05 * box.width)
    np.testing.assert_allclose(points[42:48].mean(0), face.keypoints[1], atol=0.05 * box.width)
    np.testing.assert_allclose(points[[48, 54]], face.keypoints[3:], atol=0.01 * box.width)
