"""Reading and editing boxes of a decoder's planes, in stored orientation and in the planes' own depth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.plane import VideoPlane

from mien.media import resample
from mien.media.colorspace import FULL_RANGE, LIMITED, ColorModel, resolve_matrix
from mien.types import Box, FloatArray, Image

_BAND = 1 << 16  # pixels
_SHARPNESS = 32.0  # per unit of change: an edit of 8 of 255 levels or more counts in full
_NOTHING = np.zeros(4)
_PLANAR = re.compile(r"(gray|yuva?\d{3}p|gbra?p)(\d+le)?")

Plane = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class PlaneFormat:
    """How one stream's planes hold its pixels: colours, depth, chroma grid."""

    model: ColorModel
    matrix: int
    """H.273 code in use, never "unspecified"."""
    depth: int
    """Bits per sample."""
    order: tuple[int, ...]
    """Plane of each of the model's components."""
    shift_x: int
    shift_y: int
    """log2 of luma samples per chroma sample."""
    siting_x: float
    siting_y: float
    """Where a chroma sample sits in its cell, in luma samples from the cell's first: 0, 0.5 or 1; in fields
    also 0.25 and 0.75."""

    @classmethod
    def of(cls, frame: av.VideoFrame, siting: tuple[float, float] = (0.0, 0.5)) -> PlaneFormat | None:
        """The format of a frame, or None if its pixel format is not planar (see `normalize.planar_format`)."""
        if not _PLANAR.fullmatch(frame.format.name):
            return None
        parts = [c for c in frame.format.components if not c.is_alpha]
        depth, order = parts[0].bits, tuple(c.plane for c in parts)
        matrix = resolve_matrix(frame.colorspace, frame.height)
        if frame.format.is_rgb:
            # As in FFmpeg, RGB is full range whatever the tag says, grey unless tagged, YUV only if tagged.
            model = ColorModel.rgb(depth)
        elif len(order) == 1:
            model = ColorModel.grey(matrix, frame.color_range != LIMITED, depth)
        else:
            model = ColorModel.yuv(matrix, frame.color_range == FULL_RANGE, depth)
        shifts = _shifts(frame.format) if len(order) == 3 else (0, 0)
        if max(shifts) > 1:
            return None
        sited = [s if shift else 0.0 for s, shift in zip(siting, shifts, strict=True)]
        return cls(model, matrix, depth, order, *shifts, *sited)

    @property
    def subsampled(self) -> bool:
        """True when chroma has fewer samples than luma."""
        return bool(self.shift_x or self.shift_y)

    @property
    def white(self) -> float:
        """Unit of the RGB that is worked with: 255 up to 8 bits, as `read` rounds to it, else 1."""
        return 255.0 if self.depth <= 8 else 1.0

    def cells(self, box: Box) -> Box:
        """The chroma samples of the cells that a box touches."""
        x, y = self.shift_x, self.shift_y
        return Box(box.x0 >> x, box.y0 >> y, -(-box.x1 >> x), -(-box.y1 >> y))


