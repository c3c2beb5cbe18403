"""What a video is, told by its headers and its first frame."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from mien.errors import MediaError
from mien.media.decode import Decoder
from mien.media.demux import display_matrix, open_video
from mien.media.fit import unpacked
from mien.media.info import ColorTags, MediaInfo
from mien.media.limits import Limits
from mien.media.normalize import Converter
from mien.media.orientation import Orientation
from mien.media.siting import chroma_siting

# Their headers tell a rate that was counted, not one that was guessed.
_COUNTED = ("mov", "avi", "yuv4mpegpipe", "mxf", "nut")


def video_info(path: Path, limits: Limits) -> MediaInfo:
    """Describe a video.

    Raises:
        MediaError: it cannot be opened, not one frame can be decoded, or it asks for more than the limits allow.
    """
    with open_video(path, limits) as (container, stream):
        _check(path, limits, container, stream)
        picture = _first_picture(path, limits)
        matrix = display_matrix(picture)
        orientation = Orientation.from_matrix(matrix)
        width, height = orientation.size(picture.width, picture.height)
        duration, fps = _duration(container, stream), stream.average_rate
        return MediaInfo(
            path=path,
            kind="video",
            container=container.format.name,
            codec=stream.codec_context.name,
            pixel_format=picture.format.name,
            depth=max(c.bits for c in picture.format.components),
            width=width,
            height=height,
            rotation=orientation.rotation,
            mirrored=orientation.mirrored,
            fps=fps,
            frames=stream.frames or (round(duration * fps) if duration and fps else None),
            duration=duration,
            sample_aspect=stream.sample_aspect_ratio or Fraction(1),
            color=ColorTags(picture.colorspace, picture.color_primaries, picture.color_trc, picture.color_range),
            display_matrix=matrix,
            siting=chroma_siting(unpacked(picture, Converter())),
            start=Fraction(container.start_time or 0, av.time_base),
            time_base=stream.time_base,
            audio_tracks=len(container.streams.audio),
            subtitle_tracks=len(container.streams.subtitles),
        )


def _first_picture(path: Path, limits: Limits) -> av.VideoFrame:
    with closing(Decoder(path, limits).pictures()) as pictures:
        for picture in pictures:
            return picture
    raise MediaError(f"{path}: no frame can be decoded; play it to check, or convert it to H.264")


def _check(path: Path, limits: Limits, container: InputContainer, stream: VideoStream) -> None:
    duration, rate = _duration(container, stream), stream.average_rate
    if duration:
        limits.check_duration(path, duration)
    if rate and container.format.name.split(",")[0] in _COUNTED:
        limits.check_rate(path, float(rate))


def _duration(container: InputContainer, stream: VideoStream) -> float | None:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return container.duration / av.time_base if container.duration else None
