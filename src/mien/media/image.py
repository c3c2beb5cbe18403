"""Photos: reading any mode upright into an `ImageFrame`, and writing one by the output's extension."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms, UnidentifiedImageError, features

from mien.errors import MediaError
from mien.media.frame import ImageFrame
from mien.media.image_meta import exif_orientation, read_meta
from mien.media.info import MediaInfo
from mien.media.orientation import Orientation

_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "JPEG2000", "QOI")
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
_HEAD = 64
_16_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
# Pillow mode → the mode that an ImageFrame holds; "…A" instead where a transparent colour is named.
_MODES = MappingProxyType(
    {
        "1": "L", "L": "L", "LA": "LA", "La": "LA", "P": "RGB", "PA": "RGBA", "RGB": "RGB", "RGBX": "RGB",
        "RGBA": "RGBA", "RGBa": "RGBA", "YCbCr": "RGB", "HSV": "RGB",
    }
)  # fmt: skip
_WITH_ALPHA = MappingProxyType({"L": "LA", "RGB": "RGBA", "LA": "LA", "RGBA": "RGBA"})


def image_info(path: Path) -> MediaInfo | None:
    """Describe a photo; None if the file is none, or is an animation that reads as a video.

    Raises:
        MediaError: a photo that is damaged or cannot be handled.
    """
    with _opened(path) as (image, head):
        if image is None:
            return None
        if getattr(image, "is_animated", False) and image.format != "MPO":
            if image.format in ("GIF", "PNG"):
                return None
            if image.format == "WEBP":
                raise MediaError(f"{path}: animated WebP is not supported; convert it to MP4")
        orientation = Orientation.from_exif(exif_orientation(image))
        # Of a TIFF, Pillow tells the upright size.
        size = image.size if image.format == "TIFF" else orientation.size(*image.size)
        return MediaInfo(
            path=path,
            kind="image",
            container=str(image.format).lower(),
            codec=str(image.format).lower(),
            pixel_format=image.mode,
            depth=16 if _is_16_bit(image, head) else 8,
            width=size[0],
            height=size[1],
            rotation=orientation.rotation,
            mirrored=orientation.mirrored,
            frames=1,
        )


def read_image(path: Path) -> ImageFrame:
    """Read a photo: upright, 8 or 16 bit, grey, grey + alpha, RGB or RGBA. Of several pages, the first.

    Raises:
        MediaError: it is no photo, damaged, or of a mode that cannot be handled.
    """
    with _opened(path) as (image, head):
        if image is None:
            raise MediaError(f"{path}: is not a photo that mien can read; give a JPEG, PNG, WebP, TIFF or HEIC")
        meta = read_meta(image, head)
        frame = ImageFrame(_pixels(image, head, path))
    frame.meta = meta
    return frame


class ImageReader:
    """A photo as a clip of one frame."""

    def __init__(self, path: Path, info: MediaInfo) -> None:
        self.path = path
        self.info = info

    @property
    def kind(self) -> Literal["image"]:
        """As in `MediaInfo`."""
        return "image"

    @property
    def frame_count(self) -> int:
        """One."""
        return 1

    def __enter__(self) -> ImageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ImageFrame]:
        """The photo, read anew each time."""
        yield read_image(self.path)

    def close(self) -> None:
        """Nothing is held open."""


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Image.Image | None, bytes]]:
    """The photo's headers, or None if it is no photo, and the file's first bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = _identify(path, head)
        try:
            yield image, head
        finally:
            if image is not None:
                image.close()
    except MediaError:
        raise
    except Image.DecompressionBombError as error:
        raise MediaError(f"{path}: is larger than 178 megapixels; scale it down") from error
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError) as error:
        raise MediaError(f"{path}: is a damaged or truncated photo ({error}); get the file again") from error


def _identify(path: Path, head: bytes) -> Image.Image | None:
    formats = list(_FORMATS)
    if features.check("avif"):
        formats.append("AVIF")
    if head[4:8] == b"ftyp" and any(brand in head for brand in _HEIF_BRANDS):
        register_heif()
        formats.append("HEIF")
    try:
        return Image.open(path, formats=formats)
    except UnidentifiedImageError:
        return None


def register_heif() -> None:
    """Teach Pillow HEIC; idempotent, and only paid for by those who need it."""
    from pillow_heif import register_heif_opener

    register_heif_opener()


def _is_16_bit(image: Image.Image, head: bytes) -> bool:
    if image.mode in _16_BIT or image.mode == "I":
        return True
    if image.format == "PNG":
        return head[24] == 16
    bits = getattr(image, "tag_v2", {}).get(258, 8)
    return 16 in (bits if isinstance(bits, tuple) else (bits,))


def _pixels(image: Image.Image, head: bytes, path: Path) -> npt.NDArray[Any]:
    """(H, W[, C]) uint8 or uint16, upright."""
    tiff = image.format == "TIFF"
    orientation = Orientation() if tiff else Orientation.from_exif(exif_orientation(image))
    image.load()  # Pillow turns a TIFF upright here, as OpenCV does.
    array: npt.NDArray[Any]
    if not _is_16_bit(image, head):
        array = _pixels_8(image, path)
    elif image.mode in (*_16_BIT, "I") and not tiff:
        array = np.asarray(np.clip(np.asarray(image), 0, 65535), np.uint16)
    else:
        array = _deep_pixels(path)
    return orientation.apply(array)


def _deep_pixels(path: Path) -> npt.NDArray[np.uint16]:
    """(H, W[, C]) uint16. Pillow cuts 16-bit colour to 8, and turns 16-bit grey wrongly, so these are OpenCV's."""
    data = np.fromfile(path, np.uint8)
    array: npt.NDArray[Any] | None = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    if array is None or array.dtype != np.uint16:
        raise MediaError(f"{path}: this kind of 16-bit photo is not supported; convert it to 16-bit PNG")
    if array.ndim == 2:
        return np.asarray(array, np.uint16)
    code = cv2.COLOR_BGRA2RGBA if array.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return np.asarray(cv2.cvtColor(array, code), np.uint16)


def _pixels_8(image: Image.Image, path: Path) -> npt.NDArray[np.uint8]:
    """(H, W[, C]) uint8."""
    if image.mode == "CMYK":
        return np.asarray(_cmyk_to_rgb(image))
    mode = _MODES.get(image.mode)
    if mode is None:
        raise MediaError(f"{path}: photos of mode {image.mode} are not supported; convert it to 8-bit RGB")
    if "transparency" in image.info:
        mode = _WITH_ALPHA[mode]
    return np.asarray(image if image.mode == mode else image.convert(mode))


def _cmyk_to_rgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if profile:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            made = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
            if made is not None:
                return made
        except (ImageCms.PyCMSError, OSError):
            pass  # A broken profile is as good as none.
    return image.convert("RGB")
