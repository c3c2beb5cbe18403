"""YOLOv8-face and YOLOv5-face: their one output, and what the graph is given."""

from __future__ import annotations

import numpy as np
import pytest

from mien.errors import ModelError
from mien.types import FloatArray
from mien.zoo.detectors.yoloface import YoloFace, YoloV5Face, YoloV8Face
from tests.zoo.detectors.told import Told

POINTS = np.arange(10, dtype=np.float32).reshape(5, 2) * 3


def v8(side: int = 64) -> FloatArray:
    return np.zeros((1, 20, 21 * (side // 32) ** 2), np.float32)


def v5(side: int = 64) -> FloatArray:
    return np.zeros((1, 63 * (side // 32) ** 2, 16), np.float32)


def test_v8_rows_are_centre_size_score_and_points_with_visibility() -> None:
    out = v8()
    out[0, :, 0] = [30, 20, 10, 8, 0.8, *np.c_[POINTS, np.full(5, 0.5)].reshape(-1)]
    out[0, :5, 83] = [30, 20, 10, 8, 0.7]  # the same face, less sure
    out[0, :5, 40] = [50, 50, 4, 4, 0.59]
    (hit,) = Told([out], side=64).model(YoloV8Face)(np.zeros((64, 64, 3), np.uint8), 0.6)
    assert hit.score == pytest.approx(0.8)
    np.testing.assert_allclose(hit.bbox, [25, 16, 35, 24])
    np.testing.assert_allclose(hit.keypoints, POINTS)


def test_v5_scores_are_objectness_times_class() -> None:
    out = v5()
    out[0, 3] = [30, 20, 10, 8, 0.8, *POINTS.reshape(-1), 0.9]
    out[0, 9] = [50, 50, 4, 4, 0.9, *POINTS.reshape(-1), 0.6]
    (hit,) = Told([out], side=64).model(YoloV5Face)(np.zeros((64, 64, 3), np.uint8), 0.6)
    assert hit.score == pytest.approx(0.72)
    np.testing.assert_allclose(hit.bbox, [25, 16, 35, 24])
    np.testing.assert_allclose(hit.keypoints, POINTS)


@pytest.mark.parametrize(("family", "out"), [(YoloV8Face, v8()), (YoloV5Face, v5())])
def test_pixels_are_rgb_from_0_to_1_and_results_are_in_the_pictures_pixels(
    family: type[YoloFace], out: FloatArray
) -> None:
    out = out.copy()
    rows = out[0].T if family is YoloV8Face else out[0]
    rows[0, :5] = [30, 20, 10, 8, 0.8]
    rows[0, 15 if family is YoloV5Face else 19] = 1
    told = Told([out], side=64)
    image = np.full((128, 256, 3), (255, 102, 0), np.uint8)
    (hit,) = told.model(family)(image, 0.6)
    np.testing.assert_allclose(told.given[0, :, 0, 0], [1, 0.4, 0], atol=1e-6)
    assert not told.given[0, :, 32:].any()
    np.testing.assert_allclose(hit.bbox, np.array([25, 16, 35, 24]) * 4)


@pytest.mark.parametrize(("family", "out"), [(YoloV8Face, v8(32)), (YoloV5Face, v5(32))])
def test_rows_of_another_input_size_are_refused(family: type[YoloFace], out: FloatArray) -> None:
    with pytest.raises(ModelError, match=rf"^{family.card.name}: gave \d+ cells, not \[\d+\]; this file is not"):
        Told([out], side=64).model(family)(np.zeros((64, 64, 3), np.uint8), 0.6)


def test_the_order_of_channels_is_a_field() -> None:
    class Other(YoloV8Face):
        order = "BGR"

    told = Told([v8()], side=64)
    told.model(Other)(np.full((64, 64, 3), (255, 102, 0), np.uint8), 0.5)
    np.testing.assert_allclose(told.given[0, :, 0, 0], [0, 0.4, 1], atol=1e-6)


@pytest.mark.parametrize(("family", "out"), [(YoloV8Face, v8(1056)), (YoloV5Face, v5(1056))])
def test_large_inputs_have_a_row_for_each_anchor_of_each_cell(family: type[YoloFace], out: FloatArray) -> None:
    assert Told([out], side=1056).model(family)(np.zeros((64, 64, 3), np.uint8), 0.5) == []


def test_each_version_refuses_the_others_file() -> None:
    with pytest.raises(ModelError, match=r"expected outputs n×20×\? but found 1×252×16"):
        Told([v5()]).model(YoloV8Face)
    with pytest.raises(ModelError, match=r"expected outputs n×\?×16 but found 1×20×84"):
        Told([v8()]).model(YoloV5Face)
