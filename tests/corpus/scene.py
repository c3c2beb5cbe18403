"""The picture that the corpus shows: a face on a pattern, and a number far from it that a test can read back."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

Pixels: TypeAlias = npt.NDArray[np.uint8]
Array: TypeAlias = npt.NDArray[Any]

ROOT = Path(__file__).parent.parent.parent
WIDTH, HEIGHT = 320, 240
PATCH = (144, 40, 304, 200)
"""x0, y0, x1, y1 of the pasted portrait; its face is 82×117 pixels. A swap changes nothing outside."""
BLOCK = 16
"""Side of one bit of the number, pixels."""
BITS = 10
NUMBER_AT = (16, 16)
# The square around the head in each portrait: x, y, side.
_HEADS = {
    "male_036": (67, 10, 380),
    "male_009": (160, 20, 200),
    "female_001": (103, 40, 320),
    "female_031": (98, 0, 320),
}


@cache
def _portrait(name: str) -> Pixels:
    folder = "examples" if name in ("source", "target") else "tests/fixtures/portraits"
    image = cv2.imread(str(ROOT / folder / f"{name}.jpg"))
    assert image is not None
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)


def photo_of(name: str) -> Path:
    """The file of a portrait."""
    return ROOT / "tests" / "fixtures" / "portraits" / f"{name}.jpg"


def head(name: str = "male_036", side: int = PATCH[2] - PATCH[0]) -> Pixels:
    """(side, side, 3) RGB: one person's head."""
    whole = _portrait(name)
    x, y, size = _HEADS.get(name, (0, 0, len(whole)))
    part = whole[y : y + size, x : x + size]
    way = cv2.INTER_AREA if side < size else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(part, (side, side), interpolation=way), np.uint8)


def pattern(width: int = WIDTH, height: int = HEIGHT, seed: int = 1) -> Pixels:
    """(height, width, 3) RGB: soft colours in which nothing looks like a face, with fine noise."""
    rng = np.random.default_rng(seed)
    small = rng.integers(60, 190, (max(2, height // 24), max(2, width // 24), 3)).astype(np.float32)
    soft = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.clip(soft + rng.normal(0, 3, soft.shape), 0, 255), np.uint8)


def stamp(rgb: Array, number: int, at: tuple[int, int] = NUMBER_AT, block: int = BLOCK) -> None:
    """Burn a number in as two rows of five blocks, black or white."""
    low, high = (np.array([20, 235]) * (np.iinfo(rgb.dtype).max / 255)).astype(rgb.dtype)
    for bit in range(BITS):
        y, x = at[1] + bit // 5 * block, at[0] + bit % 5 * block
        rgb[y : y + block, x : x + block] = high if number >> bit & 1 else low


def number_in(picture: Array, at: tuple[int, int] = NUMBER_AT, block: tuple[float, float] = (BLOCK, BLOCK)) -> int:
    """The number burnt into a picture (H, W) or (H, W, 3) of 8 or 16 bits; fails where a block is neither."""
    grey = picture if picture.ndim == 2 else picture[..., 1]
    peak = 65535.0 if grey.dtype == np.uint16 else 255.0
    number = 0
    for bit in range(BITS):
        y, x = at[1] + (bit // 5 + 0.25) * block[1], at[0] + (bit % 5 + 0.25) * block[0]
        part = grey[round(y) : round(y + block[1] / 2), round(x) : round(x + block[0] / 2)]
        level = float(part.mean()) / peak
        assert level < 0.35 or level > 0.65, f"bit {bit} of the number is unreadable: {level:.2f}"
        number |= int(level > 0.5) << bit
    return number


def scene(
    number: int = 0, name: str | None = "male_036", seed: int = 1, width: int = WIDTH, height: int = HEIGHT
) -> Pixels:
    """(height, width, 3) RGB: the pattern, a head at `PATCH` (none if `name` is None) and the number."""
    made = pattern(width, height, seed).copy()
    if name is not None:
        x0, y0, x1, y1 = PATCH
        made[y0:y1, x0:x1] = head(name)
    stamp(made, number)
    return made


def outside(height: int, width: int, box: tuple[int, int, int, int] = PATCH, step: tuple[int, int] = (1, 1)) -> Array:
    """(height, width) bool: true beyond the box. `step`: pixels per sample across and down."""
    keep = np.ones((height, width), bool)
    keep[box[1] // step[1] : -(-box[3] // step[1]), box[0] // step[0] : -(-box[2] // step[0])] = False
    return keep


def assert_only_box_changed(before: Array, after: Array, box: tuple[int, int, int, int] = PATCH) -> None:
    """Equal beyond the box in every sample, and plainly changed within it: a face was swapped there."""
    assert before.shape == after.shape
    assert before.dtype == after.dtype
    keep = outside(before.shape[0], before.shape[1], box)
    assert np.array_equal(before[keep], after[keep]), f"{int((before != after)[keep].sum())} samples changed outside"
    change = np.abs(before[~keep].astype(float) - after[~keep]) / float(np.iinfo(before.dtype).max)
    assert (change > 0.04).mean() > 0.02, "no face was swapped"
