"""Crops and pastes: the right pixels out, and the right pixels back in."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mien.errors import GeometryError
from mien.geometry import invert, template_matrix, transform
from mien.paste import mesh_box, moved, paste, read_crop
from mien.types import Box, Face, Image, Patch
from tests.fakes import FakeFrame, FakeSwapper, face, grey


def picture(width: int = 320, height: int = 240) -> FakeFrame:
    """Every pixel tells where it is: red is x, green is y."""
    frame = grey(width, height)
    frame.pixels[..., 0], frame.pixels[..., 1] = np.meshgrid(np.arange(width) % 256, np.arange(height) % 256)
    return frame


def patch(image: Image, level: float = 1.0) -> Patch:
    return Patch(np.full(image.shape, level, np.float32), np.ones(image.shape[:2], np.float32))


def test_a_native_crop_is_the_box_about_the_mesh() -> None:
    frame = picture()
    crop = read_crop(frame, face(150, 120, 60), FakeSwapper())
    assert crop is not None
    assert crop.box == Box(105, 75, 196, 166)
    assert crop.matrix is None
    np.testing.assert_array_equal(crop.image, frame.pixels[75:166, 105:196])
    np.testing.assert_allclose(crop.face.mesh[:, :2], face(45, 45, 60).mesh[:, :2], atol=1e-3)
    np.testing.assert_allclose(crop.face.mesh[:, 2], face(45, 45, 60).mesh[:, 2])
    np.testing.assert_allclose(crop.face.keypoints, face(45, 45, 60).keypoints, atol=1e-3)
    np.testing.assert_allclose(crop.face.bbox, face(45, 45, 60).bbox, atol=1e-3)


def test_a_box_is_clipped_and_a_face_outside_is_none() -> None:
    crop = read_crop(picture(), face(10, 230, 60), FakeSwapper())
    assert crop is not None
    assert crop.box == Box(0, 185, 56, 240)
    np.testing.assert_allclose(crop.face.mesh[:, :2], face(10, 45, 60).mesh[:, :2], atol=1e-3)
    assert read_crop(picture(), face(-500, 100), FakeSwapper()) is None
    assert read_crop(picture(), face(-500, 100), FakeSwapper("arcface_128")) is None


def test_a_mesh_box_is_square_and_margin_times_as_large() -> None:
    mesh = face(100, 100, 60).mesh * (1, 0.5, 1) + (0, 50, 0)
    box = mesh_box(np.asarray(mesh, np.float32), 2.0)
    assert (box.width, box.height) == (121, 121)
    assert (box.x0 + box.x1 - 1, box.y0 + box.y1 - 1) == (200, 200)


@pytest.mark.parametrize("template", ["arcface_128", "ffhq_512"])
def test_a_template_crop_has_the_keypoints_where_the_template_says(template: str) -> None:
    frame = picture()
    tilted = _tilted(face(160, 120, 60), 0.5)
    crop = read_crop(frame, tilted, FakeSwapper(template, 128))
    assert crop is not None
    assert crop.image.shape == (128, 128, 3)
    matrix = template_matrix(tilted.keypoints, template, 128)
    np.testing.assert_allclose(crop.face.keypoints, transform(tilted.keypoints, matrix), atol=1e-2)
    for x, y in crop.face.keypoints:
        red, green, _ = crop.image[round(float(y)), round(float(x))]
        back = transform(np.array([round(float(x)), round(float(y))], np.float32), invert(matrix))
        assert abs(float(red) - back[0]) < 1.5
        assert abs(float(green) - back[1]) < 1.5


def test_coinciding_keypoints_are_an_error() -> None:
    flat = face(100, 100)
    flat.keypoints[:] = 5
    with pytest.raises(GeometryError):
        read_crop(picture(), flat, FakeSwapper("arcface_128"))


def test_a_native_patch_is_written_to_its_box_only() -> None:
    frame = picture()
    before = frame.pixels.copy()
    crop = read_crop(frame, face(150, 120, 60), FakeSwapper())
    assert crop is not None
    given = patch(crop.image)
    paste(frame, crop, given)
    ((box, rgb, mask),) = frame.writes
    assert box == crop.box
    assert rgb is given.rgb
    assert mask is given.mask
    assert (frame.pixels[75:166, 105:196] == 255).all()
    before[75:166, 105:196] = 255
    np.testing.assert_array_equal(frame.pixels, before)


@pytest.mark.parametrize("side", [40.0, 90.0])
def test_an_unchanged_template_patch_changes_nothing_but_by_resampling(side: float) -> None:
    frame = FakeFrame(np.asarray(cv2.GaussianBlur(picture().pixels, (0, 0), 5), np.uint8))
    before = frame.pixels.astype(int)
    crop = read_crop(frame, _tilted(face(110, 120, side), -0.3), FakeSwapper("arcface_128", 256))
    assert crop is not None
    rgb = np.asarray(crop.image / 255, np.float32)
    paste(frame, crop, Patch(rgb, np.ones((256, 256), np.float32)))
    inside = crop.box
    assert np.abs(frame.pixels.astype(int) - before).max() <= 2
    outside = np.ones((240, 320), bool)
    outside[inside.y0 : inside.y1, inside.x0 : inside.x1] = False
    np.testing.assert_array_equal(frame.pixels[outside], before[outside])


def test_a_template_patch_fades_out_at_its_square_and_is_full_inside() -> None:
    frame = grey()
    tilted = _tilted(face(150, 120, 80), 0.4)
    crop = read_crop(frame, tilted, FakeSwapper("arcface_128", 128))
    assert crop is not None
    assert crop.matrix is not None
    paste(frame, crop, patch(crop.image))
    ((box, _, mask),) = frame.writes
    y, x = np.mgrid[: box.height, : box.width].astype(np.float32)
    there = transform(np.stack([x, y], -1), crop.matrix)
    depth = np.minimum(there, 127 - there).min(-1)
    assert (mask[depth < -1] == 0).all()
    assert mask[depth > 0.09 * 128].min() > 0.999
    assert 0.3 < mask[np.abs(depth - 0.04 * 128) < 0.5].mean() < 0.7


def test_a_boosted_crop_is_the_same_square_with_more_pixels() -> None:
    frame, tilted = picture(), _tilted(face(110, 110, 80), 0.4)
    small, large = (read_crop(frame, tilted, FakeSwapper("arcface_128", 32), k) for k in (1, 3))
    assert small is not None and large is not None
    assert large.image.shape == (96, 96, 3)
    np.testing.assert_allclose(large.face.keypoints, 3 * small.face.keypoints + 1, atol=1e-3)
    # The middle pixel of each block of 3 × 3 lies where the small crop's pixel does.
    np.testing.assert_allclose(large.image[1::3, 1::3], small.image.astype(int), atol=2)


@pytest.mark.parametrize(("side", "boost"), [(20, 1), (44, 1), (75, 2), (110, 3), (180, 4), (600, 4)])
def test_a_boost_of_0_goes_by_the_faces_own_size(side: float, boost: int) -> None:
    crop = read_crop(picture(900, 900), face(450, 450, side), FakeSwapper("ffhq_512", 64), 0)
    assert crop is not None
    assert crop.image.shape == (64 * boost, 64 * boost, 3)


@pytest.mark.parametrize("boost", [1, 2, 4])
def test_a_boosted_patch_comes_back_where_it_was(boost: int) -> None:
    frame = FakeFrame(np.asarray(cv2.GaussianBlur(picture().pixels, (0, 0), 5), np.uint8))
    before = frame.pixels.astype(int)
    crop = read_crop(frame, _tilted(face(110, 120, 90), -0.3), FakeSwapper("arcface_128", 64), boost)
    assert crop is not None
    paste(frame, crop, Patch(np.asarray(crop.image / 255, np.float32), np.ones(crop.image.shape[:2], np.float32)))
    assert np.abs(frame.pixels.astype(int) - before).max() <= 2
    assert frame.writes[0][2].max() > 0.99


def test_moving_a_face_scales_its_depth() -> None:
    twice = moved(face(10, 20, 30), np.array([[0, -2, 5], [2, 0, 7]], np.float32))
    np.testing.assert_allclose(twice.mesh[:, 2], 2 * face(10, 20, 30).mesh[:, 2], atol=1e-4)
    np.testing.assert_allclose(twice.bbox, [5 - 2 * 35, 7 + 2 * -5, 5 - 2 * 5, 7 + 2 * 25], atol=1e-4)


def _tilted(upright: Face, angle: float) -> Face:
    centre = upright.mesh[:4, :2].mean(0)
    cos, sin = np.cos(angle), np.sin(angle)
    linear = np.array([[cos, -sin], [sin, cos]])
    return moved(upright, np.c_[linear, centre - linear @ centre].astype(np.float32))
