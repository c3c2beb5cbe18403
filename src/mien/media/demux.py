"""Opening video files: which formats are allowed, which stream is the video, what its first frame says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.stream import Disposition
from av.video.stream import VideoStream

from mien.errors import MediaError
from mien.media.info import ColorTags, MediaInfo
from mien.media.orientation import Orientation

# Playlists and other formats that name further files or hosts stay out: a target must not read what its sender
# could not. So do text formats, which would make a video of any text.
_DEMUXERS = ",".join(
    (
        *(
            "mov",
            "matroska",
            "webm",
            "avi",
            "mpegts",
            "mpeg",
            "mpegvideo",
            "flv",
            "live_flv",
            "asf",
            "ogg",
            "mxf",
            "gxf",
        ),
        *("nut", "ivf", "obu", "gif", "apng", "dv", "rm", "wtv", "yuv4mpegpipe"),
        *("m4v", "h264", "hevc", "vvc", "vc1", "av1", "mjpeg"),
    )
)
_REASONS = "it is damaged, cut short, or of a format that mien does not read"


def open_container(path: Path) -> InputContainer:
    """Open a video file by its content.

    Raises:
        MediaError: it cannot be opened.
    """
    try:
        # The prefix keeps names such as "a:b.mp4" from being taken for a protocol.
        return av.open(f"file:{path}", options={"format_whitelist": _DEMUXERS})
    except (av.error.FFmpegError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else _REASONS
        raise MediaError(f"{path}: cannot be read ({reason}); play it to check, or convert it to MP4") from error


def video_stream(container: InputContainer, path: Path) -> VideoStream:
    """The stream to show: not cover art, and one that can be decoded."""
    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    usable = [s for s in streams if s.codec_context is not None]
    if not streams:
        raise MediaError(f"{path}: holds no video track; give a photo or a video")
    if not usable:
        raise MediaError(f"{path}: its video codec is unknown; convert it to H.264")
    best = container.streams.best("video")
    return next((s for s in usable if s is best), usable[0])


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The open container and its video stream; closed at the end."""
    with open_container(path) as container:
        yield container, video_stream(container, path)


def display_matrix(picture: av.VideoFrame) -> tuple[int, ...] | None:
    """FFmpeg's 3×3 display matrix of a frame, as 9 integers. Only for a frame just decoded.

    PyAV remembers where side data is, and `make_writable` moves it: asked after that, it reads freed memory.
    """
    data = cast(SideData | None, picture.side_data.get("DISPLAYMATRIX"))
    return None if data is None else tuple(int(v) for v in np.frombuffer(bytes(data), np.int32))


def first_picture(container: InputContainer, stream: VideoStream, path: Path) -> av.VideoFrame:
    """The first frame that can be decoded."""
    try:
        for packet in container.demux(stream):
            try:
                for picture in packet.decode():
                    return picture
            except av.error.InvalidDataError:
                continue  # Streams that start amid a group of pictures have such packets.
    except av.error.FFmpegError as error:
        raise MediaError(f"{path}: no frame can be decoded ({error.strerror}); convert it to H.264") from error
    raise MediaError(f"{path}: no frame can be decoded ({_REASONS}); convert it to H.264")


def video_info(path: Path) -> MediaInfo:
    """Describe a video by its headers and its first frame."""
    with open_video(path) as (container, stream):
        picture = first_picture(container, stream, path)
        orientation = Orientation.from_matrix(display_matrix(picture))
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
            audio_tracks=len(container.streams.audio),
            subtitle_tracks=len(container.streams.subtitles),
        )


def _duration(container: InputContainer, stream: VideoStream) -> float | None:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return container.duration / av.time_base if container.duration else None
