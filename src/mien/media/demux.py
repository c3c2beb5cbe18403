"""Opening video files: which formats are allowed, which stream is the video, which decoder it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import cast

import av
import numpy as np
from av.codec.context import Flags
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.stream import AttachmentStream, Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from mien.errors import MediaError
from mien.media.limits import Limits

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
# FFmpeg's own decoders of these leave the alpha channel out.
_ALPHA_DECODERS = MappingProxyType({"vp8": "libvpx", "vp9": "libvpx-vp9"})
_REASONS = "it is damaged, cut short, or of a format that mien does not read"


def open_container(path: Path, limits: Limits | None = None) -> InputContainer:
    """Open a video file by its content.

    Raises:
        MediaError: it cannot be opened, or holds more tracks than the limits allow.
    """
    limits = limits or Limits()
    # To find out what streams hold, FFmpeg decodes a little of them: large frames must not be allocated there either.
    options = {"format_whitelist": _DEMUXERS, "max_pixels": str(limits.decoder_pixels)}
    try:
        # The prefix keeps names such as "a:b.mp4" from being taken for a protocol.
        container = av.open(f"file:{path}", options=options)
    except (av.error.FFmpegError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else _REASONS
        raise MediaError(f"{path}: cannot be read ({reason}); play it to check, or convert it to MP4") from error
    tracks = [s for s in container.streams if not isinstance(s, AttachmentStream)]
    if len(tracks) > limits.max_streams:
        container.close()
    limits.check_streams(path, len(tracks))
    return container


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
def open_video(path: Path, limits: Limits | None = None) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The open container and its video stream; closed at the end.

    Raises:
        MediaError: see `open_container` and `video_stream`, or the frames are larger than the limits allow.
    """
    with open_container(path, limits) as container:
        stream = video_stream(container, path)
        (limits or Limits()).check_size(path, stream.codec_context.width, stream.codec_context.height)
        yield container, stream


def open_decoder(stream: VideoStream, limits: Limits, threads: int) -> VideoCodecContext:
    """A decoder that keeps alpha, tells which frames are damaged, and refuses large ones before it allocates them.

    Args:
        threads: with 1, damage is concealed where the codec can; with more, or 0 for as many as there are
            processors, whatever is not as it should be is an error.
    """
    context = stream.codec_context
    name = _ALPHA_DECODERS.get(context.name)
    if name is not None and stream.metadata.get("alpha_mode") == "1":
        extradata, context = context.extradata, cast(VideoCodecContext, av.CodecContext.create(name, "r"))
        context.extradata = extradata
    context.options = {"max_pixels": str(limits.decoder_pixels)}
    if threads != 1:
        context.options |= {"err_detect": "explode"}
    # Silently left out, frames that refer to missing ones could not be counted.
    context.flags |= Flags.output_corrupt
    context.thread_count = threads
    context.thread_type = "SLICE" if threads == 1 else "AUTO"
    return context


def display_matrix(picture: av.VideoFrame) -> tuple[int, ...] | None:
    """FFmpeg's 3×3 display matrix of a frame, as 9 integers. Only for a frame just decoded.

    PyAV remembers where side data is, and `make_writable` moves it: asked after that, it reads freed memory.
    """
    data = cast(SideData | None, picture.side_data.get("DISPLAYMATRIX"))
    return None if data is None else tuple(int(v) for v in np.frombuffer(bytes(data), np.int32))
