"""Pyramid blends: identity where nothing differs, no seam where something does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.pyramid import blend, reduce_to
from mien.types import FloatArray

SIZES = [(64, 64), (97, 131), (40, 33)]


def noise(height: int, width: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).uniform(0, 1, (height, width, 3)).astype(np.float32)


def full(height: int, width: int, level: float = 1.0) -> FloatArray:
    return np.full((height, width), level, np.float32)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_equal_images_are_blended_to_themselves(height: int, width: int) -> None:
    image = noise(height, width, 0)
    weights = [noise(height, width, seed)[..., 0] for seed in (1, 2, 3)]
    found = blend([image] * 3, weights, 4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, image, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_one_and_zero_give_the_one_image(height: int, width: int) -> None:
    a, b = noise(height, width, 0), noise(height, width, 1)
    np.testing.assert_allclose(blend([a, b], [full(height, width), full(height, width, 0)], 3), a, atol=1e-5)
    np.testing.assert_allclose(blend([a, b], [full(height, width, 0), full(height, width)], 3), b, atol=1e-5)


def test_weights_need_not_sum_to_one_and_none_means_the_first() -> None:
    a, b = noise(64, 64, 0), noise(64, 64, 1)
    np.testing.assert_allclose(blend([a, b], [full(64, 64, 3), full(64, 64, 1)], 3), 0.75 * a + 0.25 * b, atol=1e-5)
    np.testing.assert_allclose(blend([a, b], [full(64, 64, 0), full(64, 64, 0)], 3), a, atol=1e-5)


def test_no_levels_is_a_plain_weighted_mean() -> None:
    a, b, weight = noise(20, 30, 0), noise(20, 30, 1), noise(20, 30, 2)[..., 0]
    mean = weight[..., None] * a + (1 - weight[..., None]) * b
    np.testing.assert_allclose(blend([a, b], [weight, 1 - weight], 0), mean, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(128, 128), (101, 141)])
def test_no_seam_shows_at_a_hard_border(height: int, width: int) -> None:
    dark, pale = np.zeros((height, width, 3), np.float32), np.ones((height, width, 3), np.float32)
    left = full(height, width)
    left[:, width // 2 :] = 0
    found = blend([dark, pale], [left, 1 - left], 4)
    steps = np.abs(np.diff(found, axis=1))
    assert steps.max() < 0.06  # a hard cut steps by 1
    assert found[:, 0].max() < 0.05 and found[:, -1].min() > 0.95
    assert np.abs(np.diff(found, axis=0)).max() < 0.01


def test_detail_stays_on_its_side_of_the_border() -> None:
    fine = np.tile(np.array([[0.3, 0.7], [0.7, 0.3]], np.float32), (64, 64))[..., None].repeat(3, 2)
    flat = np.full((128, 128, 3), 0.5, np.float32)
    left = full(128, 128)
    left[:, 64:] = 0
    found = blend([fine, flat], [left, 1 - left], 4)
    assert np.abs(found[:, :60] - fine[:, :60]).max() < 0.05
    assert np.abs(found[:, 68:] - flat[:, 68:]).max() < 0.05


@settings(deadline=None, max_examples=25)
@given(st.integers(16, 70), st.integers(16, 70), st.integers(0, 3))
def test_any_size_is_blended_within_reason(height: int, width: int, levels: int) -> None:
    a, b, weight = noise(height, width, 0), noise(height, width, 1), noise(height, width, 2)[..., 0]
    found = blend([a, b], [weight, 1 - weight], levels)
    assert found.shape == a.shape
    assert found.min() > -0.6 and found.max() < 1.6
    np.testing.assert_allclose(found.mean(), (a.mean() + b.mean()) / 2, atol=0.1)


@pytest.mark.parametrize(("size", "side", "level"), [(512, 600, 512), (512, 250, 256), (512, 60, 64), (512, 1, 32)])
def test_reduction_stops_at_the_first_level_that_is_small_enough(size: int, side: float, level: int) -> None:
    image = np.full((size, size, 3), 0.3, np.float32)
    found = reduce_to(image, side)
    assert found.shape == (level, level, 3)
    np.testing.assert_allclose(found, 0.3, atol=1e-6)
    assert reduce_to(image[..., 0], side).shape == (level, level)


def test_a_texture_that_needs_no_reduction_is_not_copied() -> None:
    image = noise(64, 64, 0)
    assert reduce_to(image, 64) is image
