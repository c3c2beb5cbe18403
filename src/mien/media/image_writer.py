"""Writing photos, whole or not at all, in the format of the output's extension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.errors import OptionsError, OutputError
from mien.media.atomic import atomic_output, check_output
from mien.media.frame import Frame, ImageFrame
from mien.media.image import register_heif
from mien.options import SwapOptions

IMAGE_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        ".png": "PNG",
        ".jpg": "JPEG",
        ".jpeg": "JPEG",
        ".webp": "WEBP",
        ".tif": "TIFF",
        ".tiff": "TIFF",
        ".bmp": "BMP",
        ".avif": "AVIF",
        ".heic": "HEIF",
        ".heif": "HEIF",
    }
)
"""Output extension → Pillow format."""
_DEEP = ("PNG", "TIFF")
_NO_ALPHA = ("JPEG", "BMP")
_GREY_ALPHA = ("PNG", "TIFF")


def image_format(path: Path) -> str:
    """Pillow's format for an output path.

    Raises:
        OptionsError: the extension is none of `IMAGE_EXTENSIONS`.
    """
    made = IMAGE_EXTENSIONS.get(path.suffix.lower())
    if made is None:
        raise OptionsError(f"{path}: photos cannot be written as {path.suffix!r}; use {', '.join(IMAGE_EXTENSIONS)}")
    return made


def write_image(frame: Frame, path: Path, options: SwapOptions) -> None:
    """Write a photo with its EXIF, colour profile and alpha; 16 bit where PNG and TIFF allow.

    Raises:
        OptionsError: an extension that is not supported.
        OutputError: it cannot be written; nothing is left behind.
    """
    kind = image_format(path)
    photo = frame if isinstance(frame, ImageFrame) else _photo(frame)
    with atomic_output(path) as partial:
        try:
            if photo.peak == 65535 and kind in _DEEP:
                partial.write_bytes(_encode_deep(photo, kind))
            else:
                _save(photo, partial, kind, options)
        except (ValueError, KeyError, cv2.error) as error:
            raise OutputError(f"{path}: cannot be encoded ({error}); use another format") from error


class ImageWriter:
    """Takes the one frame of a photo and writes it on `close`."""

    def __init__(self, path: Path, options: SwapOptions) -> None:
        image_format(path)
        check_output(path)
        self.path, self.options = path, options
        self.notes: list[str] = []
        """What could not be kept."""
        self._frame: Frame | None = None

    def __enter__(self) -> ImageWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, frame: Frame) -> None:
        """Take the photo."""
        self._frame = frame

    def close(self) -> None:
        """Write the photo.

        Raises:
            OutputError: it cannot be written, or none was given.
        """
        frame, self._frame = self._frame, None
        if frame is None:
            raise OutputError(f"{self.path}: no photo was given to write")
        write_image(frame, self.path, self.options)
        if isinstance(frame, ImageFrame):
            self.notes += _losses(frame, image_format(self.path))

    def abort(self) -> None:
        """Write nothing."""
        self._frame = None


def _photo(frame: Frame) -> ImageFrame:
    rgb = frame.read(frame.box)
    return ImageFrame(rgb if rgb.dtype == np.uint8 else np.rint(rgb * 65535).astype(np.uint16))


def _losses(photo: ImageFrame, kind: str) -> list[str]:
    notes = []
    if photo.array.shape[2] in (2, 4) and kind in _NO_ALPHA:
        notes.append(f"{kind} holds no transparency: the photo was put on white")
    if photo.peak == 65535 and kind not in _DEEP:
        notes.append(f"{kind} holds 8 bits: the photo's 16 were rounded")
    return notes


def _encode_deep(photo: ImageFrame, kind: str) -> bytes:
    """16-bit PNG or TIFF. OpenCV's TIFF takes no profile or EXIF."""
    array = photo.array
    if array.shape[2] == 2:
        array = array[..., [0, 0, 0, 1]]
    elif array.shape[2] >= 3:
        array = cv2.cvtColor(array, cv2.COLOR_RGBA2BGRA if array.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    kinds, blocks = [], []
    if kind == "PNG":
        icc, exif = photo.meta.icc_for(photo.colors), photo.meta.exif
        for tag, block in ((cv2.IMAGE_METADATA_ICCP, icc), (cv2.IMAGE_METADATA_EXIF, exif.removeprefix(b"Exif\0\0"))):
            if block:
                kinds.append(tag)
                blocks.append(np.frombuffer(block, np.uint8))
    done, data = cv2.imencodeWithMetadata(".png" if kind == "PNG" else ".tiff", array, kinds, blocks)
    if not done:
        raise ValueError(f"16-bit {kind} of shape {array.shape}")
    return bytes(data.tobytes())


def _save(photo: ImageFrame, partial: Path, kind: str, options: SwapOptions) -> None:
    meta, array = photo.meta, _to_8_bit(photo.array)
    if array.shape[2] in (2, 4) and kind in _NO_ALPHA:
        array = _on_white(array)
    if array.shape[2] == 2 and kind not in _GREY_ALPHA:
        array = np.ascontiguousarray(array[..., [0, 0, 0, 1]])
    keywords: dict[str, Any] = {"icc_profile": meta.icc_for(photo.colors), "exif": meta.exif}
    if meta.dpi:
        keywords["dpi"] = meta.dpi
    if kind == "JPEG":
        keywords |= {"quality": options.image_quality, "subsampling": meta.subsampling, "exif": meta.jpeg_exif()}
    elif kind == "WEBP":
        # A method of 4 to 6 costs seconds on large photos; exact keeps the colours below transparent pixels.
        keywords |= {"quality": options.image_quality, "lossless": meta.lossless, "exact": True}
    elif kind in ("AVIF", "HEIF"):
        keywords |= {"quality": options.image_quality}
    elif kind == "TIFF":
        keywords |= {"compression": "tiff_lzw"}
    if kind == "HEIF":
        register_heif()
    keywords = {key: value for key, value in keywords.items() if value not in (None, b"")}
    Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(partial, format=kind, **keywords)


def _to_8_bit(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _on_white(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    alpha = array[..., -1:].astype(np.float32) / 255
    made = array[..., :-1] * alpha + 255 * (1 - alpha)
    return np.rint(made).astype(np.uint8)
