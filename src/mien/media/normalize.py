"""Pixel formats that are not planar (NV12, packed RGB, palettes …) are unpacked once, on reading."""

from __future__ import annotations

import threading
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.codec.codec import find_best_pix_fmt_of_list
from av.video.plane import VideoPlane
from av.video.reformatter import Interpolation, VideoReformatter

from mien.media.colorspace import FULL_RANGE, LIMITED, resolve_matrix, swscale_colorspace

ACCURATE = Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
"""Flags without which libswscale darkens by one to two levels."""

_DEPTHS = ("", "10le", "12le", "16le")
_FAMILIES = ("gray", "yuv420p", "yuv422p", "yuv444p", "yuva420p", "yuva422p", "yuva444p", "gbrp", "gbrap")
_WHITE_16 = 255 << 8
"""libswscale's white of YUV brought to 16-bit RGB."""
_MISSING = ("yuva420p12le",)  # FFmpeg has no such format.
PLANAR = tuple(f + d for f in _FAMILIES for d in _DEPTHS if f + d not in _MISSING)
"""The pixel formats that others are unpacked to."""


def planar_format(name: str) -> str:
    """The planar pixel format that loses least of `name`."""
    best, _ = find_best_pix_fmt_of_list(PLANAR, name, has_alpha=True)
    return best.name if best else "yuv444p"


class Converter:
    """Converts pixel formats, keeping matrix, range and every tag. One libswscale context, locked."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._lock = threading.Lock()

    def to_format(self, frame: av.VideoFrame, name: str) -> av.VideoFrame:
        """The frame in another pixel format of the same size, tagged by what its samples now are."""
        old, new = frame.format, av.VideoFormat(name)
        # Between two YUV formats the matrix does not matter, so one that libswscale lacks may be any.
        matrix = swscale_colorspace(resolve_matrix(frame.colorspace, frame.height)) or 1
        source, target = _ranges(frame, new)
        with self._lock:
            made = self._reformatter.reformat(
                frame,
                format=name,
                src_colorspace=matrix,
                dst_colorspace=matrix,
                src_color_range=source,
                dst_color_range=target,
                interpolation=Interpolation.BICUBIC | ACCURATE,
                threads=1,
            )
        if old.is_rgb == new.is_rgb:
            made.colorspace = frame.colorspace
            made.color_range = FULL_RANGE if old.name.startswith("yuvj") else frame.color_range
        elif new.is_rgb:
            made.colorspace = 0
        return made

    def thumbnail(
        self, frame: av.VideoFrame, width: int, height: int, colorspace: int, *, deep: bool = False
    ) -> npt.NDArray[Any]:
        """(height, width, 3) RGB uint8, float32 0–1 if `deep`, averaged over area.

        Args:
            colorspace: libswscale's number.
        """
        with self._lock:
            made = self._reformatter.reformat(
                frame,
                width=width,
                height=height,
                format="gbrp16le" if deep else "rgb24",  # libswscale garbles rgb48le when it averages.
                src_colorspace=colorspace,
                interpolation=Interpolation.AREA | ACCURATE,
                threads=1,
            )
        if not deep:
            return _samples(made.planes[0], np.uint8)[:, : width * 3].reshape(height, width, 3)
        green, blue, red = (_samples(plane, np.uint16)[:, :width] for plane in made.planes)
        return np.dstack([red, green, blue]) * np.float32(1 / _WHITE_16)

    def resize(self, frame: av.VideoFrame, width: int, height: int) -> av.VideoFrame:
        """A new frame of another size with the frame's time and tags; averaged over area where it shrinks."""
        smaller = width <= frame.width and height <= frame.height
        with self._lock:
            made = self._reformatter.reformat(
                frame,
                width=width,
                height=height,
                src_colorspace=1,
                dst_colorspace=1,
                src_color_range=FULL_RANGE,
                dst_color_range=FULL_RANGE,
                interpolation=(Interpolation.AREA if smaller else Interpolation.BICUBIC) | ACCURATE,
                threads=1,
            )
        made.colorspace, made.color_range = frame.colorspace, frame.color_range
        return made


def _samples(plane: VideoPlane, dtype: type) -> npt.NDArray[Any]:
    return np.frombuffer(plane, dtype).reshape(plane.height, -1)  # type: ignore[call-overload, no-any-return]


def _ranges(frame: av.VideoFrame, new: av.VideoFormat) -> tuple[int, int]:
    """(source, target) range for libswscale."""
    if len(frame.format.components) == 1:
        # libswscale takes any grey as full range; full to full copies, whatever the tag says.
        return FULL_RANGE, FULL_RANGE
    full = frame.color_range == FULL_RANGE or frame.format.name.startswith("yuvj")
    if frame.format.is_rgb:
        return FULL_RANGE, FULL_RANGE if new.is_rgb else LIMITED
    return (FULL_RANGE if full else LIMITED), (FULL_RANGE if full or new.is_rgb else LIMITED)
