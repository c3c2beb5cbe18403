"""Whether the codecs of this machine's hardware really open."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import av
from av.video.codeccontext import VideoCodecContext

ENCODERS = ("h264_nvenc", "hevc_nvenc", "av1_nvenc", "h264_qsv", "h264_videotoolbox", "h264_amf")
DECODERS = ("h264_cuvid", "hevc_cuvid", "av1_cuvid")


def hardware_codecs() -> Mapping[str, str]:
    """Why each does not open, by name; empty for those that do. Those that FFmpeg was built without are left out."""
    found = {name: _try(name, "w") for name in ENCODERS} | {name: _try(name, "r") for name in DECODERS}
    return {name: reason for name, reason in found.items() if reason is not None}


def _try(name: str, mode: str) -> str | None:
    try:
        context = av.CodecContext.create(name, "w" if mode == "w" else "r")
    except (av.codec.codec.UnknownCodecError, ValueError):
        return None
    if mode == "w":
        video = cast(VideoCodecContext, context)
        video.width, video.height, video.pix_fmt, video.time_base = 256, 256, "yuv420p", Fraction(1, 25)
    try:
        context.open()
    except (av.FFmpegError, ValueError, OSError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""
