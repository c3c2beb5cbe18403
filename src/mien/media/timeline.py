"""A clip's pictures with the times at which the output shows them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from fractions import Fraction
from typing import TypeVar

import av

from mien.media.clock import Clock, Pace
from mien.media.decode import Damage, Decoder
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.planes import copied
from mien.media.timing import HOLE, Span, Timing, shown, ticks, trimmed

T = TypeVar("T")
Timed = tuple[int, av.VideoFrame]
"""Ticks of the output's clock, picture."""
_SEEKABLE = ("mov", "matroska")
_ROUNDING = Fraction(1, 1000)
"""Seconds by which timestamps may be off at most, since they count in ticks."""
_MARGINS = (0, 2, 20)
"""Seconds before a time at which a key frame is looked for, in turn."""


class Timeline:
    """The pictures of one file, decoded anew in each pass."""

    def __init__(self, info: MediaInfo, timing: Timing, limits: Limits) -> None:
        self._info, self._timing, self._limits = info, timing, limits
        self._decoder = Decoder(info.path, limits)
        self._clock: Clock | None = None
        self.last: Fraction | None = None
        """Seconds of the latest picture decoded, on the source's own clock."""

    @property
    def damage(self) -> Damage:
        """What was wrong in the latest pass."""
        return self._decoder.damage

    @property
    def mended(self) -> int:
        """Timestamps of the latest pass that were missing or went back."""
        return self._clock.mended if self._clock else 0

    @property
    def ticks(self) -> Fraction:
        """Seconds of a tick of the source's clock."""
        return self._info.time_base or Fraction(1, 90_000)

    @property
    def time_base(self) -> Fraction:
        """Seconds of a tick of the output's clock."""
        return 1 / self._timing.rate if self._timing.rate else self.ticks

    @property
    def resampled(self) -> bool:
        """Whether the output's clock is 0 at the window's start, rather than being the source's."""
        return self._timing.cut or self._timing.rate is not None

    @property
    def window(self) -> tuple[Fraction, Fraction | None]:
        """The part that is shown, in seconds of the source's own clock; None is its end."""
        timing, start = self._timing, self._info.start
        if timing.cut:
            begin = max(start, Fraction(0))
            return begin + timing.start, None if timing.stop is None else begin + timing.stop
        # Transport streams begin at an arbitrary time; other containers mean what they say.
        return (start if self._info.container in ("mpegts", "mpeg") else Fraction(0)), None

    def pictures(self) -> Iterator[Timed]:
        """All pictures that the output shows."""
        return self._timed(self.window[0] if self._timing.start else None)

    def pictures_from(self, pts: int) -> Iterator[Timed] | None:
        """Those from a time on, in ticks of the output's clock, by seeking; None where that is not exact."""
        if not self._seekable:
            return None
        timed = self._timed(pts * self.time_base + (self.window[0] if self.resampled else 0))
        for found in timed:
            if found[0] >= pts:
                return _chained(found, timed) if found[0] == pts else None
        return None

    @property
    def _seekable(self) -> bool:
        return self._info.container.split(",")[0] in _SEEKABLE

    def _timed(self, seconds: Fraction | None) -> Generator[Timed]:
        source = self._source(seconds)
        if not self.resampled:
            return _kept(source)
        (start, stop), rate, slack = self.window, self._timing.rate, min(self.ticks / 2, _ROUNDING)
        spans = trimmed(shown(source), start, stop, slack, Fraction(0) if rate else HOLE)
        if rate:
            return _repeated(ticks(spans, rate, slack), self.time_base)
        return _moved(spans, self.ticks)

    def _source(self, seconds: Fraction | None) -> Iterator[tuple[Fraction, Fraction, av.VideoFrame]]:
        """(time, duration, picture) on the source's clock, in seconds, from `seconds` or earlier on."""
        seeks: list[int | None] = []
        if seconds is not None and self._seekable:
            seeks = [round((seconds - margin) / self.ticks) for margin in _MARGINS]
        for seek in [*seeks, None]:
            found = self._decoded(seek)
            try:
                first = next(found, None)
            except av.error.FFmpegError:
                if seek is None:
                    raise
                continue  # This file cannot be sought in.
            if seek is None or (first is not None and first[0] <= (seconds or 0)):
                return iter(()) if first is None else _chained(first, found)
            found.close()
        raise AssertionError

    def _decoded(self, seek: int | None) -> Generator[tuple[Fraction, Fraction, av.VideoFrame]]:
        rate = self._info.fps or Fraction(25)
        step = max(1, round(1 / (rate * self.ticks)))
        clock, pace = Clock(self.ticks, step), Pace(self._info.path, self._limits)
        self._clock = clock
        with closing(self._decoder.pictures(seek)) as pictures:
            for picture in pictures:
                picture.pts = clock(picture.pts)
                self.last = picture.pts * self.ticks
                pace(self.last)
                yield self.last, (picture.duration or step) * self.ticks, picture


def _kept(source: Iterator[tuple[Fraction, Fraction, av.VideoFrame]]) -> Generator[Timed]:
    """Pictures with the source's own times."""
    for _, _, picture in source:
        yield picture.pts or 0, picture


def _moved(spans: Iterator[Span[av.VideoFrame]], tick: Fraction) -> Generator[Timed]:
    """Pictures of a part, with their times on its clock."""
    last = -1
    for start, stop, picture in spans:
        # Times between two ticks are rounded, alike for all, so two never meet.
        last = max(last + 1, round(start / tick))
        picture.pts, picture.duration = last, max(1, round((stop - start) / tick))
        yield last, picture


def _repeated(shown_at: Iterator[tuple[range, av.VideoFrame]], time_base: Fraction) -> Generator[Timed]:
    """A picture for every tick; those that come again are copies, since each may be edited."""
    for at, picture in shown_at:
        # What is handed out may be edited before the next is asked for, so the copy to copy from comes first.
        kept = copied(picture) if len(at) > 1 else picture
        for tick in at:
            made = picture if tick == at[0] else kept if tick == at[-1] else copied(kept)
            made.pts, made.duration, made.time_base = tick, 1, time_base
            yield tick, made


def _chained(first: T, rest: Generator[T]) -> Generator[T]:
    """`first`, then the rest, which is closed with this."""
    with closing(rest):
        yield first
        yield from rest
