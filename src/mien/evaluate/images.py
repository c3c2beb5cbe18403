"""How far two pictures are apart: PSNR, SSIM and colour difference."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from mien.errors import InputError
from mien.types import ByteArray

DoubleArray = npt.NDArray[np.float64]

EQUAL = 100.0
"""dB told for pictures that are equal, and the most that is told for any."""
WINDOW = 7
"""Side of SSIM's window in pixels."""


def psnr(a: ByteArray, b: ByteArray) -> float:
    """Peak signal-to-noise ratio of two uint8 pictures in dB, at most `EQUAL`."""
    error = float(((a.astype(np.float64) - b) ** 2).mean())
    return EQUAL if error == 0 else min(EQUAL, float(10 * np.log10(255**2 / error)))


def ssim(a: ByteArray, b: ByteArray) -> float:
    """Structural similarity of two (H, W, C) uint8 pictures, the mean over pixels and channels; 1 for equal ones.

    Wang et al., "Image quality assessment: from error visibility to structural similarity", 2004, with a uniform
    window of 7 × 7 and sample covariances, as scikit-image does unless told otherwise.

    Raises:
        InputError: pictures of different shapes, or smaller than the window.
    """
    if a.shape != b.shape or min(a.shape[:2]) < WINDOW:
        raise InputError(f"SSIM compares pictures of one shape from {WINDOW} × {WINDOW}, not {a.shape} and {b.shape}")
    x, y = a.astype(np.float64), b.astype(np.float64)
    sample = WINDOW**2 / (WINDOW**2 - 1)
    mean_x, mean_y = _mean(x), _mean(y)
    var_x = sample * (_mean(x * x) - mean_x * mean_x)
    var_y = sample * (_mean(y * y) - mean_y * mean_y)
    both = sample * (_mean(x * y) - mean_x * mean_y)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    value = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    value /= (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    edge = WINDOW // 2
    return float(value[edge : a.shape[0] - edge, edge : a.shape[1] - edge].mean())


def _mean(values: DoubleArray) -> DoubleArray:
    return np.asarray(cv2.blur(values, (WINDOW, WINDOW), borderType=cv2.BORDER_REFLECT), np.float64).reshape(
        values.shape
    )


def delta_e(a: npt.ArrayLike, b: npt.ArrayLike) -> DoubleArray:
    """(...,) CIEDE2000 colour difference of (..., 3) CIELAB colours; about 1 is just noticeable.

    Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula: implementation notes", 2005.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    chroma = [np.hypot(lab[..., 1], lab[..., 2]) for lab in (first, second)]
    mean7 = ((chroma[0] + chroma[1]) / 2) ** 7
    stretch = 1 + 0.5 * (1 - np.sqrt(mean7 / (mean7 + 25.0**7)))
    c1, c2 = (np.hypot(stretch * lab[..., 1], lab[..., 2]) for lab in (first, second))
    h1, h2 = (
        np.degrees(np.arctan2(lab[..., 2], stretch * lab[..., 1])) % 360 for lab in (first, second)
    )  # 0 for greys, as the paper has it
    turn = (h2 - h1 + 180) % 360 - 180
    turn = np.where(np.isclose(turn, -180), np.where(h2 > h1, 180.0, -180.0), turn)
    turn = np.where(c1 * c2 == 0, 0.0, turn)
    far = np.abs(h1 - h2) > 180
    hue = (h1 + h2) / 2 + np.where(far, np.where(h1 + h2 < 360, 180.0, -180.0), 0.0)
    hue = np.where(c1 * c2 == 0, h1 + h2, hue)
    light, colour = (first[..., 0] + second[..., 0]) / 2, (c1 + c2) / 2
    t = 1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue) + 0.32 * _cos(3 * hue + 6) - 0.20 * _cos(4 * hue - 63)
    scale_l = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    scale_c, scale_h = 1 + 0.045 * colour, 1 + 0.015 * colour * t
    colour7 = colour**7
    rotation = -np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2)))) * 2 * np.sqrt(colour7 / (colour7 + 25.0**7))
    dl, dc = (second[..., 0] - first[..., 0]) / scale_l, (c2 - c1) / scale_c
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / scale_h
    return np.asarray(np.sqrt(np.maximum(dl**2 + dc**2 + dh**2 + rotation * dc * dh, 0)), np.float64)


def _cos(degrees: DoubleArray) -> DoubleArray:
    return np.asarray(np.cos(np.radians(degrees)), np.float64)
