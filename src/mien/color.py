"""Colour spaces and robust low-frequency colour transfer."""

from __future__ import annotations

import cv2
import numpy as np

from mien.types import ByteArray, FloatArray, Image


def as_float(image: Image) -> FloatArray:
    """RGB as float32 0–1, whatever its depth."""
    if image.dtype == np.uint8:
        return np.asarray(image.astype(np.float32) / 255, np.float32)
    return np.asarray(image, np.float32)


def as_bytes(image: Image) -> ByteArray:
    """RGB as uint8, for networks."""
    if image.dtype == np.uint8:
        return np.asarray(image, np.uint8)
    return np.asarray(np.clip(np.rint(image * 255), 0, 255), np.uint8)


def to_lab(rgb: FloatArray) -> FloatArray:
    """sRGB 0–1 → CIELAB, L 0–100 (D65)."""
    return np.asarray(cv2.cvtColor(np.clip(rgb, 0, 1), cv2.COLOR_RGB2Lab), np.float32)


def from_lab(lab: FloatArray) -> FloatArray:
    """CIELAB → sRGB clipped to 0–1."""
    return np.clip(np.asarray(cv2.cvtColor(lab, cv2.COLOR_Lab2RGB), np.float32), 0, 1)


def smooth(values: FloatArray, weight: FloatArray, sigma: float) -> FloatArray:
    """Gaussian mean of (H, W, C) values, each counted by its (H, W) weight (normalised convolution).

    Where no weight is near, wider neighbourhoods answer, so the result is defined everywhere. Wide means are made on a
    coarser grid, where they cost little and lose nothing.
    """
    height, width = weight.shape
    weighted, sigma = _coarse(np.concatenate([values * weight[..., None], weight[..., None]], axis=2), sigma)
    pixels = weighted.shape[0] * weighted.shape[1]
    *sums, all_of_it = np.ones(pixels, np.float32) @ weighted.reshape(pixels, -1)  # faster than a sum
    mean = np.array(sums, np.float32) / max(float(all_of_it), 1e-6)
    near, far = _blur(weighted, sigma), _blur(weighted, 3 * sigma)
    total = near + 0.02 * far
    found = np.asarray((total[..., :-1] + 1e-5 * mean) / (total[..., -1:] + 1e-5), np.float32)
    return _enlarged(found, height, width).reshape(height, width, -1)


def _blur(values: FloatArray, sigma: float) -> FloatArray:
    """Gaussian blur of (H, W, C); wide ones on a coarser grid."""
    small, sigma = _coarse(values, sigma)
    blurred = np.asarray(cv2.GaussianBlur(small, (0, 0), max(sigma, 0.1)), np.float32)
    return _enlarged(blurred, *values.shape[:2])


def _coarse(values: FloatArray, sigma: float) -> tuple[FloatArray, float]:
    """(H, W, C) values on a grid on which a wide Gaussian is four pixels wide, and its width there."""
    height, width = values.shape[:2]
    step = max(1.0, min(sigma / 4, min(height, width) / 8))
    if step < 1.5:
        return values, sigma
    size = (max(1, round(width / step)), max(1, round(height / step)))
    return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA), np.float32), sigma / step


def _enlarged(values: FloatArray, height: int, width: int) -> FloatArray:
    """What was made on such a grid at the size that it was made from."""
    if values.shape[:2] == (height, width):
        return values
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def robust_offset(
    source: FloatArray, target: FloatArray, weight: FloatArray, sigma: float, tolerance: float = 8.0
) -> FloatArray:
    """(H, W, C) smooth offset that takes `source` to `target`, blind to outliers.

    Iteratively reweighted local means (Cauchy weights): highlights, shadow edges and features that only
    one of the two faces has do not pull the light of their neighbourhood. Units are those of the input.
    """
    difference = target - source
    weights = weight
    offset = smooth(difference, weights, 2 * sigma)
    for width in (1.5 * sigma, sigma):
        residual = np.linalg.norm(difference - offset, axis=2) / tolerance
        weights = weight / (1 + residual * residual)
        offset = smooth(difference, weights, width)
    return offset
