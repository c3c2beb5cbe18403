"""Whether a photo's file is a sequence, and what its parts are, from its headers alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PIL import Image

from mien.errors import MediaError
from mien.media.image_meta import exif_orientation
from mien.media.image_open import full_pages, mapped, size_text
from mien.media.sequence_apng import scan_apng
from mien.media.sequence_gif import scan_gif
from mien.media.sequence_timeline import Timeline
from mien.media.sequence_webp import scan_webp


def scan(image: Image.Image, path: Path) -> Timeline | None:
    """The parts of an opened file with more than one frame or page; None if it holds one.

    Raises:
        MediaError: pages of different sizes.
        ValueError: damaged.
    """
    if image.format == "TIFF":
        return _pages(image, path)
    if image.format == "GIF":
        with mapped(path) as data:
            timeline: Timeline | None = scan_gif(data)
    elif image.format == "PNG" and getattr(image, "n_frames", 1) > 1:
        with mapped(path) as data:
            timeline = scan_apng(data)
    elif image.format == "WEBP" and getattr(image, "n_frames", 1) > 1:
        with mapped(path) as data:
            timeline = scan_webp(data)
    else:
        return None
    if timeline is None or len(timeline.durations) < 2:
        return None
    return replace(timeline, orientation=exif_orientation(image))


def _pages(image: Image.Image, path: Path) -> Timeline | None:
    pages = full_pages(image)
    if len(pages) < 2:
        return None
    sizes = set()
    for page in pages:
        image.seek(page)
        sizes.add(image.size)
    image.seek(pages[0])
    if len(sizes) > 1:
        raise MediaError(f"{path}: its {len(pages)} pages differ in size ({size_text(sizes)}); split it into photos")
    (size,) = sizes
    return Timeline(*size, (None,) * len(pages), pages=tuple(pages))
