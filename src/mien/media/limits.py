"""How much of a media file is looked at before it is refused. Headers are checked, but never trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mien.errors import MediaError
from mien.options import AnalyzeOptions


@dataclass(frozen=True, slots=True)
class Limits:
    """What a target may ask of the machine; the defaults are those of `AnalyzeOptions`."""

    max_pixels: int = 200_000_000
    """Pixels of one frame."""
    max_duration: float = 86_400.0
    """Seconds."""
    max_fps: int = 1000
    """Frames within one second."""
    max_streams: int = 64
    """Tracks; attached files such as fonts are none."""

    @classmethod
    def of(cls, options: AnalyzeOptions | None) -> Limits:
        """The limits that options name; the defaults for None."""
        if options is None:
            return cls()
        return cls(options.max_pixels, options.max_duration, options.max_fps, options.max_streams)

    @property
    def decoder_pixels(self) -> int:
        """What FFmpeg may allocate for a frame, whose rows it makes up to 63 pixels longer."""
        return self.max_pixels + (64 << 16)

    def check_size(self, path: Path, width: int, height: int) -> None:
        """Raise MediaError for frames of more than `max_pixels`."""
        if width * height > self.max_pixels:
            what = f"frames of {width}×{height} are more than {self.max_pixels} pixels"
            raise MediaError(f"{path}: {what}; raise max_pixels or make it smaller")

    def check_duration(self, path: Path, seconds: float) -> None:
        """Raise MediaError for more than `max_duration`."""
        if seconds > self.max_duration:
            what = f"lasts {seconds:.0f} s or more, over the limit of {self.max_duration:.0f} s"
            raise MediaError(f"{path}: {what}; raise max_duration or cut it")

    def check_rate(self, path: Path, rate: float) -> None:
        """Raise MediaError for more than `max_fps` frames per second."""
        if rate > self.max_fps:
            what = f"has {rate:.0f} frames per second or more, over the limit of {self.max_fps}"
            raise MediaError(f"{path}: {what}; raise max_fps or convert it to a constant rate")

    def check_streams(self, path: Path, count: int) -> None:
        """Raise MediaError for more than `max_streams` tracks."""
        if count > self.max_streams:
            what = f"holds {count} tracks, over the limit of {self.max_streams}"
            raise MediaError(f"{path}: {what}; raise max_streams or remove tracks")
