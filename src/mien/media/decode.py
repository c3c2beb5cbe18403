"""From packets to pictures, whatever the packets are like: what cannot be decoded is counted and passed over."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
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
_EARLY = Fraction(1, 2)
"""Seconds, and at least a fiftieth, that a stream may end before its header's word."""


@dataclass(slots=True)
class Damage:
    """What was wrong with a stream."""

    lost: int = 0
    """Packets or frames that could not be decoded and are missing."""
    concealed: int = 0
    """Frames that the decoder gave, but calls damaged."""
    cut: str = ""
    """Where or why the stream ended before its end, in words."""
    found: bool = False
    """Whether anything was wrong at all; some decoders do not tell which frames are damaged."""

    def __bool__(self) -> bool:
        return bool(self.lost or self.concealed or self.found)


# Damaged, these decode to other pictures with several threads, and no error tells it.
_ALONE = ("mjpeg",)


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
            MediaError: a flood of errors, or frames beyond the limits.
            av.error.FFmpegError: the file cannot be sought in.
        """
        self.damage = Damage()
        given = 0
        try:
            with open_video(self._path, self._limits) as (container, stream):
                threads = 1 if stream.codec_context.name in _ALONE else self._threads
                for picture in self._pass(container, stream, threads, seek):
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
        tally = _Tally()
        for packet in self._packets(container, stream):
            tally.sent(packet)
            lost = self.damage.lost
            for picture in self._decode(context, packet):
                self._limits.check_size(self._path, picture.width, picture.height)
                if picture.time_base is None:
                    picture.time_base = stream.time_base
                if not tally.given and picture.is_corrupt and not picture.key_frame:
                    self.damage.lost += 1  # It refers to frames from before the beginning.
                    continue
                if not tally.given:
                    lost = self.damage.lost = tally.leading(picture, self.damage.lost) if seek is None else 0
                    tally.excused = lost
                self.damage.concealed += picture.is_corrupt
                self._check(threads, tally)
                tally.got(picture)
                yield picture
            tally.row += self.damage.lost - lost
            self._check(threads, tally)
            if tally.row > FLOOD or self.damage.lost > FLOOD + tally.given:
                raise MediaError(
                    f"{self._path}: is too damaged ({self.damage.lost} packets cannot be decoded, {tally.given} frames "
                    "can); get the file again, or repair it"
                )
        if tally.tail_is_missing and threads != 1:
            # PyAV hides errors that come while it empties the decoder, and drops what is behind them.
            raise _Damaged
        self.damage.cut = self.damage.cut or tally.cut_short(stream)

    def _check(self, threads: int, tally: _Tally) -> None:
        harm = self.damage.lost > tally.excused if tally.given else False
        if threads != 1 and (harm or self.damage.concealed):
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


class _Tally:
    """What went into a decoder and what came out."""

    def __init__(self) -> None:
        self.given = 0
        """Pictures."""
        self.row = 0
        """Packets lost since the latest picture."""
        self.excused = 0
        """Packets lost before the first picture."""
        self._before: list[int | None] = []
        self._latest: int | None = None
        self._seen: int | None = None
        self._lasts = 0

    def sent(self, packet: Any) -> None:
        """Take note of a packet."""
        if packet is None or not packet.size or packet.is_discard:
            return
        if not self.given:
            self._before.append(packet.pts)
        if packet.pts is not None:
            self._latest = packet.pts if self._latest is None else max(self._latest, packet.pts)

    def got(self, picture: av.VideoFrame) -> None:
        """Take note of a picture."""
        step = 0 if self._seen is None or picture.pts is None else picture.pts - self._seen
        self._lasts = max(picture.duration or 0, step)
        self.given, self.row, self._seen = self.given + 1, 0, picture.pts
        self._before.clear()

    def leading(self, picture: av.VideoFrame, lost: int) -> int:
        """How many packets before the first picture gave none; some decoders pass over them in silence."""
        if picture.pts is None or None in self._before:
            return lost
        return sum(pts is not None and pts < picture.pts for pts in self._before)

    @property
    def tail_is_missing(self) -> bool:
        """Whether packets came after the last picture that was given."""
        return self._latest is not None and self._seen is not None and self._seen < self._latest

    def cut_short(self, stream: VideoStream) -> str:
        """In words, if the stream ends well before the end that its header tells; else empty."""
        told = _told_end(stream)
        if told is None or self._seen is None or not stream.time_base:
            return ""
        end = (self._seen + self._lasts) * stream.time_base
        return f"at {float(end):.1f} s of {float(told):.1f} s" if told - end > max(_EARLY, told / 50) else ""


def _told_end(stream: VideoStream) -> Fraction | None:
    """Seconds at which the stream ends by its header, which Matroska has as a tag."""
    start = (stream.start_time or 0) * (stream.time_base or 0)
    if stream.duration and stream.time_base:
        return Fraction(start + stream.duration * stream.time_base)
    match = re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", stream.metadata.get("DURATION", ""))
    return int(match[1]) * 3600 + int(match[2]) * 60 + Fraction(match[3]) if match else None
