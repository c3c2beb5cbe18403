"""`Frame`: one picture of a photo or a video behind three calls, so that a frame is never a full RGB array
unless a whole-frame stage asks for it. Coordinates are in display orientation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

from mien.errors import GeometryError, MediaError, ModelError
from mien.media import fields, planes
from mien.media.aspect import Stretch
from mien.media.colorspace import swscale_colorspace
from mien.media.hdr import ToneMap
from mien.media.image_meta import ImageMeta
from mien.media.normalize import Converter
from mien.media.orientation import Orientation
from mien.types import Box, ByteArray, FloatArray, Image


class Frame(ABC):
    """One picture."""

    index: int
    """Place in the clip, from 0."""
    time: Fraction | None
    """Seconds on the clip's clock (see `VideoReader.window`); None for photos."""
    width: int
    """Pixels, in display orientation; square ones, whatever shape the samples have."""
    height: int
    """Pixels, in display orientation; square ones."""

    @property
    def box(self) -> Box:
        """The whole frame."""
        return Box(0, 0, self.width, self.height)

    @abstractmethod
    def thumbnail(self, side: int) -> ByteArray:
        """(h, w, 3) RGB uint8, averaged over area; the longest side is `side`, or the frame's own if that is less."""

    @abstractmethod
    def read(self, box: Box) -> Image:
        """(h, w, 3) RGB of the box: uint8 up to 8 bits, else float32 0–1; in the frame's own transfer and primaries.

        Of HDR (PQ, HLG) it is ordinary RGB in float32 0–1, see `media.hdr`.

        Raises:
            GeometryError: the box is empty or reaches beyond the frame (see `Box.clip`).
        """

    @abstractmethod
    def write(self, box: Box, rgb: Image, mask: FloatArray) -> None:
        """Blend `rgb` (h, w, 3), float32 0–1 or uint8, into the box by `mask` (h, w), float32 0–1.

        Samples where the mask is 0 stay bit-identical; so does everything when `rgb` is what `read` gave. Chroma
        that is shared by several pixels (2 × 2 in 4:2:0) may change where the mask is above 0 at one of them; so may
        samples that are not square.

        Raises:
            GeometryError: as for `read`, or `rgb` or `mask` do not have the box's shape.
            ModelError: `rgb` is not finite.
        """

    @abstractmethod
    def replace(self, array: Image) -> None:
        """Take `array` (H, W, 3), float32 0–1 or uint8, as the whole picture; its size may differ. Alpha stays."""

    def _check_box(self, box: Box) -> None:
        if box.empty or box.clip(self.width, self.height) != box:
            raise GeometryError(f"{box} is not inside the frame of {self.width}×{self.height}; clip it first")

    def _check_edit(self, box: Box, rgb: Image, mask: FloatArray) -> tuple[Box, FloatArray, FloatArray]:
        """The edit, cut to where the mask is not 0; the box is empty when it is 0 everywhere."""
        self._check_box(box)
        shape = (box.height, box.width)
        if rgb.shape != (*shape, 3) or mask.shape != shape:
            raise GeometryError(f"{box} needs rgb {(*shape, 3)} and mask {shape}, got {rgb.shape} and {mask.shape}")
        x, y, width, height = cv2.boundingRect((mask != 0).view(np.uint8))
        part = (slice(y, y + height), slice(x, x + width))
        new, mask = as_float(rgb[part]), np.asarray(mask[part], np.float32)
        if not (np.isfinite(new).all() and np.isfinite(mask).all()):
            raise ModelError("the pixels to paste are not finite; check the model that made them")
        left, top = box.x0 + x, box.y0 + y
        return Box(left, top, left + width, top + height), new, mask


def as_float(rgb: Image) -> FloatArray:
    """float32 0–1 from float32 0–1 or uint8."""
    if rgb.dtype == np.uint8:
        return np.multiply(rgb, np.float32(1 / 255), dtype=np.float32)
    return np.asarray(rgb, np.float32)


def thumbnail_size(width: int, height: int, side: int) -> tuple[int, int]:
    """(width, height) of a thumbnail whose longest side is at most `side`; never enlarged."""
    if side < 1:
        raise GeometryError(f"a thumbnail of {side} pixels is empty; ask for 1 or more")
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


