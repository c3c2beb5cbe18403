"""Photos: described, and read in any mode upright into an `ImageFrame`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from PIL import Image

from mien.errors import MediaError, OptionsError
from mien.media.frame import ImageFrame
from mien.media.image_meta import exif_orientation, read_meta
from mien.media.image_open import bit_depth, full_pages, opened, quiet
from mien.media.image_pixels import read_pixels, resized, scaled_size, shown_size
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.orientation import Orientation
from mien.media.sequence_scan import scan
from mien.media.sequence_timeline import Timeline
from mien.media.timing import parse_scale
from mien.options import AnalyzeOptions


@quiet()
def image_info(path: Path, limits: Limits | None = None) -> MediaInfo | None:
    """Describe a photo or a sequence of photos; None if the file is none, or an animation that reads as a video.

    Raises:
        MediaError: a photo that is damaged, too large or cannot be handled.
    """
    limits = limits or Limits.of(None)
    with opened(path, limits) as (image, head):
        if image is None:
            return None
        if image.format == "AVIF" and getattr(image, "is_animated", False):
            if image.mode == "RGBA":
                raise MediaError(f"{path}: animated AVIF with transparency is not supported; convert it to WebP")
            return None
        timeline = scan(image, path)
        if timeline is not None:
            return _sequence_info(path, image, head, timeline, limits)
        if image.format == "TIFF":
            full_pages(image)
        orientation = Orientation.from_exif(exif_orientation(image))
        width, height = shown_size(image)
        return MediaInfo(
            path=path,
            kind="image",
            container=str(image.format).lower(),
            codec=str(image.format).lower(),
            pixel_format=image.mode,
            depth=bit_depth(image, head),
            width=width,
            height=height,
            rotation=orientation.rotation,
            mirrored=orientation.mirrored,
            frames=1,
        )


def read_image(path: Path, limits: Limits | None = None) -> ImageFrame:
    """Read a photo: upright, 8 or 16 bit, grey, grey + alpha, RGB or RGBA.

    Raises:
        MediaError: it is no photo, damaged, too large, or of a mode that cannot be handled.
    """
    with opened(path, limits) as (image, head):
        if image is None:
            raise MediaError(f"{path}: is not a photo that mien can read; give a JPEG, PNG, WebP, TIFF or HEIC")
        if image.format == "TIFF":
            with quiet():
                full_pages(image)
        return read_selected(image, head, path)


@quiet()
def read_selected(image: Image.Image, head: bytes, path: Path) -> ImageFrame:
    """The selected picture of an opened photo; see `read_image`."""
    meta, notes = read_meta(image, path), _left_out(image)
    pixels = read_pixels(image, head, path)
    frame = ImageFrame(pixels.array)
    frame.meta = replace(
        meta,
        depth=pixels.depth,
        native=pixels.native,
        notes=notes + pixels.notes,
    )
    return frame


def rescale(frame: ImageFrame, scale: tuple[int | None, int | None] | None) -> None:
    """Give a photo the size that the option `scale` asks for."""
    width, height = scaled_size(frame.width, frame.height, scale)
    if (width, height) == (frame.width, frame.height):
        return
    native = frame.meta.native
    frame.array = resized(frame.array, width, height)
    frame.width, frame.height = width, height
    frame.meta = replace(frame.meta, native=native.scaled(height, width) if native else None)


class ImageReader:
    """A photo as a clip of one frame; the option `scale` is applied.

    Raises:
        OptionsError: an option that is for clips.
    """

    def __init__(self, path: Path, info: MediaInfo, options: AnalyzeOptions | None = None) -> None:
        self.path, self.info = path, info
        self._limits = Limits.of(options)
        self._scale = parse_scale(options.scale) if options else None
        for name in ("trim", "max_seconds", "fps"):
            if options and getattr(options, name):
                raise OptionsError(f"{path}: is a photo; leave out {name}, which is for videos")
        self._limits.check_size(path, *scaled_size(info.width, info.height, self._scale))

    @property
    def kind(self) -> Literal["image"]:
        """As in `MediaInfo`."""
        return "image"

    @property
    def frame_count(self) -> int:
        """One."""
        return 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: what reading the photo lost stands in its frame's `meta.notes`, and the writer tells it."""
        return ()

    def __enter__(self) -> ImageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ImageFrame]:
        """The photo, read anew each time."""
        frame = read_image(self.path, self._limits)
        rescale(frame, self._scale)
        yield frame

    def close(self) -> None:
        """Nothing is held open."""


def _left_out(image: Image.Image) -> tuple[str, ...]:
    """What a photo's file holds beside the photo."""
    count = getattr(image, "n_frames", 1)
    if image.format in ("MPO", "HEIF") and count > 1:
        return (f"the file holds {count} pictures: only the main one was kept",)
    return ()


def _sequence_info(path: Path, image: Image.Image, head: bytes, timeline: Timeline, limits: Limits) -> MediaInfo:
    limits.check_size(path, timeline.width, timeline.height)
    seconds = timeline.duration
    if seconds is not None:
        limits.check_duration(path, float(seconds))
    fps = len(timeline.durations) / seconds if seconds else None
    limits.check_rate(path, float(fps or 0))
    width, height = Orientation.from_exif(timeline.orientation).size(timeline.width, timeline.height)
    return MediaInfo(
        path=path,
        kind="sequence",
        container=str(image.format).lower(),
        codec="apng" if image.format == "PNG" else str(image.format).lower(),
        pixel_format=image.mode,
        depth=bit_depth(image, head),
        width=width,
        height=height,
        fps=fps,
        frames=len(timeline.durations),
        duration=None if seconds is None else float(seconds),
    )
