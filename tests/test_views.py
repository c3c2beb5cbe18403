from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import pytest

from mien.color import as_bytes
from mien.geometry import transform
from mien.mesh import EYE_CORNERS
from mien.types import Box, ByteArray, Detection, FloatArray, Image
from mien.views import (
    OVERLAP,
    TILE,
    ArrayFrame,
    Region,
    View,
    angle_of,
    chain,
    crop_of,
    padded,
    region_of_detection,
    region_of_mesh,
    tiles,
    turned,
    view_of,
)

IDENTITY = np.array([[1, 0, 0], [0, 1, 0]], np.float32)


def ramp(width: int, height: int) -> ByteArray:
    """An image whose red and green are its own x and y."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    return np.stack([x, y, 0 * x], 2).astype(np.uint8)


def check_places(view: View, step: int, tolerance: float) -> None:
    """Each pixel of a view of a ramp tells the place that the view's matrix says."""
    y, x = np.mgrid[0 : view.image.shape[0] : step, 0 : view.image.shape[1] : step]
    places = transform(np.stack([x, y], 2).reshape(-1, 2).astype(np.float32), view.to_frame)
    np.testing.assert_allclose(view.image[::step, ::step, :2].reshape(-1, 2), places, atol=tolerance)


def test_quarter_turns_know_where_their_pixels_come_from() -> None:
    views = list(turned(View(ramp(40, 30), IDENTITY)))
    assert [view.image.shape[:2] for view in views] == [(30, 40), (40, 30), (30, 40), (40, 30)]
    assert views[0].handicap == 0 and all(view.handicap > 0 for view in views[1:])
    for view in views:
        check_places(view, 1, 1e-4)
    assert len({view.image.tobytes() for view in views}) == 4


def test_a_shrunk_picture_maps_pixel_centres_to_pixel_centres() -> None:
    view = view_of(ramp(200, 100), 200, 100, 0.25)
    assert view.image.shape == (25, 50, 3)
    np.testing.assert_allclose(transform(np.zeros((1, 2), np.float32), view.to_frame), [[1.5, 1.5]])
    check_places(view, 1, 0.51)


def test_a_thumbnail_of_an_odd_size_reaches_the_edges() -> None:
    view = view_of(np.zeros((67, 120, 3), np.uint8), 641, 359)
    corners = np.array([[-0.5, -0.5], [119.5, 66.5]], np.float32)
    np.testing.assert_allclose(transform(corners, view.to_frame), [[-0.5, -0.5], [640.5, 358.5]], atol=1e-3)


def test_padding_keeps_small_pictures_at_their_size_and_maps_back() -> None:
    view = padded(View(ramp(60, 40), IDENTITY), 640)
    assert view.image.shape == (80, 120, 3)
    np.testing.assert_allclose(transform(np.array([[30, 20]], np.float32), view.to_frame), [[0, 0]], atol=1e-4)
    np.testing.assert_array_equal(view.image[20:60, 30:90], ramp(60, 40))
    assert padded(View(ramp(200, 100), IDENTITY), 80).image.shape == (40, 80, 3)
    assert padded(View(np.zeros((1, 1, 3), np.uint8), IDENTITY), 640).image.shape == (1, 1, 3)


def covered(views: Iterable[View], width: int, height: int) -> FloatArray:
    """(height, width) how many tiles show each frame pixel."""
    count = np.zeros((height, width), np.float32)
    for view in views:
        corners = np.array([[-0.5, -0.5], [view.image.shape[1] - 0.5, view.image.shape[0] - 0.5]], np.float32)
        (x0, y0), (x1, y1) = np.rint(transform(corners, view.to_frame) + 0.5).astype(int).tolist()
        count[y0:y1, x0:x1] += 1
        assert view.inner == (x0 > 0, y0 > 0, x1 < width, y1 < height)
    return count


@pytest.mark.parametrize(
    ("width", "height", "scale"), [(3000, 1300, 1), (2561, 700, 1), (5000, 3000, 0.5), (90, 60, 1)]
)
def test_tiles_cover_the_frame_and_overlap(width: int, height: int, scale: float) -> None:
    frame = ArrayFrame(np.zeros((height, width, 3), np.uint8))
    views = list(tiles(frame, scale))
    assert max(max(view.image.shape) for view in views) <= TILE
    count = covered(views, width, height)
    assert count.min() == 1
    if width * scale > TILE:
        assert (count[0] > 1).sum() >= OVERLAP / scale