class ImageFrame(Frame):
    """A photo in memory: (H, W, C) uint8 or uint16; C = 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha."""

    def __init__(self, array: npt.NDArray[Any], index: int = 0) -> None:
        if array.ndim == 2:
            array = array[..., None]
        if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or array.dtype not in (np.uint8, np.uint16):
            raise MediaError(f"{array.dtype} pixels of shape {array.shape} are no photo; pass H×W×1–4, uint8 or uint16")
        self.array = np.require(array, requirements=("C", "W"))
        self.meta = ImageMeta()
        self.index, self.time = index, None
        self.height, self.width = array.shape[:2]

    @property
    def peak(self) -> int:
        """Highest code: 255 or 65,535."""
        return int(np.iinfo(self.array.dtype).max)

    @property
    def colors(self) -> int:
        """Colour channels: 1 or 3. An alpha channel, if any, follows them."""
        return 3 if self.array.shape[2] >= 3 else 1

    def thumbnail(self, side: int) -> ByteArray:
        """See `Frame.thumbnail`."""
        size = thumbnail_size(self.width, self.height, side)
        small = self.array[..., : self.colors]
        if size != (self.width, self.height):
            small = cv2.resize(np.ascontiguousarray(small), size, interpolation=cv2.INTER_AREA)
            small = small.reshape(size[1], size[0], self.colors)
        if self.peak != 255:
            small = np.rint(small * np.float32(255 / self.peak)).astype(np.uint8)
        return np.ascontiguousarray(np.broadcast_to(small, (*small.shape[:2], 3)))

    def read(self, box: Box) -> Image:
        """See `Frame.read`."""
        self._check_box(box)
        part = self._part(box)
        if self.peak != 255:
            part = np.multiply(part, np.float32(1 / self.peak), dtype=np.float32)
        return np.array(np.broadcast_to(part, (*part.shape[:2], 3)))

    def write(self, box: Box, rgb: Image, mask: FloatArray) -> None:
        """See `Frame.write`."""
        box, new, mask = self._check_edit(box, rgb, mask)
        if box.empty:
            return
        part = self._part(box)
        for rows in planes.bands(box.width, box.height):
            old = part[rows].astype(np.float32)
            total = old + (self._codes(new[rows]) - old) * mask[rows, :, None]
            part[rows] = np.clip(np.rint(total), 0, self.peak).astype(part.dtype)

    def replace(self, array: Image) -> None:
        """See `Frame.replace`. A grey photo becomes RGB."""
        colors = np.clip(np.rint(as_float(array) * self.peak), 0, self.peak).astype(self.array.dtype)
        self.height, self.width = colors.shape[:2]
        if self.array.shape[2] in (2, 4):
            alpha = cv2.resize(self.array[..., -1], (self.width, self.height), interpolation=cv2.INTER_LINEAR)
            colors = np.dstack([colors, alpha])
        self.array = np.ascontiguousarray(colors)

    def _part(self, box: Box) -> npt.NDArray[Any]:
        return self.array[box.y0 : box.y1, box.x0 : box.x1, : self.colors]

    def _codes(self, rgb: FloatArray) -> FloatArray:
        """(h, w, colors) in codes."""
        if self.colors == 1:
            rgb = np.asarray(rgb @ np.array([0.299, 0.587, 0.114], np.float32), np.float32)[..., None]
        return rgb * np.float32(self.peak)


@dataclass(frozen=True, slots=True, eq=False)
class VideoFormat:
    """What the frames of one stream share."""

    planes: planes.PlaneFormat
    orientation: Orientation = field(default_factory=Orientation)
    display_matrix: tuple[int, ...] | None = None
    """FFmpeg's nine integers, as the source has them."""
    converter: Converter = field(default_factory=Converter)
    tones: ToneMap | None = None
    """How HDR becomes ordinary RGB; None for what is not HDR."""
    stretch: Stretch | None = None
    """How upright samples become square pixels; None where they are."""


