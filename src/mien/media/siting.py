"""Where the chroma samples of a stream sit, which PyAV does not tell: libswscale is asked instead."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.plane import VideoPlane
from av.video.reformatter import Interpolation, VideoReformatter

from mien.media.normalize import ACCURATE

_SIDE = 32
_FORMATS = MappingProxyType({"yuv420p": 8, "yuva420p": 8, "yuv420p10le": 10, "yuv420p12le": 12})
_NAMES = MappingProxyType(
    {
        (0.0, 0.5): "left",
        (0.5, 0.5): "center",
        (0.0, 0.0): "topleft",
        (0.5, 0.0): "top",
        (0.0, 1.0): "bottomleft",
        (0.5, 1.0): "bottom",
    }
)
DEFAULT = (0.0, 0.5)
"""MPEG-2, H.264 and later, unless told otherwise."""
_TELLING = ("h264", "hevc", "mjpeg", "mpeg1video", "mpeg2video", "mpeg4", "av1", "libdav1d")


def chroma_siting(frame: av.VideoFrame) -> tuple[float, float]:
    """(x, y) in luma samples from the first sample of the cell, for 4:2:0; else `DEFAULT`.

    One chroma sample of a flat frame with this frame's properties is set, and found again at full resolution.
    """
    depth = _FORMATS.get(frame.format.name)
    if depth is None:
        return DEFAULT
    side = _SIDE if frame.width != _SIDE else 2 * _SIDE  # At its own size reformat returns the frame itself.
    flat = VideoReformatter().reformat(frame, width=side, height=side, src_colorspace=1, dst_colorspace=1)
    step = 1 << (depth - 8)
    for plane in flat.planes:
        _samples(plane, depth)[:] = 128 * step
    cell = side // 4
    _samples(flat.planes[1], depth)[cell, cell] = 228 * step
    flags = Interpolation.BILINEAR | ACCURATE
    full = VideoReformatter().reformat(flat, format="yuv444p", interpolation=flags, threads=1)
    found = _samples(full.planes[1], 8)[:, :side] - 128.0
    grid = np.arange(side) - 2.0 * cell
    x, y = found.sum(0) @ grid / found.sum(), found.sum(1) @ grid / found.sum()
    place = (round(2 * x) / 2, round(2 * y) / 2)
    return place if place in _NAMES else DEFAULT


def siting_name(siting: tuple[float, float], codec: str) -> str | None:
    """FFmpeg's name, for an encoder's `chroma_sample_location`; None where the source leaves it open.

    libswscale takes an open one for "center", so that counts only with decoders that always tell.
    """
    name = _NAMES.get(siting)
    return None if name == "center" and codec not in _TELLING else name


def _samples(plane: VideoPlane, depth: int) -> npt.NDArray[Any]:
    dtype = np.uint8 if depth == 8 else np.uint16
    return np.frombuffer(plane, dtype).reshape(plane.height, -1)  # type: ignore[call-overload, no-any-return]
