"""Which frames of a clip are shown, and when: the options trim, max_seconds, fps and scale.

All times are exact (`Fraction` seconds). A *span* is a frame with the time from which and until which it is shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from mien.errors import OptionsError
from mien.options import AnalyzeOptions

T = TypeVar("T")
HOLE = Fraction(1, 10)
"""Seconds without a picture at the start of a cut that are seen as a hole."""
_RATE = re.compile(r"(\d+)/(\d+)|(\d+(?:\.\d+)?)")
_SCALE = re.compile(r"(\d*)x(\d*)")
_HOUR = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)")
# What 23.976 and its like stand for.
_NTSC = tuple(Fraction(1000 * n, 1001) for n in (24, 30, 48, 60, 90, 120, 240))
_LARGEST_SIDE = 65_536


class Span(NamedTuple, Generic[T]):
    """A frame, shown at `start` ≤ time < `stop`, in seconds."""

    start: Fraction
    stop: Fraction
    item: T


@dataclass(frozen=True, slots=True)
class Timing:
    """The part of a clip that is shown, in seconds from its beginning, and how often."""

    start: Fraction = Fraction(0)
    stop: Fraction | None = None
    rate: Fraction | None = None
    """Frames per second; None keeps every frame."""

    @property
    def cut(self) -> bool:
        """Whether something is left out."""
        return bool(self.start) or self.stop is not None

    @classmethod
    def of(cls, options: AnalyzeOptions | None) -> Timing:
        """What options say.

        Raises:
            OptionsError: a value that does not read as a time or a rate, or a part without length.
        """
        if options is None:
            return cls()
        start, stop = parse_trim(options.trim)
        if options.max_seconds:
            most = start + Fraction(str(options.max_seconds))
            stop = most if stop is None else min(stop, most)
        return cls(start, stop, parse_rate(options.fps))


def parse_seconds(text: str) -> Fraction:
    """Seconds of "90", "1:30", "0:01:30.5".

    Raises:
        OptionsError: anything else.
    """
    match = _HOUR.fullmatch(text)
    if match is None:
        raise OptionsError(f"{text!r} is no time; write seconds or H:M:S, such as 90.5 or 0:01:30.5")
    hours, minutes, seconds = match.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + Fraction(seconds)


def parse_trim(text: str) -> tuple[Fraction, Fraction | None]:
    """Start and end of "START-END"; either may be left out, and all of it.

    Raises:
        OptionsError: not of that form, or the end is not after the start.
    """
    if not text:
        return Fraction(0), None
    first, dash, last = text.partition("-")
    if not dash:
        raise OptionsError(f"trim={text!r}: has no dash; write START-END, such as 5-12.5, 1:30- or -10")
    start, stop = parse_seconds(first) if first else Fraction(0), parse_seconds(last) if last else None
    if stop is not None and stop <= start:
        raise OptionsError(f"trim={text!r}: ends before it starts; write START-END, such as 5-12.5")
    return start, stop


def parse_rate(text: str) -> Fraction | None:
    """Frames per second of "25", "30000/1001", "23.976" (that is 24000/1001); None for "".

    Raises:
        OptionsError: no rate, or none that can be.
    """
    if not text:
        return None
    match = _RATE.fullmatch(text)
    if match is None or (match[2] is not None and not int(match[2])):
        raise OptionsError(f"fps={text!r}: is no rate; write a number or a fraction, such as 25 or 30000/1001")
    if match[3] is None:
        rate = Fraction(int(match[1]), int(match[2]))
    else:
        rate = Fraction(match[3])
        close = 1.5 * 10.0 ** -len(match[3].partition(".")[2])
        rate = next((r for r in _NTSC if rate.denominator > 1 and abs(r - rate) < min(close, 0.006)), rate)
    if not Fraction(1, 100) <= rate <= 1000 or rate.denominator > 100_000:
        raise OptionsError(f"fps={text!r}: is not between 0.01 and 1000; choose another rate")
    return rate


def parse_scale(text: str) -> tuple[int | None, int | None] | None:
    """Width and height of "WxH", "Wx" or "xH"; None for "".

    Raises:
        OptionsError: not of that form, or a side that cannot be.
    """
    if not text:
        return None
    match = _SCALE.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise OptionsError(f"scale={text!r}: is no size; write WIDTHxHEIGHT, such as 1280x720, 1280x or x720")
    width, height = (int(side) if side else None for side in match.groups())
    if any(side is not None and not 2 <= side <= _LARGEST_SIDE for side in (width, height)):
        raise OptionsError(f"scale={text!r}: a side is not between 2 and {_LARGEST_SIDE}; choose another size")
    return width, height


def shown(frames: Iterable[tuple[Fraction, Fraction, T]]) -> Iterator[Span[T]]:
    """Spans of frames given with their time and duration: each lasts until the next, the last one as it says."""
    held: tuple[Fraction, Fraction, T] | None = None
    for frame in frames:
        if held is not None:
            yield Span(held[0], frame[0], held[2])
        held = frame
    if held is not None:
        yield Span(held[0], held[0] + held[1], held[2])


def trimmed(
    spans: Iterable[Span[T]], start: Fraction, stop: Fraction | None, slack: Fraction, hole: Fraction = HOLE
) -> Iterator[Span[T]]:
    """The spans that start within `start` ≤ time < `stop`, on a clock that is 0 at `start`; the first begins at 0.

    The frame on screen at `start` comes first if it stays for `hole` or longer; otherwise the one after it.

    Args:
        slack: half a tick of the clip's clock, by which a time may be off.
    """
    begun = False
    for span in spans:
        if stop is not None and span.start + slack >= stop:
            return
        if span.start + slack < start and not (not begun and span.stop - start >= max(hole, slack)):
            continue
        first = span.start - start if begun or span.start - start >= hole else Fraction(0)
        last = span.stop if stop is None else min(span.stop, stop)
        begun = True
        yield Span(max(first, Fraction(0)), last - start, span.item)


def ticks(spans: Iterable[Span[T]], rate: Fraction, slack: Fraction) -> Iterator[tuple[range, T]]:
    """At which ticks of 1 / `rate` seconds each frame is on screen; frames that never are do not come.

    A clip too short for any tick gives its first frame once.

    Args:
        slack: half a tick of the clip's clock, by which a time may be off.
    """
    first: Span[T] | None = None
    empty = True
    for span in spans:
        first = first or span
        at = range(math.ceil((span.start - slack) * rate), math.ceil((span.stop - slack) * rate))
        if at:
            empty = False
            yield at, span.item
    if empty and first is not None:
        tick = math.floor(first.start * rate)
        yield range(tick, tick + 1), first.item
