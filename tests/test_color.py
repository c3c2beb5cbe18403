"""Colour spaces, and light that is carried over without the outliers."""

from __future__ import annotations

import numpy as np
import pytest

from mien.color import as_bytes, as_float, from_lab, robust_offset, smooth, to_lab
from mien.types import FloatArray

SIDE = 96


def ramp(low: float, high: float, down: bool = False, channels: int = 3) -> FloatArray:
    """(SIDE, SIDE, channels) from low to high, rightwards or down."""
    line = np.linspace(low, high, SIDE, dtype=np.float32)
    plane = np.tile(line[:, None] if down else line, (1, SIDE) if down else (SIDE, 1))
    return np.repeat(plane[..., None], channels, axis=2)


def ones() -> FloatArray:
    return np.ones((SIDE, SIDE), np.float32)


def test_bytes_and_floats_agree() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(1, -1, 1).repeat(3, axis=2)
    floats = as_float(levels)
    assert floats.dtype == np.float32 and (floats.min(), floats.max()) == (0, 1)
    np.testing.assert_array_equal(as_bytes(floats), levels)
    assert as_bytes(levels) is levels
    assert as_float(floats) is floats
    assert as_bytes(np.array([[[-1.0, 0.5, 2.0]]], np.float32)).tolist() == [[[0, 128, 255]]]


def test_lab_of_known_colours() -> None:
    colours = np.array([[[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1], [0.5, 0.5, 0.5]]], np.float32)
    known = np.array([[0, 0, 0], [100, 0, 0], [53.24, 80.09, 67.20], [32.30, 79.19, -107.86], [53.39, 0, 0]])
    np.testing.assert_allclose(to_lab(colours)[0], known, atol=0.3)


def test_lab_and_back_is_the_same_colour() -> None:
    rgb = np.random.default_rng(0).uniform(0, 1, (40, 50, 3)).astype(np.float32)
    np.testing.assert_allclose(from_lab(to_lab(rgb)), rgb, atol=1 / 255)


def test_colours_out_of_range_are_clipped() -> None:
    wild = np.array([[[-1, 0.5, 3]]], np.float32)
    np.testing.assert_array_equal(to_lab(wild), to_lab(np.clip(wild, 0, 1)))
    assert from_lab(np.array([[[140, 90, -120], [-20, 0, 0]]], np.float32)).tolist()[0][1] == [0, 0, 0]


@pytest.mark.parametrize("sigma", [0.5, 3.0, 40.0])
def test_smoothing_keeps_constants_whatever_the_weights(sigma: float) -> None:
    values = np.broadcast_to(np.array([7, -3], np.float32), (SIDE, SIDE, 2)).copy()
    weight = np.random.default_rng(1).uniform(0, 1, (SIDE, SIDE)).astype(np.float32)
    weight[:, : SIDE // 2] = 0
    found = smooth(values, weight, sigma)
    np.testing.assert_allclose(found, values, rtol=1e-3)


@pytest.mark.parametrize("sigma", [1.0, 20.0])
def test_smoothing_is_defined_where_no_weight_is_near(sigma: float) -> None:
    values, weight = ramp(5, 5, channels=1), np.zeros((SIDE, SIDE), np.float32)
    weight[:3, :3] = 1
    values[weight == 0] = 1e3  # counts for nothing
    found = smooth(values, weight, sigma)
    assert found.shape == values.shape
    np.testing.assert_allclose(found, 5, rtol=0.01)
    assert np.isfinite(smooth(values, np.zeros_like(weight), sigma)).all()


def test_a_gap_takes_its_values_from_the_nearer_side() -> None:
    values, weight = np.zeros((64, 200, 1), np.float32), np.zeros((64, 200), np.float32)
    weight[:, :20] = weight[:, -20:] = 1
    values[:, 100:] = 1
    line = smooth(values, weight, 8.0)[32, :, 0]
    assert (np.diff(line) > -1e-4).all()
    assert line[55] < 0.2 and line[145] > 0.8  # more than 4 sigma into the gap


def test_smoothing_flattens_more_the_wider_it_is() -> None:
    noise = np.random.default_rng(2).normal(0, 1, (SIDE, SIDE, 1)).astype(np.float32)
    spread = [float(smooth(noise, ones(), sigma).std()) for sigma in (1.0, 4.0, 16.0)]
    assert 0.5 > spread[0] > 2 * spread[1] > 4 * spread[2]


def test_smoothing_follows_a_slow_change() -> None:
    # The border's half of each neighbourhood is missing, so only the middle is unbiased.
    part = np.s_[30:-30, 30:-30]
    np.testing.assert_allclose(smooth(ramp(0, 1), ones(), 5.0)[part], ramp(0, 1)[part], atol=0.02)


def outliers(share: float) -> FloatArray:
    """(SIDE, SIDE) 0/1, `share` of it 1: half in one blob, half scattered."""
    chance = np.random.default_rng(3)
    mask = (chance.uniform(0, 1, (SIDE, SIDE)) < share / 2).astype(np.float32)
    side = round(SIDE * (share / 2) ** 0.5)
    mask[50 : 50 + side, 20 : 20 + side] = 1
    return mask


def test_a_smooth_offset_is_recovered_despite_gross_outliers() -> None:
    source = ramp(30, 60) + np.random.default_rng(4).normal(0, 2, (SIDE, SIDE, 3)).astype(np.float32)
    offset = ramp(10, 16, down=True)
    bad = outliers(0.1)
    assert 0.08 < bad.mean() < 0.12
    target = np.asarray(source + offset + 70 * bad[..., None], np.float32)
    sigma = 0.2 * SIDE
    found = robust_offset(source, target, ones(), sigma)
    assert found.shape == source.shape and found.dtype == np.float32
    plain = smooth(target - source, ones(), sigma)
    assert np.abs(found - offset).max() < 3
    assert np.abs(found - offset).mean() < 1
    assert np.abs(plain - offset).max() > 10
    assert np.abs(plain - offset).mean() > 5


def test_what_has_no_weight_does_not_count() -> None:
    source = ramp(30, 60)
    target, weight = source + 5, ones()
    target[:, 48:] = 0
    weight[:, 48:] = 0
    np.testing.assert_allclose(robust_offset(source, target, weight, 10.0), 5, atol=0.05)
