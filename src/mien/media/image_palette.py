"""Colours into palettes of at most 256: exactly where there is room, dithered where there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.types import ByteArray

_SAMPLE = 20_000
_SERVED = 0.7
"""Share of the colours that a palette shows best, which get no new entries."""
Mask = npt.NDArray[np.bool_]


def fill(indices: ByteArray, palette: ByteArray, free: Sequence[int], rgb: ByteArray, mask: Mask) -> bool:
    """Give the pixels of `mask` their colours, in place, keeping each pixel's own alpha.

    The colours go to free places of the palette: all of them if they fit, else the best few, and the rest is
    dithered with what the palette holds by then.

    Args:
        indices: (H, W), with the old index of each pixel of the mask, which says its alpha.
        palette: (256, 4) RGBA.
        free: places of the palette that no pixel outside the mask uses.
        rgb: (H, W, 3) wanted colours.
        mask: (H, W) the pixels to change.

    Returns:
        Whether every colour is exact.
    """
    alpha = palette[indices, 3]
    wanted = mask & (alpha > 0)  # Below full transparency no colour shows.
    levels, counts = np.unique(alpha[wanted], return_counts=True)
    spare = [int(place) for place in np.setdiff1d(free, indices[mask & ~wanted])]
    kept = np.setdiff1d(np.arange(256), spare)
    kept_alpha = palette[kept, 3].copy()
    lonely = [level for level in levels if level not in kept_alpha]
    exact = True
    for level in levels[np.argsort(-counts)]:
        lonely = [value for value in lonely if value != level]
        share = max(0, len(spare) - len(lonely))  # One place for each later alpha that has none.
        pixels = wanted & (alpha == level)
        taken, fits = _fill_level(indices, palette, spare[:share], kept[kept_alpha == level], int(level), rgb, pixels)
        spare, exact = spare[taken:], exact and fits
    return exact


def reduced(rgb: ByteArray, count: int) -> ByteArray:
    """(N, 3) colours to the `count` or fewer that stand for them best."""
    made = Image.fromarray(rgb.reshape(1, -1, 3)).quantize(count, Image.Quantize.MEDIANCUT, kmeans=2)
    colors = np.array(made.getpalette("RGB"), np.uint8).reshape(-1, 3)
    return np.asarray(colors[np.unique(np.asarray(made))])


def packed(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """(…, C) uint8 with up to 4 channels to one number for each pixel."""
    made = np.zeros(pixels.shape[:-1], np.uint32)
    for channel, shift in zip(range(pixels.shape[-1]), (24, 16, 8, 0), strict=False):
        made |= pixels[..., channel].astype(np.uint32) << np.uint32(shift)
    return made


def unpacked(codes: npt.NDArray[np.uint32]) -> ByteArray:
    """(…, 3) colours of what `packed` gave for three channels."""
    return np.stack([codes >> np.uint32(shift) & 255 for shift in (24, 16, 8)], -1).astype(np.uint8)


def _fill_level(
    indices: ByteArray, palette: ByteArray, places: Sequence[int], kept: npt.NDArray[Any], level: int,
    rgb: ByteArray, mask: Mask,
) -> tuple[int, bool]:  # fmt: skip
    """`fill` for the pixels of one alpha: how many places it took, and whether every colour is exact."""
    colors = rgb[mask]
    numbers = packed(colors)
    new = unpacked(np.setdiff1d(numbers, packed(palette[kept, :3])))
    exact = len(new) <= len(places)
    if not exact and places:
        new = reduced(_unserved(colors, palette[kept, :3]), len(places))
    new = new[: len(places)]
    used = np.array(places[: len(new)], int)
    palette[used, :3], palette[used, 3] = new, level
    entries = np.concatenate([kept, used]).astype(int)
    if exact:
        codes = packed(palette[entries, :3])
        order = np.argsort(codes)
        indices[mask] = entries[order[np.searchsorted(codes[order], numbers)]]
    else:
        x, y, width, height = cv2.boundingRect(mask.view(np.uint8))
        part = (slice(y, y + height), slice(x, x + width))
        indices[part][mask[part]] = entries[_dithered(rgb[part], palette[entries, :3])[mask[part]]]
    return len(used), exact


def _unserved(colors: ByteArray, palette: ByteArray) -> ByteArray:
    """Those of the colours (N, 3) that a palette (M, 3) shows worst, or a sample of them."""
    sample = colors[:: max(1, len(colors) // _SAMPLE)].astype(np.int32)
    if not len(palette):
        return sample.astype(np.uint8)
    errors = np.full(len(sample), np.iinfo(np.int32).max, np.int32)
    for entry in palette.astype(np.int32):
        np.minimum(errors, ((sample - entry) ** 2).sum(1), out=errors)
    return np.asarray(sample[errors >= np.quantile(errors, _SERVED)], np.uint8)


def _dithered(rgb: ByteArray, colors: ByteArray) -> npt.NDArray[np.intp]:
    """(H, W) places in `colors` (N, 3) that show the picture, its errors diffused."""
    table = Image.new("P", (1, 1))
    table.putpalette(colors.tobytes())
    made = Image.fromarray(np.ascontiguousarray(rgb)).quantize(palette=table, dither=Image.Dither.FLOYDSTEINBERG)
    return np.asarray(np.minimum(np.asarray(made), len(colors) - 1), np.intp)
