"""A video's frames, in presentation order."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from mien.errors import MediaError
from mien.media.demux import display_matrix, open_video
from mien.media.frame import VideoFormat, VideoFrame
from mien.media.info import MediaInfo
from mien.media.normalize import Converter, planar_format
from mien.media.orientation import Orientation
from mien.media.planes import PlaneFormat
from mien.media.siting import chroma_siting


class Place(NamedTuple):
    """A frame of a clip: its index, and its time in ticks as the reader gives it."""

    index: int
    pts: int


class VideoReader:
    """A video's frames in presentation order. Each iteration opens the file anew."""

    def __init__(self, path: Path, info: MediaInfo) -> None:
        self.path = path
        self.info = info
        self.decode_errors = 0
        """Packets that could not be decoded in the latest iteration; their frames are missing."""

    @property
    def kind(self) -> Literal["video"]:
        """As in `MediaInfo`."""
        return "video"

    @property
    def frame_count(self) -> int | None:
        """An estimate; None where unknown."""
        return self.info.frames

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open between iterations; one that is not finished closes with its iterator."""

    @property
    def window(self) -> tuple[Fraction | None, Fraction | None]:
        """The part of the source that is shown, in its seconds; None where it is not cut."""
        return None, None

    @property
    def resampled(self) -> bool:
        """Whether the frames have a clock of their own."""
        return False

    def frames(self, start: Place | None = None) -> Iterator[VideoFrame]:
        """The frames from `start` on."""
        return (frame for frame in self if start is None or frame.index >= start.index)

    def __iter__(self) -> Iterator[VideoFrame]:
        """Decode the frames.

        Raises:
            MediaError: not one frame can be decoded.
        """
        self.decode_errors = 0
        index, last, shared = 0, None, _Shared()
        with open_video(self.path) as (container, stream):
            stream.thread_type = "AUTO"
            step = _step(stream)
            for picture in self._pictures(container, stream):
                if picture.pts is None:
                    picture.pts = 0 if last is None else last + step
                last = picture.pts
                time = picture.pts * picture.time_base if picture.time_base else None
                yield shared.frame(picture, index, time)
                index += 1
        if not index:
            raise MediaError(f"{self.path}: no frame can be decoded; convert it to H.264")

    def _pictures(self, container: InputContainer, stream: VideoStream) -> Iterator[av.VideoFrame]:
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                pictures = packet.decode()
            except av.error.FFmpegError:
                self.decode_errors += 1
                continue
            yield from pictures


class _Shared:
    """What the frames of one pass share, worked out anew when the stream changes."""

    def __init__(self) -> None:
        self._converter = Converter()
        self._matrix: tuple[int, ...] | None = None
        self._key: tuple[object, ...] = ()
        self._format: VideoFormat | None = None

    def frame(self, picture: av.VideoFrame, index: int, time: Fraction | None) -> VideoFrame:
        if self._format is None:
            self._matrix = display_matrix(picture)
        if PlaneFormat.of(picture) is None:
            picture = self._converter.to_format(picture, planar_format(picture.format.name))
        key = (picture.format.name, picture.width, picture.height, picture.colorspace, picture.color_range)
        if self._format is None or key != self._key:
            layout = PlaneFormat.of(picture, chroma_siting(picture))
            assert layout is not None
            orientation = Orientation.from_matrix(self._matrix)
            self._key, self._format = key, VideoFormat(layout, orientation, self._matrix, self._converter)
        return VideoFrame(picture, self._format, index, time)


def _step(stream: VideoStream) -> int:
    """Ticks between frames, for streams without timestamps."""
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    return max(1, round(1 / (rate * stream.time_base))) if stream.time_base else 1