def bands(width: int, height: int) -> Iterator[slice]:
    """Rows, a few at a time, so that the work on them stays near the CPU and memory small."""
    step = max(2, _BAND // width)
    return (slice(top, min(top + step, height)) for top in range(0, height, step))


def views(frame: av.VideoFrame, layout: PlaneFormat) -> list[Plane]:
    """One writable (H, W) view per component. Take them after `make_writable`, and never keep them."""
    planes = frame.planes
    return [_view(planes[index], layout.depth) for index in layout.order]


def read(planes: Sequence[Plane], layout: PlaneFormat, box: Box) -> Image:
    """(h, w, 3) RGB: uint8 up to 8 bits, else float32 clipped to 0–1."""
    made = np.empty((box.height, box.width, 3), np.uint8 if layout.depth <= 8 else np.float32)
    for rows in bands(box.width, box.height):
        made[rows] = _quantize(_read(planes, layout, _rows_of(box, rows)), layout)
    return made


def write(planes: Sequence[Plane], layout: PlaneFormat, box: Box, rgb: FloatArray, mask: FloatArray) -> None:
    """Blend `rgb` (h, w, 3) into the box by `mask` (h, w), as a delta on what `read` showed.

    A luma sample may change only where the mask is above 0; a chroma sample only where the mask is above 0
    somewhere in its cell (2 × 2 pixels for 4:2:0). What was not edited stays bit-identical, 10 bits included.
    """
    *changes, edited = _changes(planes, layout, box, rgb, mask)
    cells = layout.cells(box)
    if layout.subsampled:
        edited = _mean(edited, layout, box, planes[0].shape)
    for i, (plane, change) in enumerate(zip(planes, changes, strict=True)):
        part = box
        if i and layout.subsampled:
            part = cells
            change = _cells(change, layout, box, planes[0].shape) * (edited > 0)
            change -= edited * _detail(plane, layout, part, planes[0].shape)
        _add(plane[part.y0 : part.y1, part.x0 : part.x1], change, layout.model.peak)


def fill(planes: Sequence[Plane], layout: PlaneFormat, rgb: FloatArray) -> None:
    """Replace every sample by `rgb` (H, W, 3), 0–1."""
    model = layout.model
    matrix = np.c_[model.forward, model.offset].astype(np.float32)
    box = Box(0, 0, rgb.shape[1], rgb.shape[0])
    for i, plane in enumerate(planes):
        codes = np.asarray(cv2.transform(rgb, matrix[i : i + 1]), np.float32).reshape(rgb.shape[:2])
        if i and layout.subsampled:
            codes = _cells(codes, layout, box, rgb.shape[:2])
        plane[...] = np.clip(np.rint(codes), 0, model.peak).astype(plane.dtype)


def copied(frame: av.VideoFrame) -> av.VideoFrame:
    """A frame of its own with the same samples, time and colour tags, but without side data."""
    made = _like(frame, frame.height)
    for old, new in zip(frame.planes, made.planes, strict=True):
        _move(_bytes(old), _bytes(new))
    return made


def field_of(frame: av.VideoFrame, parity: int) -> av.VideoFrame:
    """Every other row of a frame, from row `parity` on, as a frame of its own."""
    made = _like(frame, frame.height // 2)
    for old, new in zip(frame.planes, made.planes, strict=True):
        _move(_bytes(old)[parity::2], _bytes(new))
    return made


def weave(field: av.VideoFrame, frame: av.VideoFrame, parity: int) -> None:
    """Put a field's rows into a frame of twice its height, from row `parity` on."""
    for old, new in zip(field.planes, frame.planes, strict=True):
        _move(_bytes(old), _bytes(new)[parity::2])


def _like(frame: av.VideoFrame, height: int) -> av.VideoFrame:
    made = av.VideoFrame(frame.width, height, frame.format.name)
    made.pts, made.duration, made.time_base = frame.pts, frame.duration, frame.time_base
    made.colorspace, made.color_range = frame.colorspace, frame.color_range
    made.color_primaries, made.color_trc = frame.color_primaries, frame.color_trc
    return made


def _move(old: npt.NDArray[np.uint8], new: npt.NDArray[np.uint8]) -> None:
    width = min(old.shape[1], new.shape[1])
    new[:, :width] = old[:, :width]


def _bytes(plane: VideoPlane) -> npt.NDArray[np.uint8]:
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, abs(plane.line_size))  # type: ignore[call-overload]
    return rows[::-1] if plane.line_size < 0 else rows  # type: ignore[no-any-return]


def _rows_of(box: Box, rows: slice) -> Box:
    return Box(box.x0, box.y0 + rows.start, box.x1, box.y0 + rows.stop)


def _read(planes: Sequence[Plane], layout: PlaneFormat, box: Box) -> FloatArray:
    """(h, w, 3) RGB, 0–white for colours in gamut and beyond it for others."""
    luma = planes[0][box.y0 : box.y1, box.x0 : box.x1].astype(np.float32)
    if layout.model.components == 1:
        codes = luma[..., None]
    else:
        codes = np.asarray(cv2.merge([luma, *(_component(p, layout, box) for p in planes[1:])]), np.float32)
    return np.asarray(cv2.transform(codes, layout.model.inverse * np.float32(layout.white)), np.float32)


def _quantize(rgb: FloatArray, layout: PlaneFormat) -> Image:
    if layout.depth <= 8:
        return np.asarray(cv2.add(rgb, _NOTHING, dtype=cv2.CV_8U))  # rounds and saturates
    return np.clip(rgb, 0, 1)


def _changes(
    planes: Sequence[Plane], layout: PlaneFormat, box: Box, rgb: FloatArray, mask: FloatArray
) -> list[FloatArray]:
    """(h, w) masked change of each component, in codes; last, how far each pixel is another now, 0–1."""
    made = [np.empty(mask.shape, np.float32) for _ in range(len(planes) + 1)]
    forward = layout.model.forward / np.float32(layout.white)
    for rows in bands(box.width, box.height):
        delta = _delta(_read(planes, layout, _rows_of(box, rows)), rgb[rows], layout)
        size = np.zeros(mask[rows].shape, np.float32)
        for i, change in enumerate(made[:-1]):
            part = np.asarray(cv2.transform(delta, forward[i : i + 1]), np.float32).reshape(size.shape)
            size += np.abs(part)
            np.multiply(part, mask[rows], out=change[rows])
        size *= np.float32(_SHARPNESS / layout.model.peak)
        np.multiply(np.minimum(size, 1, out=size), mask[rows], out=made[-1][rows])
    return made


def _delta(old: FloatArray, rgb: FloatArray, layout: PlaneFormat) -> FloatArray:
    """The change of colour, 0 where `rgb` is what `read` handed out for `old`."""
    white = np.float32(layout.white)
    over = None
    if float(old.min()) < 0 or float(old.max()) > white:
        clipped = np.clip(old, 0, white)
        over = old - clipped
        old = clipped
    delta = rgb * white
    delta -= _quantize(old, layout)
    if over is not None:
        # Codes out of gamut (whiter than white) must go with what they belong to, or a highlight would
        # shine through the new face; but stay where nothing is edited.
        edited = np.abs(delta)
        edited *= np.float32(_SHARPNESS) / white
        over *= np.minimum(edited, 1, out=edited)
        delta -= over
    return delta


def _add(view: Plane, change: FloatArray, peak: int) -> None:
    total = cv2.add(view, change, dtype=cv2.CV_8U if view.dtype == np.uint8 else cv2.CV_16U)
    view[...] = np.minimum(total, peak) if peak not in (255, 65535) else total


def _component(plane: Plane, layout: PlaneFormat, box: Box) -> FloatArray:
    """One component over the box, at luma resolution."""
    if not layout.subsampled:
        return np.asarray(plane[box.y0 : box.y1, box.x0 : box.x1], np.float32)
    x = resample.Axis(box.x0, box.x1, layout.shift_x, layout.siting_x, plane.shape[1])
    y = resample.Axis(box.y0, box.y1, layout.shift_y, layout.siting_y, plane.shape[0])
    return resample.enlarge(plane, x, y)


def _cells(change: FloatArray, layout: PlaneFormat, box: Box, shape: tuple[int, ...]) -> FloatArray:
    """The change over `box`, brought to the chroma samples of `layout.cells(box)`; `shape` is the luma plane's."""
    padded = resample.pad_to_cells(change, layout.shift_x, layout.shift_y, box, shape)
    left, top, right, bottom = (box.x0 == 0, box.y0 == 0, box.x1 == shape[1], box.y1 == shape[0])
    small = resample.reduce(padded, layout.shift_x, layout.siting_x, left, right, axis=1)
    return resample.reduce(small, layout.shift_y, layout.siting_y, top, bottom, axis=0)


def _mean(array: FloatArray, layout: PlaneFormat, box: Box, shape: tuple[int, ...]) -> FloatArray:
    """The mean over each cell that `box` touches, 0 outside the box."""
    padded = resample.pad_to_cells(array, layout.shift_x, layout.shift_y, box, shape)
    return resample.reduce(resample.reduce(padded, layout.shift_x, 0.5, axis=1), layout.shift_y, 0.5, axis=0)


def _detail(plane: Plane, layout: PlaneFormat, part: Box, shape: tuple[int, ...]) -> FloatArray:
    """What chroma samples lose when brought to luma resolution and back.

    `_cells` of a change cannot hold it; left in, edges of the old face's chroma would stay in the new one.
    """
    x0, y0 = max(part.x0 - 1, 0), max(part.y0 - 1, 0)
    old = plane[y0 : part.y1 + 1, x0 : part.x1 + 1].astype(np.float32)
    ends = (part.y1 == plane.shape[0] and shape[0] % 2 == 1, part.x1 == plane.shape[1] and shape[1] % 2 == 1)
    there = resample.round_trip(old, layout.shift_x, layout.siting_x, ends[1], axis=1)
    there = resample.round_trip(there, layout.shift_y, layout.siting_y, ends[0], axis=0)
    return (old - there)[part.y0 - y0 :, part.x0 - x0 :][: part.height, : part.width]


def _view(plane: VideoPlane, depth: int) -> Plane:
    dtype = np.dtype(np.uint8 if depth <= 8 else np.uint16)
    stride = abs(plane.line_size) // dtype.itemsize
    rows: Plane = np.frombuffer(plane, dtype).reshape(plane.height, stride)[:, : plane.width]  # type: ignore[call-overload]
    return rows[::-1] if plane.line_size < 0 else rows


def _shifts(fmt: av.VideoFormat) -> tuple[int, int]:
    # chroma_width rounds up, so 16 tells the ratio.
    return (16 // fmt.chroma_width(16)).bit_length() - 1, (16 // fmt.chroma_height(16)).bit_length() - 1
