"""What travels with a photo's pixels: EXIF, XMP, colour profile, resolution, text, and how it was compressed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from PIL import ExifTags, Image

from mien.media.image_jpeg import JpegSettings, jpeg_settings
from mien.media.image_native import Native
from mien.media.image_open import mapped, quiet
from mien.media.image_png import kept_chunks
from mien.media.image_webp import WebpCompression, compression

_ORIENTATION = ExifTags.Base.Orientation
# In a TIFF, Pillow's EXIF also holds the tags that describe its pixels; these describe the photo.
_TIFF_KEPT = (
    ExifTags.Base.ImageDescription,
    ExifTags.Base.Make,
    ExifTags.Base.Model,
    ExifTags.Base.Software,
    ExifTags.Base.DateTime,
    ExifTags.Base.Artist,
    ExifTags.Base.Copyright,
)
_TIFF_IFDS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)
_XMP_TURNS = (rb'tiff:Orientation="[0-9]"', rb"<tiff:Orientation>\s*[0-9]\s*</tiff:Orientation>")
_XMP_THUMBNAILS = re.compile(rb"<(xmp|xap):Thumbnails>.*?</\1:Thumbnails>", re.DOTALL)
_JPEG_BLOCK_LIMIT = 65_533
_JPEG_XMP_LIMIT = 65_504


@dataclass(frozen=True, slots=True)
class ImageMeta:
    """Metadata of one photo, with its pixels already upright."""

    exif: bytes = b""
    """Starts with "Exif", orientation 1, without the embedded thumbnail; empty when there is none."""
    xmp: bytes = b""
    """XMP packet, without an orientation or thumbnails."""
    icc: bytes | None = None
    """ICC profile."""
    dpi: tuple[float, float] | None = None
    jpeg: JpegSettings = field(default_factory=JpegSettings)
    """How a JPEG was compressed."""
    png: tuple[tuple[bytes, bytes], ...] = ()
    """(kind, payload) of a PNG's chunks on colour and of its text."""
    webp: WebpCompression = field(default_factory=WebpCompression)
    """How a WebP was compressed."""
    depth: int = 8
    """Bits per sample in the file."""
    native: Native | None = None
    """The photo in its own mode, where that is none of an ImageFrame's."""
    duration: Fraction | None = None
    """Seconds for which a sequence shows this frame."""
    notes: tuple[str, ...] = ()
    """What was lost in reading."""

    def icc_for(self, colors: int) -> bytes | None:
        """The profile, if it is one for that many colour channels."""
        space = self.icc[16:20] if self.icc else b""
        return self.icc if space == {1: b"GRAY", 3: b"RGB ", 4: b"CMYK"}[colors] else None

    def jpeg_exif(self) -> bytes:
        """The EXIF, or nothing if it is longer than a JPEG can hold."""
        return self.exif if len(self.exif) <= _JPEG_BLOCK_LIMIT else b""

    def jpeg_xmp(self) -> bytes:
        """The XMP, or nothing if it is longer than a JPEG can hold."""
        return self.xmp if len(self.xmp) <= _JPEG_XMP_LIMIT else b""


def read_meta(image: Image.Image, path: Path) -> ImageMeta:
    """Metadata of an opened photo that stands beside its samples."""
    png: tuple[tuple[bytes, bytes], ...] = ()
    webp = WebpCompression()
    if image.format == "PNG":
        with mapped(path) as data:
            png = kept_chunks(data)
    elif image.format == "WEBP":
        with mapped(path) as data:
            webp = compression(data)
    dpi = image.info.get("dpi")
    return ImageMeta(
        exif=_exif(image),
        xmp=_xmp(image),
        icc=image.info.get("icc_profile"),
        dpi=(float(dpi[0]), float(dpi[1])) if dpi and min(dpi) > 0 else None,
        jpeg=jpeg_settings(image),
        png=png,
        webp=webp,
    )


def exif_orientation(image: Image.Image) -> int:
    """EXIF orientation 1–8, also from XMP; 1 when there is none."""
    with quiet():  # Damaged EXIF is not worth more than its loss.
        value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) else 1


def _exif(image: Image.Image) -> bytes:
    with quiet():
        exif = image.getexif()
        if image.format == "TIFF":
            exif = _tiff_exif(exif)
        if not len(exif):
            return b""
        if _ORIENTATION not in exif:
            return exif.tobytes()
        upright = Image.Exif()  # A copy: Pillow keeps the image's own, which still says how its pixels turn.
        upright.load(exif.tobytes())
        upright[_ORIENTATION] = 1
        return upright.tobytes()


def _tiff_exif(exif: Image.Exif) -> Image.Exif:
    kept = Image.Exif()
    kept.update({tag: exif[tag] for tag in _TIFF_KEPT if tag in exif})
    for sub in _TIFF_IFDS:
        values = {tag: value for tag, value in exif.get_ifd(sub).items() if not isinstance(value, dict)}
        if values:
            kept[sub] = values
    return kept


def _xmp(image: Image.Image) -> bytes:
    xmp = image.info.get("xmp") or b""
    if isinstance(xmp, str):
        xmp = xmp.encode()
    if not isinstance(xmp, bytes):
        return b""
    for pattern in _XMP_TURNS:
        xmp = re.sub(pattern, b"", xmp)
    return _XMP_THUMBNAILS.sub(b"", xmp)
