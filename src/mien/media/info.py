"""What a media file is, as far as its first frame tells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from mien.media.colorspace import UNSPECIFIED


@dataclass(frozen=True, slots=True)
class ColorTags:
    """H.273 codes (2 = untagged) and FFmpeg's range (0 = untagged, 1 = limited, 2 = full)."""

    matrix: int = UNSPECIFIED
    primaries: int = UNSPECIFIED
    transfer: int = UNSPECIFIED
    """1 BT.709, 16 PQ, 18 HLG, …"""
    range: int = 0


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """A photo, a sequence of photos (animation, pages) or a video. Sizes are in display orientation."""

    path: Path
    kind: Literal["image", "sequence", "video"]
    container: str
    """FFmpeg's demuxer name, or Pillow's format in lower case."""
    codec: str
    pixel_format: str
    """FFmpeg's name for video, Pillow's mode for photos."""
    depth: int
    """Bits per sample."""
    width: int
    height: int
    rotation: int = 0
    """Counter-clockwise degrees by which the stored pixels are turned to be upright: 0, 90, 180 or 270."""
    mirrored: bool = False
    fps: Fraction | None = None
    """Average frames per second; None for photos and where unknown."""
    frames: int | None = None
    """Number of frames, an estimate for video; None where unknown."""
    duration: float | None = None
    """Seconds; None for photos and where unknown."""
    sample_aspect: Fraction = Fraction(1)
    """Width of a pixel over its height, as stored."""
    color: ColorTags = ColorTags()
    display_matrix: tuple[int, ...] | None = None
    """FFmpeg's nine integers that tell rotation and flip; None for photos and where there is none."""
    siting: tuple[float, float] = (0.0, 0.5)
    """Where chroma samples sit, see `media.siting`; only of video."""
    start: Fraction = Fraction(0)
    """Seconds on the file's own clock at which it begins."""
    time_base: Fraction | None = None
    """Seconds of a tick of that clock; None for photos."""
    audio_tracks: int = 0
    subtitle_tracks: int = 0
