from __future__ import annotations

import numpy as np
import pytest

from mien.errors import InputError
from mien.evaluate.images import EQUAL, delta_e, psnr, ssim
from mien.types import ByteArray


def ramps() -> tuple[ByteArray, ByteArray]:
    """Two pictures that anybody can make again."""
    y, x = np.mgrid[:16, :20]
    first = np.stack([x * 12 % 256, y * 15 % 256, x * y % 256], 2)
    second = np.stack([(x * 12 + 20) % 256, y * 14 % 256, (x * y + 5) % 256], 2)
    return first.astype(np.uint8), second.astype(np.uint8)


def test_psnr_of_known_differences() -> None:
    black, grey = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 51, np.uint8)
    assert psnr(black, grey) == pytest.approx(20 * np.log10(5))
    assert psnr(grey, black) == psnr(black, grey)
    assert psnr(grey, grey) == EQUAL


def test_ssim_is_that_of_scikit_image() -> None:
    first, second = ramps()
    # structural_similarity(first, second, channel_axis=2) of scikit-image 0.26
    assert ssim(first, second) == pytest.approx(0.9834060512012432, abs=1e-12)
    assert ssim(second, first) == pytest.approx(ssim(first, second), abs=1e-12)


def test_ssim_of_flat_pictures_follows_from_its_formula() -> None:
    dark, light = np.full((9, 9, 3), 100, np.uint8), np.full((9, 9, 3), 110, np.uint8)
    c1 = 2.55**2
    assert ssim(dark, light) == pytest.approx((2 * 100 * 110 + c1) / (100**2 + 110**2 + c1))
    assert ssim(dark, dark) == 1


@pytest.mark.parametrize("other", [np.zeros((9, 8, 3), np.uint8), np.zeros((6, 9, 3), np.uint8)])
def test_ssim_needs_two_pictures_of_one_shape_that_hold_its_window(other: ByteArray) -> None:
    with pytest.raises(InputError, match="7 × 7"):
        ssim(np.zeros(((6 if other.shape[0] == 6 else 9), 9, 3), np.uint8), other)


SHARMA = [
    ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
    ((50.0, 3.1571, -77.2803), (50.0, 0.0, -82.7485), 2.8615),
    ((50.0, -1.3802, -84.2814), (50.0, 0.0, -82.7485), 1.0),
    ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
    ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0009), 7.1792),
    ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
    ((50.0, -0.001, 2.49), (50.0, 0.0009, -2.49), 4.8045),
    ((50.0, -0.001, 2.49), (50.0, 0.0011, -2.49), 4.7461),
    ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
    ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
    ((50.0, 2.5, 0.0), (56.0, -27.0, -3.0), 31.903),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619), 2.0373),
    ((90.8027, -2.0831, 1.441), (91.1528, -1.6435, 0.0447), 1.4441),
    ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
]
"""Of the table of test data in the paper."""


@pytest.mark.parametrize(("one", "other", "expected"), SHARMA)
def test_delta_e_of_the_papers_colours(one: tuple[float, ...], other: tuple[float, ...], expected: float) -> None:
    assert float(delta_e(one, other)) == pytest.approx(expected, abs=1e-4)
    assert float(delta_e(other, one)) == pytest.approx(expected, abs=1e-4)


def test_delta_e_of_many_colours_at_once() -> None:
    colours = np.array([SHARMA[0][0], SHARMA[3][0]])
    others = np.array([SHARMA[0][1], SHARMA[3][1]])
    np.testing.assert_allclose(delta_e(colours, others), [2.0425, 2.3669], atol=1e-4)
    np.testing.assert_array_equal(delta_e(colours, colours), 0)
