"""SCRFD: what its graph is given, and what its nine outputs mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import ModelError
from mien.types import FloatArray
from mien.zoo.detectors.scrfd import SCRFD, SCRFD10G, SCRFD500M, RetinaFace10G, decode
from tests.zoo.detectors.told import Told, grid

SIZE = (128, 64)
POINTS = np.arange(10, dtype=np.float32) / 4


def outputs(size: tuple[int, int], batched: bool = False) -> list[FloatArray]:
    """Nothing found, for an input of width × height."""
    shapes = [(grid(size, stride, 2), width) for width in (1, 4, 10) for stride in (8, 16, 32)]
    return [np.zeros((1, *shape) if batched else shape, np.float32) for shape in shapes]


def put(told: list[FloatArray], level: int, row: int, score: float) -> None:
    """An anchor whose box reaches 1, 2, 3 and 4 strides from it."""
    for kind, values in enumerate((np.array([score]), np.arange(1, 5), POINTS)):
        told[level + 3 * kind].reshape(-1, len(values))[row] = values


@pytest.mark.parametrize("batched", [False, True])
def test_pixels_are_rgb_about_zero_and_a_free_input_has_the_pictures_size(batched: bool) -> None:
    told = Told(outputs(SIZE, batched))
    image = np.zeros((60, 100, 3), np.uint8)
    image[:, :] = (255, 128, 0)
    assert told.model(SCRFD10G)(image, 0.5) == []
    assert told.given.shape == (1, 3, 64, 128)
    np.testing.assert_allclose(told.given[0, :, 59, 99], [127.5 / 128, 0.5 / 128, -127.5 / 128], atol=1e-6)
    np.testing.assert_allclose(told.given[0, :, 60, 100], [-127.5 / 128] * 3, atol=1e-6)


def test_the_order_of_channels_is_a_field() -> None:
    class Other(SCRFD500M):
        order = "BGR"

    told = Told(outputs((32, 32)))
    image = np.full((32, 32, 3), (255, 128, 0), np.uint8)
    told.model(Other)(image, 0.5)
    np.testing.assert_allclose(told.given[0, :, 0, 0], [-127.5 / 128, 0.5 / 128, 127.5 / 128], atol=1e-6)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("level", "stride"), [(0, 8), (1, 16), (2, 32)])
def test_distances_count_strides_from_the_top_left_of_a_cell_and_each_cell_has_two_anchors(
    level: int, stride: int, batched: bool
) -> None:
    told = outputs(SIZE, batched)
    put(told, level, 2 * (SIZE[0] // stride + 1) + 1, 0.75)  # the second anchor of column 1, row 1
    (hit,) = Told(told).model(SCRFD10G)(np.zeros((64, 128, 3), np.uint8), 0.5)
    assert hit.score == 0.75 and not hit.guessed
    np.testing.assert_allclose(hit.bbox, np.array([0, -1, 4, 5]) * stride)
    np.testing.assert_allclose(hit.keypoints, (1 + POINTS.reshape(5, 2)) * stride)


def test_a_picture_is_fitted_into_a_fixed_input_and_results_are_in_its_own_pixels() -> None:
    told = outputs((64, 64))
    put(told, 0, 2 * (2 * 8 + 3), 0.9)
    graph = Told(told, side=64)
    image = np.zeros((100, 200, 3), np.uint8)
    image[:, 100:] = 255
    (hit,) = graph.model(RetinaFace10G)(image, 0.5)
    assert graph.given.shape == (1, 3, 64, 64)
    np.testing.assert_allclose(graph.given[0, 0, :32, 40:], 127.5 / 128, atol=1e-6)
    np.testing.assert_allclose(graph.given[0, 0, 32:], -127.5 / 128, atol=1e-6)
    scale = 200 / 64
    np.testing.assert_allclose(hit.bbox, np.array([16, 0, 48, 48]) * scale)
    np.testing.assert_allclose(hit.keypoints, (np.array([24, 16]) + 8 * POINTS.reshape(5, 2)) * scale)


def test_a_small_picture_is_enlarged_to_a_fixed_input() -> None:
    told = outputs((64, 64))
    put(told, 1, 0, 0.9)
    (hit,) = Told(told, side=64).model(SCRFD10G)(np.zeros((32, 16, 3), np.uint8), 0.5)
    np.testing.assert_allclose(hit.bbox, np.array([-16, -32, 48, 64]) / 2)


def test_the_first_row_counts_and_better_hits_come_first_and_hide_those_they_overlap() -> None:
    told = outputs(SIZE)
    put(told, 0, 0, 0.9)
    put(told, 0, 1, 0.7)  # the same box
    put(told, 2, 4, 0.95)
    hits = Told(told).model(SCRFD10G)(np.zeros((64, 128, 3), np.uint8), 0.5)
    assert [round(hit.score, 2) for hit in hits] == [0.95, 0.9]
    assert hits[1].bbox.tolist() == [-8, -16, 24, 32]


def test_outputs_of_another_size_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^scrfd_10g: gave 32, 8, 2, .* cells, not \[128, 32, 8"):
        Told(outputs((32, 32))).model(SCRFD10G)(np.zeros((64, 64, 3), np.uint8), 0.5)


def test_boxes_that_are_beyond_all_numbers_are_refused() -> None:
    told = outputs((32, 32))
    put(told, 2, 0, 0.9)
    told[5][0] = 3e38
    with (
        pytest.raises(ModelError, match=r"^scrfd_10g: the model gave values that are not finite"),
        np.errstate(all="ignore"),
    ):
        Told(told).model(SCRFD10G)(np.zeros((32, 32, 3), np.uint8), 0.5)


def test_a_file_of_other_outputs_is_refused() -> None:
    with pytest.raises(ModelError, match=r"expected outputs \?×1, \?×1, .* but found 1×8; this file is not"):
        Told([np.zeros((1, 8), np.float32)]).model(SCRFD10G)


def test_the_cards_say_that_they_are_not_for_commerce() -> None:
    cards = [cls.card for cls in SCRFD.__subclasses__() if cls.__module__.startswith("mien")]
    assert sorted(card.name for card in cards) == ["retinaface_10g", "scrfd_10g", "scrfd_2.5g", "scrfd_500m"]
    assert not any(card.commercial or card.bundled for card in cards)


@settings(deadline=None, max_examples=60)
@given(
    level=st.integers(0, 2), place=st.floats(0, 0.999), anchor=st.integers(0, 1),
    sides=st.lists(st.floats(0.1, 20), min_size=4, max_size=4),
    points=st.lists(st.floats(-10, 10), min_size=10, max_size=10),
    columns=st.integers(1, 6), rows=st.integers(1, 6),
)  # fmt: skip
def test_what_is_encoded_is_decoded(
    level: int, place: float, anchor: int, sides: list[float], points: list[float], columns: int, rows: int
) -> None:
    size, stride = (32 * columns, 32 * rows), (8, 16, 32)[level]
    told = outputs(size)
    across, down = size[0] // stride, size[1] // stride
    cell = int(place * across * down)
    x, y = cell % across * stride, cell // across * stride
    box = np.array([x - sides[0] * stride, y - sides[1] * stride, x + sides[2] * stride, y + sides[3] * stride])
    told[level][2 * cell + anchor] = 0.8
    told[level + 3][2 * cell + anchor] = np.array([x - box[0], y - box[1], box[2] - x, box[3] - y]) / stride
    told[level + 6][2 * cell + anchor] = points
    boxes, scores, found = decode(told, size, 0.5)
    assert scores.tolist() == [np.float32(0.8)]
    np.testing.assert_allclose(boxes[0], box, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(found[0], np.array(points).reshape(5, 2) * stride + (x, y), rtol=1e-5, atol=1e-3)
