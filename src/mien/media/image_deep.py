"""Photos of more than 8 bits, which Pillow cuts to 8: read by OpenCV and pillow-heif."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.errors import MediaError
from mien.media.image_open import mapped
from mien.media.image_png import grey_key_16, samples_alone

Deep = npt.NDArray[np.uint16]


def deep_pixels(image: Image.Image, path: Path, depth: int) -> Deep | None:
    """(H, W[, C]) uint16 as stored, but a TIFF upright; None where only 8 bits can be had.

    Raises:
        MediaError: OpenCV cannot read it.
    """
    if image.format == "HEIF":
        return _heif(path, depth)
    if image.format == "PNG":
        with mapped(path) as data:
            return png_pixels(data, path)
    if image.format == "TIFF" and depth == 16 and image.mode in ("I;16", "I;16B", "RGB", "RGBA", "RGBX"):
        with mapped(path) as data:
            return _colors(_decoded(data, path, image.tell()))
    if image.format == "PPM" and image.mode == "RGB":
        with mapped(path) as data:
            return _colors(_decoded(data, path)) if b"65535" in bytes(data[:256]) else None
    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N") or (image.mode == "I" and image.format == "PPM"):
        image.load()
        return np.asarray(np.clip(np.asarray(image), 0, 65535), np.uint16)
    return None


@contextmanager
def quiet_opencv() -> Iterator[None]:
    """OpenCV without its warnings about tags that it does not know."""
    before = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(0)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(before)


def _decoded(content: bytes | memoryview, path: Path, page: int = 0) -> npt.NDArray[Any]:
    data = np.frombuffer(content, np.uint8)
    with quiet_opencv():
        try:
            _, pages = cv2.imdecodemulti(data, cv2.IMREAD_UNCHANGED, None, (page, page + 1))
        except cv2.error as error:
            raise ValueError(error.err) from error
    array = pages[0] if pages else None
    if array is None or array.dtype != np.uint16:
        raise MediaError(f"{path}: this kind of 16-bit photo is not supported; convert it to 16-bit PNG")
    return np.asarray(array)


def _colors(array: npt.NDArray[Any]) -> Deep:
    """From OpenCV's order of channels."""
    if array.ndim == 2:
        return np.asarray(array, np.uint16)
    code = cv2.COLOR_BGRA2RGBA if array.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return np.asarray(cv2.cvtColor(array, code), np.uint16)


def png_pixels(content: bytes | memoryview, path: Path) -> Deep:
    """(H, W[, C]) uint16 of a PNG of 16 bits, as stored."""
    array = _decoded(samples_alone(content), path)  # Of other chunks, libpng prints what it does not like.
    if content[25] == 4:
        return np.ascontiguousarray(array[..., [0, 3]])
    key = grey_key_16(content) if array.ndim == 2 else None
    if key is not None:
        return np.asarray(np.dstack([array, np.where(array == key, 0, 65535)]), np.uint16)
    return _colors(array)


def _heif(path: Path, depth: int) -> Deep:
    """10 or 12 bits spread over 16, so that the highest code stays the highest."""
    from pillow_heif import open_heif

    photo = open_heif(path, convert_hdr_to_8bit=False)
    array = np.asarray(photo).astype(np.uint16)
    return np.asarray(array | array >> depth, np.uint16)