def test_tiles_read_only_boxes_inside_the_frame_and_know_their_place() -> None:
    class Watched(ArrayFrame):
        def read(self, box: Box) -> Image:
            assert box == box.clip(self.width, self.height) and not box.empty
            return super().read(box)

    image = cv2.resize(ramp(250, 100), (2500, 1000), interpolation=cv2.INTER_NEAREST)
    for view in tiles(Watched(np.asarray(image, np.uint8)), 1.0):
        y, x = 333, 777
        place = transform(np.array([[x, y]], np.float32), view.to_frame)[0]
        np.testing.assert_array_equal(view.image[y, x, :2], place // 10)


def test_a_region_makes_its_tilted_square_upright() -> None:
    matrix = Region(np.array([50, 40], np.float32), 20, np.pi / 2).matrix(100)
    np.testing.assert_allclose(transform(np.array([[50, 40]], np.float32), matrix), [[49.5, 49.5]], atol=1e-4)
    # Tilted a quarter turn clockwise, what lies below on screen is to the right in the crop.
    np.testing.assert_allclose(transform(np.array([[50, 50]], np.float32), matrix), [[99.5, 49.5]], atol=1e-3)


@pytest.mark.parametrize("degrees", range(0, 360, 45))
def test_the_region_of_a_mesh_follows_its_tilt_place_and_size(degrees: int) -> None:
    mesh = np.random.default_rng(1).uniform((-40, -60, 0), (40, 60, 1), (478, 3)).astype(np.float32)
    mesh[:4, :2] = [(-40, -60), (40, -60), (40, 60), (-40, 60)]
    mesh[list(EYE_CORNERS), :2] = [(-20, -20), (20, -20)]
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], np.float32)
    mesh[:, :2] = mesh[:, :2] @ turn.T + (300, 200)
    region = region_of_mesh(mesh)
    np.testing.assert_allclose(region.centre, (300, 200), atol=1e-3)
    assert region.side == pytest.approx(180, abs=1e-3)
    assert np.cos(region.angle - angle) == pytest.approx(1, abs=1e-6)


def test_a_mesh_at_one_place_still_has_a_region() -> None:
    region = region_of_mesh(np.full((478, 3), 7, np.float32))
    assert (region.centre.tolist(), region.side, region.angle) == ([7, 7], 1, 0)
    assert np.isfinite(region.matrix(256)).all()


def test_the_region_of_a_detection_is_tilted_like_its_eyes() -> None:
    points = np.array([(10, 10), (20, 20), (0, 0), (0, 0), (0, 0)], np.float32)
    region = region_of_detection(Detection(np.array([0, 0, 20, 40], np.float32), 0.9, points))
    np.testing.assert_allclose(region.centre, (10, 20))
    assert region.side == 60 and region.angle == pytest.approx(np.pi / 4)
    assert angle_of(points) == pytest.approx(np.pi / 4)


def test_chain_applies_the_first_matrix_first() -> None:
    double, shift = IDENTITY * 2, np.array([[1, 0, 5], [0, 1, 0]], np.float32)
    point = np.array([[1, 1]], np.float32)
    assert transform(point, chain(double, shift)).tolist() == [[7, 2]]
    assert transform(point, chain(shift, double)).tolist() == [[12, 2]]


def test_a_crop_is_read_from_the_frame_and_from_a_sharp_enough_thumbnail() -> None:
    frame = ArrayFrame(ramp(240, 200))
    blank = View(np.full((200, 240, 3), 9, np.uint8), IDENTITY)
    at_full_size = np.array([[1, 0, -100], [0, 1, -50]], np.float32)
    enlarged, shrunk = at_full_size * np.float32(2), at_full_size * np.float32(0.5)
    np.testing.assert_array_equal(crop_of(frame, at_full_size, 20)[:, :, :2], ramp(240, 200)[50:70, 100:120, :2])
    assert crop_of(frame, enlarged, 20, blank)[10, 10].tolist() == [105, 55, 0]
    assert crop_of(frame, shrunk, 20, blank)[10, 10].tolist() == [9, 9, 9]


def test_a_crop_beyond_the_frame_repeats_its_edge_or_is_black() -> None:
    frame = ArrayFrame(ramp(60, 60))
    half_out = np.array([[1, 0, 10], [0, 1, 0]], np.float32)
    assert crop_of(frame, half_out, 20)[5, :, 0].tolist() == [0] * 11 + list(range(1, 10))
    assert not crop_of(frame, np.array([[1, 0, 500], [0, 1, 0]], np.float32), 20).any()


def test_deep_pixels_become_bytes_by_rounding() -> None:
    deep = np.array([[[0, 0.5, 1]], [[-0.1, 1.2, 0.1]]], np.float32)
    assert as_bytes(deep).tolist() == [[[0, 128, 255]], [[0, 255, 26]]]
    same = np.zeros((1, 1, 3), np.uint8)
    assert as_bytes(same) is same


def test_a_thumbnail_never_enlarges() -> None:
    frame = ArrayFrame(ramp(40, 20))
    assert frame.thumbnail(640).shape == (20, 40, 3)
    assert frame.thumbnail(10).shape == (5, 10, 3)
