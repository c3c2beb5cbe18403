"""A video's frames, in presentation order: all of them, a part, or as many a second as are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

import av

from mien.errors import MediaError, OptionsError
from mien.media.aspect import Stretch
from mien.media.fit import Fitter
from mien.media.frame import VideoFormat, VideoFrame
from mien.media.hdr import ToneMap
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.normalize import Converter
from mien.media.orientation import Orientation
from mien.media.planes import PlaneFormat
from mien.media.timeline import Timeline
from mien.media.timing import Timing, parse_scale
from mien.options import AnalyzeOptions


class Place(NamedTuple):
    """A frame of a clip: its index, and its time in ticks as the reader gives it."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    pts: int


class VideoReader:
    """A video's frames in presentation order. Each iteration opens the file anew.

    The options `trim`, `max_seconds`, `fps` and `scale` are applied: frames are counted from 0 over those that are
    left, and their times are on the output's clock, which is 0 where a trimmed part begins.

    Raises:
        OptionsError: one of those options does not read as what it should be, or nothing is left by them.
    """

    def __init__(self, path: Path, info: MediaInfo, options: AnalyzeOptions | None = None) -> None:
        self.path = path
        self.info = info
        self._limits = Limits.of(options)
        self._timing = Timing.of(options)
        self._scale = parse_scale(options.scale) if options else None
        self._timeline = Timeline(info, self._timing, self._limits)
        self._fitter = Fitter(info, self._scale, self._limits)

    @property
    def kind(self) -> Literal["video"]:
        """As in `MediaInfo`."""
        return "video"

    @property
    def frame_count(self) -> int | None:
        """An estimate; None where unknown."""
        timing, length = self._timing, self.info.duration
        if not (timing.cut or timing.rate):
            return self.info.frames
        if timing.stop is not None:
            length = float(timing.stop) if length is None else min(length, float(timing.stop))
        if length is None or self.rate is None:
            return None
        return max(1, round((length - float(timing.start)) * self.rate))

    @property
    def rate(self) -> Fraction | None:
        """Frames per second: those asked for, or else the source's average; None where unknown."""
        return self._timing.rate or self.info.fps

    @property
    def resampled(self) -> bool:
        """True where a trimmed part, or a rate that was asked for, gives the frames a clock of their own.

        That clock is 0 at the window's start; without it, frames have the source's own times.
        """
        return self._timeline.resampled

    @property
    def window(self) -> tuple[Fraction, Fraction | None]:
        """The part that is shown, in seconds of the source's own timestamps; None is its end."""
        return self._timeline.window

    @property
    def time_base(self) -> Fraction:
        """Seconds of a tick, in which the pictures' times count."""
        return self._timeline.time_base

    @property
    def sample_aspect(self) -> Fraction:
        """Width of a pixel over its height in the frames' pictures, as stored; scaled ones are square."""
        return Fraction(1) if self._scale else self.info.sample_aspect

    @property
    def decode_errors(self) -> int:
        """Packets that could not be decoded in the latest iteration; their frames are missing."""
        return self._timeline.damage.lost

    @property
    def notes(self) -> tuple[str, ...]:
        """What was wrong with the video in the latest iteration, in words."""
        damage, told = self._timeline.damage, []
        if damage.lost:
            told.append(f"{damage.lost} damaged packets of the target were left out")
        if damage.concealed:
            told.append(f"{damage.concealed} frames of the target are damaged in part")
        if damage.found and not (damage.lost or damage.concealed):
            told.append("the target's video is damaged in places")
        if damage.cut:
            told.append(f"the target's video ends early ({damage.cut})")
        if self._timeline.mended:
            told.append(f"{self._timeline.mended} frames had times that were missing or went back")
        if self._fitter.changed:
            told.append(f"{self._fitter.changed} frames of another size or pixel format were fitted to the first")
        return tuple(told)

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open between iterations; one that is not finished closes with its iterator."""

    def __iter__(self) -> Iterator[VideoFrame]:
        """All frames, as `frames()` gives them."""
        return self.frames()

    def frames(self, start: Place | None = None) -> Iterator[VideoFrame]:
        """The frames from `start` on: with the same numbers, times and samples as in a whole iteration.

        Raises:
            MediaError: not one frame can be decoded, too few can be, or they are beyond the limits.
            OptionsError: no frame lies in the part that `trim` names.
        """
        self._fitter.changed = 0
        shared = _Shared(self.info, self._fitter, self.sample_aspect)
        found = self._timeline.pictures_from(start.pts) if start is not None and start.index else None
        first = start.index if start is not None and found is not None else 0
        given = False
        for index, (pts, picture) in enumerate(found or self._timeline.pictures(), first):
            given = True
            if start is None or index >= start.index:
                yield shared.frame(picture, index, pts * self.time_base)
        if not given:
            raise self._nothing()

    def _nothing(self) -> MediaError | OptionsError:
        last = self._timeline.last
        if last is None:
            return MediaError(f"{self.path}: no frame can be decoded; convert it to H.264")
        begin, end = self.window
        part = f"{float(begin):g} s on" if end is None else f"{float(begin):g} s to {float(end):g} s"
        return OptionsError(f"{self.path}: has no frame from {part}, the last is at {float(last):g} s; change trim")


class _Shared:
    """What the frames of one pass share, worked out anew when the stream's tags change."""

    def __init__(self, info: MediaInfo, fitter: Fitter, aspect: Fraction) -> None:
        self._info, self._fitter, self._aspect = info, fitter, aspect
        self._converter = Converter()
        self._orientation = Orientation.from_matrix(info.display_matrix)
        self._key: tuple[object, ...] = ()
        self._format: VideoFormat | None = None

    def frame(self, picture: av.VideoFrame, index: int, time: Fraction) -> VideoFrame:
        picture = self._fitter(picture)
        key = (picture.colorspace, picture.color_range, picture.color_trc, picture.color_primaries)
        if self._format is None or key != self._key:
            layout = PlaneFormat.of(picture, self._info.siting)
            assert layout is not None
            size = self._orientation.size(picture.width, picture.height)
            aspect = 1 / self._aspect if self._orientation.transpose else self._aspect
            self._key, self._format = (
                key,
                VideoFormat(
                    layout,
                    self._orientation,
                    self._info.display_matrix,
                    self._converter,
                    ToneMap.of(picture.color_trc, picture.color_primaries),
                    Stretch.of(aspect, *size),
                ),
            )
        return VideoFrame(picture, self._format, index, time)
