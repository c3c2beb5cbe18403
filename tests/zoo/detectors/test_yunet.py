"""YuNet of OpenCV's zoo: a file whose input is fixed gets fitted pictures."""

from __future__ import annotations

import numpy as np
import pytest

from mien.errors import ModelError
from mien.types import FloatArray
from mien.zoo.detectors.yunet import YuNet2023Mar
from tests.zoo.detectors.told import Told, grid


def nothing(side: int) -> list[FloatArray]:
    """What a graph tells of an empty picture of side × side."""
    return [np.zeros((1, grid((side, side), s), width), np.float32) for width in (1, 1, 4, 10) for s in (8, 16, 32)]


def test_a_fixed_input_is_fitted_and_results_are_in_the_pictures_pixels() -> None:
    told = nothing(64)
    told[0][0, 9] = 0.9
    told[3][0, 9] = 0.4
    told[6][0, 9] = (0.5, 0.5, np.log(2), np.log(3))
    told[9][0, 9] = np.arange(10) / 10
    graph = Told(told, side=64)
    image = np.full((128, 96, 3), (255, 128, 7), np.uint8)
    (hit,) = graph.model(YuNet2023Mar)(image, 0.5)
    assert graph.given[0, :, 0, 0].tolist() == [7, 128, 255]
    assert not graph.given[0, :, :, 48:].any()
    assert round(hit.score, 6) == 0.6
    np.testing.assert_allclose(hit.bbox, np.array([12 - 8, 12 - 12, 12 + 8, 12 + 12]) * 2, rtol=1e-5)
    np.testing.assert_allclose(hit.keypoints, (1 + np.arange(10).reshape(5, 2) / 10) * 16, rtol=1e-5)


def test_scores_are_taken_as_0_to_1_before_they_are_multiplied() -> None:
    told = nothing(64)
    for cell, (cls, obj) in {0: (1.5, 0.25), 3: (0.16, 1.5), 6: (-0.9, -0.9), 24: (0.9, -0.1)}.items():
        told[0][0, cell], told[3][0, cell] = cls, obj
    hits = Told(told, side=64).model(YuNet2023Mar)(np.zeros((64, 64, 3), np.uint8), 0.1)
    np.testing.assert_allclose([hit.score for hit in hits], [0.5, 0.4], rtol=1e-6)


def test_boxes_that_are_beyond_all_numbers_are_refused() -> None:
    told = nothing(64)
    told[0][0, 0] = told[3][0, 0] = 0.9
    told[6][0, 0, 2] = 200
    with pytest.raises(ModelError, match=r"^yunet_2023mar: the model gave values that are not finite"):
        Told(told, side=64).model(YuNet2023Mar)(np.zeros((64, 64, 3), np.uint8), 0.5)


def test_outputs_of_another_size_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^yunet_2023mar: gave 16, 4, 1, .* cells, not \[64, 16, 4, .* is not YuNet$"):
        Told(nothing(32), side=64).model(YuNet2023Mar)(np.zeros((64, 64, 3), np.uint8), 0.5)
