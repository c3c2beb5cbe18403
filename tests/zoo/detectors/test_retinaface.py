"""RetinaFace with priors: normalisation, priors, variances, and scores as logits or as probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import ModelError
from mien.types import FloatArray
from mien.zoo.anchors import face_of_two
from mien.zoo.detectors.retinaface import RetinaFace, RetinaFaceMnet025, RetinaFaceResNet50, decode
from tests.zoo.detectors.told import Told, grid

SIZES = {RetinaFaceMnet025: ((10, 20), (32, 64), (128, 256)), RetinaFaceResNet50: ((16, 32), (64, 128), (256, 512))}


def outputs(size: tuple[int, int]) -> list[FloatArray]:
    """Nothing found: logits of −5."""
    count = sum(grid(size, stride, 2) for stride in (8, 16, 32))
    told = [np.zeros((1, count, width), np.float32) for width in (4, 2, 10)]
    told[1][..., 1] = -5
    return told


def test_pixels_are_bgr_minus_the_mean() -> None:
    told = Told(outputs((64, 32)))
    image = np.full((32, 40, 3), (200, 100, 50), np.uint8)
    assert told.model(RetinaFaceResNet50)(image, 0.5) == []
    np.testing.assert_allclose(told.given[0, :, 0, 0], [50 - 104, 100 - 117, 200 - 123])
    np.testing.assert_allclose(told.given[0, :, 0, 40], [-104, -117, -123])


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize(("level", "stride"), [(0, 8), (1, 16), (2, 32)])
@pytest.mark.parametrize("second", [0, 1])
def test_offsets_count_from_the_middle_of_a_cell_in_sizes_of_its_prior(
    family: type[RetinaFace], level: int, stride: int, second: int
) -> None:
    size = (96, 64)
    told = outputs(size)
    side = SIZES[family][level][second]
    before = sum(grid(size, s, 2) for s in (8, 16, 32)[:level])
    row = before + 2 * (size[0] // stride + 2) + second  # column 2, row 1
    told[0][0, row] = (1, -2, 5 * np.log(2), 5 * np.log(3))
    told[1][0, row] = (0, np.log(3))
    told[2][0, row] = np.arange(10)
    (hit,) = Told(told).model(family)(np.zeros((64, 96, 3), np.uint8), 0.5)
    assert hit.score == pytest.approx(0.75)
    x, y = 2.5 * stride, 1.5 * stride
    middle = np.array([x + 0.1 * side, y - 0.2 * side])
    half = np.array([2, 3]) * side / 2
    np.testing.assert_allclose(hit.bbox, [*(middle - half), *(middle + half)], rtol=1e-5)
    np.testing.assert_allclose(hit.keypoints, (x, y) + 0.1 * side * np.arange(10).reshape(5, 2), rtol=1e-5)


def test_logits_and_probabilities_give_the_same_scores() -> None:
    logits = np.random.default_rng(1).normal(0, 3, (500, 2)).astype(np.float32)
    odds = np.exp(logits.astype(np.float64))
    probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
    np.testing.assert_allclose(face_of_two(logits), probabilities[:, 1], atol=1e-6)
    np.testing.assert_array_equal(face_of_two(probabilities), probabilities[:, 1])


def test_one_row_beyond_probability_tells_logits() -> None:
    pairs = np.array([[0.4, 0.6], [0.3, 0.7], [-1, 1]], np.float32)
    np.testing.assert_allclose(face_of_two(pairs), 1 / (1 + np.exp(pairs[:, 0] - pairs[:, 1])), rtol=1e-6)
    assert face_of_two(np.array([[-200, 200], [200, -200]], np.float32)).tolist() == [1, 0]


@pytest.mark.parametrize("pair", [(-1, 2), (0.3, 0.705), (0.3, 0.4), (0.9, 0.4)])
def test_rows_that_are_beyond_0_to_1_or_do_not_sum_to_1_are_logits(pair: tuple[float, float]) -> None:
    wanted = 1 / (1 + np.exp(pair[0] - pair[1]))
    np.testing.assert_allclose(face_of_two(np.array([pair], np.float32)), [wanted], rtol=1e-6)


def test_boxes_that_are_beyond_all_numbers_are_refused() -> None:
    told = outputs((32, 32))
    told[1][0, 0], told[0][0, 0, 2] = (0, 9), 500
    with pytest.raises(ModelError, match=r"^retinaface_resnet50: the model gave values that are not finite"):
        Told(told).model(RetinaFaceResNet50)(np.zeros((32, 32, 3), np.uint8), 0.5)


def test_the_number_of_priors_must_be_that_of_the_input() -> None:
    told = Told(outputs((32, 32)))
    with pytest.raises(ModelError, match=r"^retinaface_resnet50: gave 42, 42, 42 cells, not \[168, 168, 168\]"):
        told.model(RetinaFaceResNet50)(np.zeros((64, 64, 3), np.uint8), 0.5)


def test_a_fixed_input_is_fitted() -> None:
    told = outputs((64, 64))
    told[1][0, 0] = (0, 9)
    (hit,) = Told(told, side=64).model(RetinaFaceResNet50)(np.zeros((128, 64, 3), np.uint8), 0.5)
    np.testing.assert_allclose(hit.bbox, np.array([4 - 8, 4 - 8, 4 + 8, 4 + 8]) * 2)


@settings(deadline=None, max_examples=60)
@given(
    row=st.integers(0, 1_000_000), seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 5), rows=st.integers(1, 5),
)  # fmt: skip
def test_what_is_encoded_is_decoded(row: int, seed: int, columns: int, rows: int) -> None:
    size, priors = (32 * columns, 32 * rows), SIZES[RetinaFaceMnet025]
    cells = [
        ((i % (size[0] // s) + 0.5) * s, (i // (size[0] // s) + 0.5) * s, side)
        for s, pair in zip((8, 16, 32), priors, strict=True)
        for i in range(size[0] // s * (size[1] // s))
        for side in pair
    ]
    row %= len(cells)
    x, y, side = cells[row]
    random = np.random.default_rng(seed)
    centre, extent, points = random.uniform(0, 200, 2), random.uniform(3, 300, 2), random.uniform(0, 200, (5, 2))
    told = [output[0] for output in outputs(size)]
    told[0][row] = [*((centre - (x, y)) / side / 0.1), *(np.log(extent / side) / 0.2)]
    told[1][row] = (-3, 3)
    told[2][row] = ((points - (x, y)) / side / 0.1).reshape(-1)
    boxes, scores, found = decode(told, size, priors, 0.5)
    assert len(scores) == 1
    np.testing.assert_allclose(boxes[0], [*(centre - extent / 2), *(centre + extent / 2)], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(found[0], points, rtol=1e-4, atol=1e-2)
