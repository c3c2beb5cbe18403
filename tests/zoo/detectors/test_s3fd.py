"""S3FD: six scales, and points that are only the usual layout."""

from __future__ import annotations

import numpy as np
import pytest

from mien.errors import ModelError
from mien.types import FloatArray
from mien.zoo.detectors.s3fd import S3FD
from tests.zoo.detectors.told import Told

STRIDES = (4, 8, 16, 32, 64, 128)
LAYOUT = np.array([(0.266, 0.392), (0.734, 0.392), (0.5, 0.597), (0.293, 0.737), (0.707, 0.737)])
"""The mean of the points that YuNet finds in 61 portraits, in its boxes, made symmetric."""


def outputs(width: int, height: int) -> list[FloatArray]:
    """Nothing found: logits of −5."""
    told = []
    for stride in STRIDES:
        shape = (-(-height // stride), -(-width // stride))
        told += [np.zeros((1, 2, *shape), np.float32), np.zeros((1, 4, *shape), np.float32)]
        told[-2][0, 1] = -5
    return told


@pytest.mark.parametrize("level", range(6))
def test_boxes_count_from_the_middle_of_a_cell_in_four_strides(level: int) -> None:
    told, stride = outputs(256, 128), STRIDES[level]
    row, column = (0, 1)
    told[2 * level][0, :, row, column] = (0, np.log(3))
    told[2 * level + 1][0, :, row, column] = (1, -2, 5 * np.log(2), 5 * np.log(3))
    (hit,) = Told(told).model(S3FD)(np.zeros((128, 256, 3), np.uint8), 0.5)
    side = 4 * stride
    middle, half = np.array([1.5 * stride + 0.1 * side, 0.5 * stride - 0.2 * side]), np.array([2, 3]) * side / 2
    assert hit.score == pytest.approx(0.75) and hit.guessed
    np.testing.assert_allclose(hit.bbox, [*(middle - half), *(middle + half)], rtol=1e-5)
    np.testing.assert_allclose(hit.keypoints, middle - half + LAYOUT * 2 * half, rtol=1e-5)


def test_pixels_are_bgr_minus_the_mean_and_sides_multiples_of_64() -> None:
    told = Told(outputs(192, 64))
    image = np.full((64, 130, 3), (200, 100, 50), np.uint8)
    assert told.model(S3FD)(image, 0.5) == []
    assert told.given.shape == (1, 3, 64, 192)
    np.testing.assert_allclose(told.given[0, :, 0, 0], [50 - 104, 100 - 117, 200 - 123])


@pytest.mark.parametrize("place", range(12))
def test_each_map_covers_the_input_and_only_the_coarse_ones_reach_beyond_it(place: int) -> None:
    image, told = np.zeros((144, 144, 3), np.uint8), outputs(144, 144)  # no stride from 32 on divides the sides
    assert Told(told, 144).model(S3FD)(image, 0.5) == []
    fewer, more = list(told), list(told)
    fewer[place] = told[place][:, :, 1:]
    for each in (place, place ^ 1):  # both of a pair
        more[each] = np.concatenate([told[each], told[each][:, :, :1]], 2)
    with pytest.raises(
        ModelError, match=r"^s3fd: gave .* cells, not \[1296, 1296, 324, 324, 81, 81, 25, 25, 9, 9, 4, 4\]"
    ):
        Told(fewer, 144).model(S3FD)(image, 0.5)
    if place >= 6:
        assert Told(more, 144).model(S3FD)(image, 0.5) == []
    else:
        with pytest.raises(ModelError, match=r"^s3fd: gave "):
            Told(more, 144).model(S3FD)(image, 0.5)


def test_maps_of_another_input_size_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^s3fd: gave 1024, 1024, 256, .* cells, not \[2048, 2048"):
        Told(outputs(128, 128)).model(S3FD)(np.zeros((128, 256, 3), np.uint8), 0.5)
