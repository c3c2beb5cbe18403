"""A photo's samples, upright, in a mode that an `ImageFrame` holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.errors import MediaError
from mien.media.image_deep import deep_pixels
from mien.media.image_meta import exif_orientation
from mien.media.image_native import Native
from mien.media.image_open import bit_depth
from mien.media.orientation import Orientation
from mien.types import ByteArray

# Pillow mode → the mode that an ImageFrame holds; "…A" instead where a transparent colour is named.
_MODES = MappingProxyType(
    {
        "L": "L", "LA": "LA", "La": "LA", "P": "RGB", "PA": "RGBA", "RGB": "RGB", "RGBX": "RGB", "RGBA": "RGBA",
        "RGBa": "RGBA", "YCbCr": "RGB", "HSV": "RGB",
    }
)  # fmt: skip
_ORIENTATION = 274
_WITH_ALPHA = MappingProxyType({"L": "LA", "RGB": "RGBA", "LA": "LA", "RGBA": "RGBA"})


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """Samples as mien works on them, and as the file has them."""

    array: npt.NDArray[Any]
    """(H, W[, C]) uint8 or uint16."""
    native: Native | None
    depth: int
    """Bits per sample in the file."""
    notes: tuple[str, ...] = ()


def orientation_of(image: Image.Image) -> Orientation:
    """How the samples that Pillow and OpenCV give must be turned; a TIFF's they turn themselves."""
    return Orientation() if image.format == "TIFF" else Orientation.from_exif(exif_orientation(image))


def shown_size(image: Image.Image) -> tuple[int, int]:
    """(width, height) upright."""
    return (_by_xmp(image) or orientation_of(image)).size(*image.size)


def _by_xmp(image: Image.Image) -> Orientation | None:
    """Of a TIFF, the orientation that stands only in its XMP, where neither its size nor OpenCV heeds it."""
    if image.format != "TIFF" or _ORIENTATION in getattr(image, "tag_v2", {}):
        return None
    return Orientation.from_exif(exif_orientation(image))


def read_pixels(image: Image.Image, head: bytes, path: Path) -> Pixels:
    """The selected picture of an opened photo.

    Raises:
        MediaError: a mode that cannot be handled.
    """
    depth, orientation = bit_depth(image, head), orientation_of(image)
    if depth > 8:
        turn = _by_xmp(image) or orientation
        deep = deep_pixels(image, path, depth)
        if deep is not None:
            return Pixels(turn.apply(deep), None, depth)
        if image.mode in ("I", "F"):
            raise MediaError(f"{path}: photos of {depth} bits a sample are not supported; convert it to 16-bit PNG")
    image.load()
    notes = (f"the photo's {depth} bits were read as 8",) if depth > 8 else ()
    native = Native.of(image, orientation)
    if native is not None:
        return Pixels(native.promoted(), native, depth, notes)
    return Pixels(orientation.apply(promoted(image, path)), None, depth, notes)


def promoted(image: Image.Image, path: Path) -> ByteArray:
    """(H, W[, C]) uint8 of a loaded photo of 8 bits, as stored: grey, grey + alpha, RGB or RGBA."""
    mode = _MODES.get(image.mode)
    if mode is None:
        raise MediaError(f"{path}: photos of mode {image.mode} are not supported; convert it to 8-bit RGB")
    if "transparency" in image.info:
        mode = _WITH_ALPHA[mode]
    return np.asarray(image if image.mode == mode else image.convert(mode))


def resized(array: npt.NDArray[Any], width: int, height: int) -> npt.NDArray[Any]:
    """(height, width, C) by area where it shrinks, else cubic. Colours count as much as they are opaque."""
    if array.shape[1::-1] == (width, height):
        return array
    shrinks = width * height < array.shape[0] * array.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    plain = np.asarray(cv2.resize(array, (width, height), interpolation=how)).reshape(height, width, -1)
    if array.shape[2] in (1, 3) or array[..., -1].min() == np.iinfo(array.dtype).max:
        return plain
    alpha = array[..., -1:].astype(np.float32)
    top = cv2.resize(array[..., :-1] * alpha, (width, height), interpolation=how).reshape(height, width, -1)
    weight = cv2.resize(alpha, (width, height), interpolation=how).reshape(height, width, 1)
    colors = np.rint(top / np.maximum(weight, 1e-3)).clip(0, np.iinfo(array.dtype).max).astype(array.dtype)
    plain[..., :-1] = np.where(weight > 0.5, colors, plain[..., :-1])
    return plain


def scaled_size(width: int, height: int, scale: tuple[int | None, int | None] | None) -> tuple[int, int]:
    """(width, height) that the option `scale` asks for; one that it leaves out keeps the shape."""
    if scale is None:
        return width, height
    across, down = scale
    if across is None:
        assert down is not None
        return max(1, round(width * down / height)), down
    return across, down or max(1, round(height * across / width))
