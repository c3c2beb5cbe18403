"""What travels with a photo's pixels: EXIF, colour profile, resolution, chroma subsampling."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import ExifTags, Image, JpegImagePlugin

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
_JPEG_EXIF_LIMIT = 65_533


@dataclass(frozen=True, slots=True)
class ImageMeta:
    """Metadata of one photo, with its pixels already upright."""

    exif: bytes = b""
    """Starts with "Exif", orientation 1, without the embedded thumbnail; empty when there is none."""
    icc: bytes | None = None
    """ICC profile."""
    dpi: tuple[float, float] | None = None
    subsampling: int = 0
    """Pillow's JPEG subsampling: 0 4:4:4, 1 4:2:2, 2 4:2:0."""
    lossless: bool = False
    """True for a WebP that was lossless."""

    def icc_for(self, colors: int) -> bytes | None:
        """The profile, if it is one for that many colour channels."""
        space = self.icc[16:20] if self.icc else b""
        return self.icc if space == (b"GRAY" if colors == 1 else b"RGB ") else None

    def jpeg_exif(self) -> bytes:
        """The EXIF, or nothing if it is longer than a JPEG can hold."""
        return self.exif if len(self.exif) <= _JPEG_EXIF_LIMIT else b""


def read_meta(image: Image.Image, head: bytes) -> ImageMeta:
    """Metadata of an opened photo; `head` is the file's start."""
    dpi = image.info.get("dpi")
    return ImageMeta(
        exif=_exif(image),
        icc=image.info.get("icc_profile"),
        dpi=(float(dpi[0]), float(dpi[1])) if dpi else None,
        subsampling=_subsampling(image),
        lossless=image.format == "WEBP" and b"VP8L" in head,
    )


def exif_orientation(image: Image.Image) -> int:
    """EXIF orientation 1–8, also from XMP; 1 when there is none."""
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) else 1


def _exif(image: Image.Image) -> bytes:
    exif = image.getexif()
    if image.format == "TIFF":
        kept = Image.Exif()
        kept.update({tag: exif[tag] for tag in _TIFF_KEPT if tag in exif})
        exif = kept
    if not len(exif):
        return b""
    if _ORIENTATION not in exif:
        return exif.tobytes()
    upright = Image.Exif()  # A copy: Pillow keeps the image's own, which still says how its pixels turn.
    upright.load(exif.tobytes())
    upright[_ORIENTATION] = 1
    return upright.tobytes()


def _subsampling(image: Image.Image) -> int:
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return 0
    return max(JpegImagePlugin.get_sampling(image), 0)
