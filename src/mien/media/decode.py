"""From packets to pictures, whatever the packets are like: what cannot be decoded is counted and passed over."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from mien.errors import MediaError
from mien.media.demux import open_decoder, open_video
from mien.media.limits import Limits

FLOOD = 500
"""Packets in a row without a picture after which nothing more is expected of a stream."""


@dataclass(slots=True)
class Damage:
    """What was wrong with a stream."""

    lost: int = 0
    """Packets or frames that could not be decoded and are missing."""
    concealed: int = 0
    """Frames that the decoder gave, but calls damaged."""
    cut: str = ""
    """Why reading ended before the file's end."""
    found: bool = False
    """Whether anything was wrong at all; some decoders do not tell which frames are damaged."""

    def __bool__(self) -> bool:
        return bool(self.lost or self.concealed)


class _Damaged(Exception):
    """Something is wrong with a stream that several threads decode."""


class Decoder:
    """Pictures of a video in presentation order, each with a time base; each pass opens the file anew."""

    def __init__(self, path: Path, limits: Limits, threads: int = 0) -> None:
        self._path, self._limits, self._threads = path, limits, threads
        self.damage = Damage()
        """Of the latest pass."""

    def pictures(self, seek: int | None = None) -> Generator[av.VideoFrame]:
        """Decode; from the last key frame before `seek`, in ticks of the stream, if that is given.

        What several threads make of a damaged stream depends on their number, and on chance. So one thread does it
        over from the first damage on.

        Raises:
            MediaError: a flood of errors.
            av.error.FFmpegError: the file cannot be sought in.
        """
        self.damage = Damage()
        given = 0
        try:
            with open_video(self._path, self._limits) as (container, stream):
                for picture in self._pass(container, stream, self._threads, seek):
                    yield picture
                    given += 1
            return
        except _Damaged:
            self.damage = Damage(found=True)
        with open_video(self._path, self._limits) as (container, stream):
            for number, picture in enumerate(self._pass(container, stream, 1, seek)):
                if number >= given:
                    yield picture

    def _pass(
        self, container: InputContainer, stream: VideoStream, threads: int, seek: int | None
    ) -> Iterator[av.VideoFrame]:
        context = open_decoder(stream, self._limits, threads)
        if seek is not None:
            container.seek(seek, stream=stream, backward=True)
        begun = False
        given, row, latest, seen = 0, 0, None, None
        for packet in self._packets(container, stream):
            if packet is not None and packet.pts is not None and not packet.is_discard:
                latest = packet.pts if latest is None else max(latest, packet.pts)
            before = self.damage.lost
            for picture in self._decode(context, packet):
                if picture.time_base is None:
                    picture.time_base = stream.time_base
                if picture.is_corrupt and not (begun or picture.key_frame):
                    self.damage.lost += 1
                    continue
                self.damage.concealed += picture.is_corrupt
                self._check(threads)
                begun, row, given, seen = True, 0, given + 1, picture.pts
                yield picture
            row = row + self.damage.lost - before
            self._check(threads)
            if row > FLOOD or self.damage.lost > FLOOD + given:
                raise MediaError(
                    f"{self._path}: is too damaged ({self.damage.lost} packets cannot be decoded, {given} frames can); "
                    "get the file again, or repair it"
                )
        if latest is not None and seen is not None and seen < latest and threads != 1:
            # PyAV hides errors that come while it empties the decoder, and drops what is behind them.
            raise _Damaged

    def _check(self, threads: int) -> None:
        if threads != 1 and self.damage:
            raise _Damaged

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[Any]:
        """The stream's packets and an empty one, or None, that empties the decoder."""
        try:
            yield from container.demux(stream)
        except av.error.FFmpegError as error:
            self.damage.cut = error.strerror or "damaged"
            yield None

    def _decode(self, context: VideoCodecContext, packet: Any) -> list[av.VideoFrame]:
        for _ in range(3):
            try:
                return context.decode(packet)
            except av.error.BlockingIOError:
                continue  # The packet was not taken: what an earlier error left had to come out first.
            except av.error.EOFError:
                return []
            except av.error.MemoryError as error:
                raise MediaError(f"{self._path}: not enough memory to decode it; free some first") from error
            except av.error.FFmpegError:
                break
        self.damage.lost += 1
        return []
