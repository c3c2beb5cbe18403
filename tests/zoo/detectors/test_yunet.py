"""YuNet of OpenCV's zoo: a file whose input is fixed gets fitted pictures."""

from __future__ import annotations

import numpy as np

from mien.zoo.detectors.yunet import YuNet2023Mar
from tests.zoo.detectors.told import Told, grid


def test_a_fixed_input_is_fitted_and_results_are_in_the_pictures_pixels() -> None:
    told = [np.zeros((1, grid((64, 64), s), width), np.float32) for width in (1, 1, 4, 10) for s in (8, 16, 32)]
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