class VideoFrame(Frame):
    """A decoded video frame; reads and edits go to its planes."""

    def __init__(self, picture: av.VideoFrame, shared: VideoFormat, index: int, time: Fraction | None) -> None:
        self.picture = picture
        """The decoder's frame, in a planar pixel format."""
        self.format = shared
        self.index, self.time = index, time
        self.width, self.height = self._size()
        self._tones: dict[Box, ToneMap] = {}
        """How boxes of an HDR picture were shown, so that they are taken back the same way."""

    def thumbnail(self, side: int) -> ByteArray:
        """See `Frame.thumbnail`."""
        shown = thumbnail_size(self.width, self.height, side)
        colorspace = swscale_colorspace(self.format.planes.matrix)
        if colorspace is None:
            whole = np.asarray(np.rint(as_float(self.read(self.box)) * 255), np.uint8)
            return np.asarray(cv2.resize(whole, shown, interpolation=cv2.INTER_AREA), np.uint8)
        size = self.format.orientation.size(*shown)
        small = self.format.converter.thumbnail(self.picture, *size, colorspace, deep=self.format.tones is not None)
        if self.format.tones is not None:
            small = np.rint(self.format.tones.exposed(small).to_sdr(small) * np.float32(255)).astype(np.uint8)
        return np.ascontiguousarray(self.format.orientation.apply(small))

    def read(self, box: Box) -> Image:
        """See `Frame.read`."""
        self._check_box(box)
        return self._shown(box, box)

    def write(self, box: Box, rgb: Image, mask: FloatArray) -> None:
        """See `Frame.write`."""
        whole = box
        box, rgb, mask = self._check_edit(box, rgb, mask)
        if box.empty:
            return
        if self.format.tones is not None and whole not in self._tones:
            self._shown(whole, whole)
        if self.format.stretch is not None:
            box, rgb, mask = self._unstretched(self.format.stretch, box, whole, rgb, mask)
        if self.format.tones is not None:
            rgb = self._tones[whole].edited(as_float(self._signal(box)), rgb)
        rgb, mask = self.format.orientation.undo(rgb), self.format.orientation.undo(mask)
        # The decoder still refers to this picture; views taken before this call would point at its copy.
        self.picture.make_writable()
        layout = self.format.planes
        by_field = fields if self._by_fields else planes
        by_field.write(planes.views(self.picture, layout), layout, self._stored(box), rgb, mask)

    def replace(self, array: Image) -> None:
        """See `Frame.replace`."""
        rgb = as_float(array)
        if self.format.tones is not None:
            rgb = self._tones.get(self.box, self.format.tones).from_sdr(rgb)
        self._tones.clear()
        if self.format.stretch is not None:
            height, width = rgb.shape[:2]
            size = (round(width / self.format.stretch.x), round(height / self.format.stretch.y))
            rgb = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.float32)
        rgb = self.format.orientation.undo(rgb)
        height, width = rgb.shape[:2]
        if (width, height) == (self.picture.width, self.picture.height):
            self.picture.make_writable()
        else:
            self.picture = self.format.converter.resize(self.picture, width, height)
        by_field = fields if self._by_fields else planes
        by_field.fill(planes.views(self.picture, self.format.planes), self.format.planes, rgb)
        self.width, self.height = self._size()

    @property
    def _by_fields(self) -> bool:
        return fields.apart(self.picture.interlaced_frame, self.format.planes, self.picture.height)

    def _upright(self) -> tuple[int, int]:
        """(width, height) of the samples, in display orientation."""
        return self.format.orientation.size(self.picture.width, self.picture.height)

    def _size(self) -> tuple[int, int]:
        size = self._upright()
        return size if self.format.stretch is None else self.format.stretch.size(*size)

    def _stored(self, box: Box) -> Box:
        return self.format.orientation.to_stored(box, *self._upright())

    def _signal(self, box: Box) -> Image:
        """RGB of a box of upright samples, as the stream codes it."""
        layout = self.format.planes
        by_field = fields if self._by_fields else planes
        rgb = by_field.read(planes.views(self.picture, layout), layout, self._stored(box))
        return self.format.orientation.apply(rgb)

    def _shown(self, box: Box, whole: Box) -> Image:
        """RGB of a box of square pixels, as a part of the whole that is read or edited."""
        if self.format.stretch is None:
            return self._read(box, whole)
        source = self.format.stretch.source(box, *self._upright())
        return self.format.stretch.show(self._read(source, whole), source, box)

    def _read(self, box: Box, whole: Box) -> Image:
        """RGB of a box of upright samples; of HDR as the whole was shown first."""
        rgb = self._signal(box)
        if self.format.tones is None:
            return rgb
        signal = as_float(rgb)
        if whole not in self._tones:
            self._tones[whole] = self.format.tones.exposed(signal)
        return self._tones[whole].to_sdr(signal)

    def _unstretched(
        self, stretch: Stretch, box: Box, whole: Box, rgb: FloatArray, mask: FloatArray
    ) -> tuple[Box, FloatArray, FloatArray]:
        """An edit of square pixels as one of samples: the change is what is brought back, so none stays none."""
        change = (rgb - as_float(self._shown(box, whole))) * mask[..., None]
        source = stretch.source(box, *self._upright())
        part = stretch.undo(np.dstack([change, mask]), box, source)
        return source, as_float(self._read(source, whole)) + part[..., :3], (part[..., 3] > 0).astype(np.float32)
