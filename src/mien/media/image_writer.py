"""Writing photos, whole or not at all, in the format of the output's extension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import cv2

from mien.errors import OptionsError, OutputError
from mien.media.atomic import atomic_output, check_output
from mien.media.frame import Frame, ImageFrame
from mien.media.image_encode import encode, losses
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
        ".gif": "GIF",
        ".avif": "AVIF",
        ".heic": "HEIF",
        ".heif": "HEIF",
    }
)
"""Output extension → Pillow format."""


def image_format(path: Path) -> str:
    """Pillow's format for an output path.

    Raises:
        OptionsError: the extension is none of `IMAGE_EXTENSIONS`.
    """
    made = IMAGE_EXTENSIONS.get(path.suffix.lower())
    if made is None:
        raise OptionsError(f"{path}: photos cannot be written as {path.suffix!r}; use {', '.join(IMAGE_EXTENSIONS)}")
    return made


def write_image(photo: ImageFrame, path: Path, options: SwapOptions) -> None:
    """Write a photo in its own mode and depth where the format holds them, with its metadata.

    Raises:
        OptionsError: an extension that is not supported.
        OutputError: it cannot be written; nothing is left behind.
    """
    kind = image_format(path)
    with atomic_output(path) as partial:
        try:
            partial.write_bytes(encode(photo, kind, options.image_quality))
        except (ValueError, KeyError, RuntimeError, cv2.error) as error:
            raise OutputError(f"{path}: cannot be encoded ({error}); use another format") from error


class ImageWriter:
    """Takes the one frame of a photo and writes it on `close`."""

    def __init__(self, path: Path, options: SwapOptions) -> None:
        self._kind = image_format(path)
        check_output(path)
        self.path, self.options = path, options
        self.notes: list[str] = []
        """What could not be kept."""
        self._frame: ImageFrame | None = None

    def __enter__(self) -> ImageWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, frame: Frame) -> None:
        """Take the photo."""
        if not isinstance(frame, ImageFrame):
            raise OptionsError(f"{self.path}: a video's frame is no photo; write it to a video")
        self._frame = frame

    def close(self) -> None:
        """Write the photo.

        Raises:
            OutputError: it cannot be written, or none was given.
        """
        photo, self._frame = self._frame, None
        if photo is None:
            raise OutputError(f"{self.path}: no photo was given to write")
        write_image(photo, self.path, self.options)
        self.notes += losses(photo, self._kind)

    def abort(self) -> None:
        """Write nothing."""
        self._frame = None
