"""Animations and pages as clips of `ImageFrame`s, each a whole picture with its time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from mien.errors import MediaError, OptionsError
from mien.media.frame import ImageFrame
from mien.media.image import read_selected, rescale
from mien.media.image_meta import ImageMeta, read_meta
from mien.media.image_native import Native
from mien.media.image_open import bit_depth, faults, mapped, opened, quiet
from mien.media.image_pixels import scaled_size
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.orientation import Orientation
from mien.media.sequence_apng import apng_frames
from mien.media.sequence_gif import gif_frames
from mien.media.sequence_scan import scan
from mien.media.sequence_timeline import Timeline
from mien.media.sequence_webp import webp_frames
from mien.media.timing import Span, Timing, parse_scale, ticks, trimmed
from mien.options import AnalyzeOptions

_PAGES = "TIFF"
_INSTANT = Fraction(1, 10**6)
"""Seconds that a frame must still be on screen at the start of a cut to be its first."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One frame that a reader gives."""

    number: int
    """Which frame of the file."""
    time: Fraction | None
    """Seconds; None for pages."""
    duration: Fraction | None


class SequenceReader:
    """An animation or the pages of a TIFF. Each iteration reads the file anew, one frame at a time.

    The options `trim`, `max_seconds`, `fps` and `scale` are applied. A frame's `time` and `meta.duration` are
    exact seconds; None for pages.

    Raises:
        MediaError: no sequence, damaged or too large.
        OptionsError: times asked of pages, which have none, or a part that holds no frame.
    """

    def __init__(self, path: Path, info: MediaInfo, options: AnalyzeOptions | None = None) -> None:
        self.path, self.info = path, info
        self._limits = Limits.of(options)
        self._scale = parse_scale(options.scale) if options else None
        with quiet(), opened(path, self._limits) as (image, head):
            timeline = scan(image, path) if image is not None else None
            if image is None or timeline is None:
                raise MediaError(f"{path}: is no sequence any more; it changed while it was read")
            self._format, self._timeline = str(image.format), timeline
            self.meta: ImageMeta = replace(read_meta(image, path), depth=bit_depth(image, head))
            """What the frames share."""
        self._limits.check_size(path, *scaled_size(info.width, info.height, self._scale))
        self._shown = schedule(path, timeline, Timing.of(options))

    @property
    def kind(self) -> Literal["sequence"]:
        """As in `MediaInfo`."""
        return "sequence"

    @property
    def frame_count(self) -> int:
        """Exact."""
        return len(self._shown)

    @property
    def plays(self) -> int:
        """How often the whole is shown; 0 is for ever."""
        return self._timeline.plays

    @property
    def timed(self) -> bool:
        """Whether frames have times; pages have none."""
        return self._format != _PAGES

    @property
    def notes(self) -> tuple[str, ...]:
        """What was wrong with the file, in words."""
        return self._timeline.notes

    def __enter__(self) -> SequenceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open between iterations."""

    def __iter__(self) -> Iterator[ImageFrame]:
        """The frames, all of one size.

        Raises:
            MediaError: damaged.
        """
        index = 0
        wanted = iter(self._shown)
        shown = next(wanted, None)
        with closing(self._frames()) as frames:
            for number, frame in enumerate(frames):
                while shown is not None and shown.number == number:
                    yield self._given(frame, index, shown)
                    index, shown = index + 1, next(wanted, None)
                if shown is None:
                    return
        raise MediaError(f"{self.path}: holds fewer frames than its headers say; get the file again")

    def _given(self, frame: ImageFrame, index: int, shown: Shown) -> ImageFrame:
        made = ImageFrame(frame.array.copy(), index)
        made.time, made.meta = shown.time, replace(frame.meta, duration=shown.duration)
        rescale(made, self._scale)
        return made

    def _frames(self) -> Generator[ImageFrame, None, None]:
        """Each frame of the file, as stored but upright."""
        if self._format == _PAGES:
            with opened(self.path, self._limits) as (image, head):
                for page in self._timeline.pages if image is not None else ():
                    assert image is not None
                    with quiet():
                        image.seek(page)
                    yield read_selected(image, head, self.path)
            return
        orientation = Orientation.from_exif(self._timeline.orientation)
        with faults(self.path), closing(self._arrays()) as arrays:
            for array in arrays:
                array = orientation.apply(array)
                frame = ImageFrame(array)
                # A GIF can only be written well if it is known which pixels have changed.
                native = Native("RGBA", array) if self._format == "GIF" else None
                frame.meta = replace(self.meta, native=native)
                yield frame

    def _arrays(self) -> Generator[npt.NDArray[Any], None, None]:
        if self._format == "WEBP":
            yield from webp_frames(self.path)
            return
        with mapped(self.path) as data:
            if self._format == "GIF":
                yield from gif_frames(data, self._timeline)
            else:
                yield from apng_frames(data, self._timeline, self.path)


def schedule(path: Path, timeline: Timeline, timing: Timing) -> tuple[Shown, ...]:
    """Which frames are given, and when, by the options `trim`, `max_seconds` and `fps`.

    Raises:
        OptionsError: the frames have no times, or none is left.
    """
    if not timing.cut and timing.rate is None:
        return tuple(_all(timeline))
    if timeline.duration is None:
        raise OptionsError(f"{path}: its pages have no times; leave out trim, max_seconds and fps")
    spans: Iterator[Span[int]] = (
        Span(shown.time, shown.time + shown.duration, shown.number)
        for shown in _all(timeline)
        if shown.time is not None and shown.duration is not None
    )
    if timing.cut:
        spans = trimmed(spans, timing.start, timing.stop, Fraction(0), _INSTANT)
    if timing.rate is None:
        made = [Shown(span.item, span.start, span.stop - span.start) for span in spans]
    else:
        step = 1 / timing.rate
        made = [Shown(item, at * step, step) for run, item in ticks(spans, timing.rate, Fraction(0)) for at in run]
    if not made:
        seconds = float(timeline.duration)
        raise OptionsError(f"{path}: lasts {seconds:g} s, so nothing is left of it; choose another trim")
    return tuple(made)


def _all(timeline: Timeline) -> Iterator[Shown]:
    time: Fraction | None = Fraction(0)
    for number, duration in enumerate(timeline.durations):
        yield Shown(number, None if duration is None else time, duration)
        time = None if time is None or duration is None else time + duration
