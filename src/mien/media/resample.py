"""Chroma planes to luma resolution and back, with the sample's place in its cell taken into account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mien.types import Box, FloatArray

_ROUND_TRIP = np.array([0.125, 0.75, 0.125], np.float32)
_IDENTITY = np.array([0.0, 1.0, 0.0], np.float32)


@dataclass(frozen=True, slots=True)
class Axis:
    """Luma samples start ≤ i < stop along one axis of a chroma plane."""

    start: int
    stop: int
    shift: int
    """log2 of luma samples per chroma sample."""
    siting: float
    """Luma samples from the cell's first sample to the chroma sample."""
    length: int
    """Chroma samples in the plane."""

    @property
    def window(self) -> slice:
        """The chroma samples that linear interpolation needs."""
        first = (self.start >> self.shift) - 1
        last = (self.stop - 1 >> self.shift) + 2
        return slice(max(first, 0), min(last, self.length))

    @property
    def step(self) -> float:
        """Chroma samples per luma sample."""
        return 1.0 / float(1 << self.shift)

    @property
    def origin(self) -> float:
        """Place of the first luma sample, in chroma samples from the window's start."""
        return (self.start - self.siting) * self.step - float(self.window.start)


def enlarge(plane: npt.NDArray[Any], x: Axis, y: Axis) -> FloatArray:
    """(h, w) float32 of the luma samples x × y, linear, replicated beyond the plane."""
    part = plane[y.window, x.window].astype(np.float32)
    matrix = np.array([[x.step, 0, x.origin], [0, y.step, y.origin]], np.float64)
    size = (x.stop - x.start, y.stop - y.start)
    # Steps of a quarter are exact in warpAffine's 1/32 grid.
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(part, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE))


def pad_to_cells(array: FloatArray, shift_x: int, shift_y: int, box: Box, shape: tuple[int, ...]) -> FloatArray:
    """Extend an array over `box` to whole cells: by 0 inside a plane of `shape`, replicated beyond its end."""
    left, right = _margins(box.x0, box.x1, shift_x)
    top, bottom = _margins(box.y0, box.y1, shift_y)
    if not (left or top or right or bottom):
        return array
    padded = np.pad(array, ((top, bottom), (left, right)))
    if right and box.x1 == shape[1]:
        padded[:, -1] = padded[:, -2]
    if bottom and box.y1 == shape[0]:
        padded[-1] = padded[-2]
    return padded


def reduce(
    array: FloatArray, shift: int, siting: float, edge_first: bool = False, edge_last: bool = False, *, axis: int
) -> FloatArray:
    """Halve an axis of even length (shift 1), by [1 1] / 2 or, where a sample sits on a luma sample, [1 2 1] / 4.

    What lies beyond the array counts as 0, or as its outermost sample at an edge of the picture.
    """
    if shift == 0:
        return array
    first, second = (array[:, 0::2], array[:, 1::2]) if axis == 1 else (array[0::2], array[1::2])
    if 0 < siting < 1:
        return (first + second) * np.float32(0.5)
    centre, side = (first, second) if siting == 0 else (second, first)
    total = centre * np.float32(0.5) + side * np.float32(0.25)
    if siting == 0:
        _add_shifted(total, side, first, edge_first, axis, step=1)
    else:
        _add_shifted(total, side, second, edge_last, axis, step=-1)
    return total


def round_trip(array: FloatArray, shift: int, siting: float, cut: bool, *, axis: int) -> FloatArray:
    """What `reduce` makes of what `enlarge` makes of an axis; `cut`: its last cell holds one luma sample only."""
    if shift == 0:
        return array
    # A sample a quarter above the middle of its cell tells more of the next cell's.
    tilt = {0.25: 0.0625, 0.75: -0.0625}.get(siting, 0.0)
    there = _ROUND_TRIP + np.array([-tilt, 0, tilt], np.float32)
    kernels = (there, _IDENTITY) if axis == 1 else (_IDENTITY, there)
    made = cv2.sepFilter2D(array, -1, kernels[0], kernels[1], borderType=cv2.BORDER_REPLICATE)
    if cut and 0 < siting < 1 and array.shape[axis] > 1:
        ends = (made[:, -1], array[:, -1], array[:, -2]) if axis == 1 else (made[-1], array[-1], array[-2])
        ends[0][...] = 0.75 * ends[1] + 0.25 * ends[2]
    return np.asarray(made, np.float32)


def _add_shifted(total: FloatArray, side: FloatArray, centre: FloatArray, at_edge: bool, axis: int, step: int) -> None:
    """Add a quarter of the neighbour cell's near sample: the one before (step 1) or after (step −1)."""
    if axis == 0:
        total, side, centre = total.T, side.T, centre.T
    if step < 0:
        total, side, centre = total[:, ::-1], side[:, ::-1], centre[:, ::-1]
    total[:, 1:] += side[:, :-1] * np.float32(0.25)
    if at_edge:
        total[:, 0] += centre[:, 0] * np.float32(0.25)


def _margins(start: int, stop: int, shift: int) -> tuple[int, int]:
    cell = 1 << shift
    return start % cell, -stop % cell
