"""Timestamps put right: every frame has one, and each is later than the one before."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from mien.media.limits import Limits

_GLITCHES = 2
"""Frames in a row that may come too early before the clock counts as set back."""
_SET_BACK = 1
"""Seconds by which a clock that goes back counts as set back at once."""


class Clock:
    """Takes the timestamps of a stream in presentation order and gives those to use, in the same ticks.

    A missing one follows from the rate. One that repeats the last or goes back a little is moved on to the next
    tick; where the clock was set back, as in recordings joined end to end, it goes on from where it was.
    """

    def __init__(self, time_base: Fraction, step: int) -> None:
        self._back = round(_SET_BACK / time_base)
        self._step = step
        self._shift = 0
        self._last: int | None = None
        self._early = 0
        self.mended = 0
        """Timestamps that were not used as they are."""

    def __call__(self, pts: int | None) -> int:
        """The timestamp to use."""
        if pts is None:
            self.mended += 1
            self._last = 0 if self._last is None else self._last + self._step
            return self._last
        now = pts + self._shift
        if self._last is None or now > self._last:
            self._early = 0
        else:
            self.mended += 1
            self._early += 1
            if self._early > _GLITCHES or self._last - now > self._back:
                self._shift += self._last + self._step - now
                now = self._last + self._step
            else:
                now = self._last + 1
        self._last = now
        return now


class Pace:
    """Holds a clip to the limits of length and rate by the times of the frames that were really decoded."""

    def __init__(self, path: Path, limits: Limits, start: Fraction | None = None) -> None:
        self._path, self._limits = path, limits
        self._first = self._second = start
        self._count = 0

    def __call__(self, time: Fraction) -> None:
        """Take note of the next frame's time.

        Raises:
            MediaError: the clip is longer, or has more frames in some second, than allowed.
        """
        if self._first is None:
            self._first = time
        if self._second is None or time >= self._second + 1:
            self._second, self._count = time, 0
        self._count += 1
        self._limits.check_duration(self._path, float(time - self._first))
        self._limits.check_rate(self._path, self._count)
