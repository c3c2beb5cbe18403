"""Laplacian pyramids: joining pictures at every scale at once, so that no seam shows.

Burt and Adelson, "A multiresolution spline with application to image mosaics", 1983.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from mien.types import FloatArray


def blend(images: Sequence[FloatArray], weights: Sequence[FloatArray], levels: int) -> FloatArray:
    """Weighted mean of (H, W, C) images by (H, W) weights, each band joined at its own scale.

    Weights are normalised to sum to 1; where all are 0 the first image counts.
    """
    total = np.sum(weights, axis=0)
    shares = [np.where(total > 1e-9, w / np.maximum(total, 1e-9), float(i == 0)) for i, w in enumerate(weights)]
    bands = [_bands(image, levels) for image in images]
    result: list[FloatArray] = []
    masks = [np.asarray(share, np.float32) for share in shares]
    for level in range(levels + 1):
        result.append(np.sum([b[level] * m[..., None] for b, m in zip(bands, masks, strict=True)], axis=0))
        masks = [np.asarray(cv2.pyrDown(m), np.float32) for m in masks]
    out = result[-1]
    for band in reversed(result[:-1]):
        out = _up(out, band) + band
    return np.asarray(out, np.float32)


def _bands(image: FloatArray, levels: int) -> list[FloatArray]:
    bands = []
    for _ in range(levels):
        smaller = np.asarray(cv2.pyrDown(image), np.float32)
        bands.append(image - _up(smaller, image))
        image = smaller
    return [*bands, image]


def _up(image: FloatArray, like: FloatArray) -> FloatArray:
    return np.asarray(cv2.pyrUp(image, dstsize=(like.shape[1], like.shape[0])), np.float32)


def reduce_to(image: FloatArray, side: float) -> FloatArray:
    """The first pyramid level of a square image that is at most 1.6 × `side`, so that sampling does not alias."""
    while image.shape[0] > 1.6 * side and image.shape[0] > 32:
        image = np.asarray(cv2.pyrDown(image), np.float32)
    return image
