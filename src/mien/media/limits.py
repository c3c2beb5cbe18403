"""What is too large to open, known from a file's headers before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from mien.options import AnalyzeOptions


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is opened."""

    max_pixels: int
    """Pixels of one frame."""
    max_duration: float
    """Seconds."""
    max_fps: int
    """Frames per second."""
    max_streams: int
    """Tracks."""

    @classmethod
    def of(cls, options: AnalyzeOptions | None = None) -> Limits:
        """The limits that the options set; without options their defaults."""
        chosen = options or AnalyzeOptions()
        return cls(chosen.max_pixels, chosen.max_duration, chosen.max_fps, chosen.max_streams)
