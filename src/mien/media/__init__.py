"""Photos and videos: opened by their content, read as frames, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from mien.errors import OptionsError
from mien.media.encoders import VIDEO_EXTENSIONS
from mien.media.frame import Frame, ImageFrame, VideoFrame
from mien.media.image import ImageReader
from mien.media.image_writer import IMAGE_EXTENSIONS, ImageWriter
from mien.media.info import MediaInfo
from mien.media.probe import probe
from mien.media.video import VideoReader
from mien.media.video_writer import VideoWriter
from mien.options import SwapOptions

__all__ = [
    "IMAGE_EXTENSIONS",
    "VIDEO_EXTENSIONS",
    "Frame",
    "ImageFrame",
    "ImageReader",
    "ImageWriter",
    "MediaInfo",
    "Reader",
    "VideoFrame",
    "VideoReader",
    "VideoWriter",
    "Writer",
    "open_reader",
    "open_writer",
    "probe",
]

Reader: TypeAlias = ImageReader | VideoReader
"""Iterable of frames, any number of times; `.info`, `.kind`, `.frame_count`; a context manager."""
Writer: TypeAlias = ImageWriter | VideoWriter
"""`write(frame)`, `close()`, `abort()`, `.notes`; a context manager that aborts on an exception."""


def open_reader(path: str | os.PathLike[str]) -> Reader:
    """Open a photo (a clip of one frame) or a video.

    Raises:
        MediaError: the file is missing, empty, damaged, or neither.
    """
    info = probe(path)
    return ImageReader(info.path, info) if info.kind == "image" else VideoReader(info.path, info)


def open_writer(path: str | os.PathLike[str], reader: Reader, options: SwapOptions | None = None) -> Writer:
    """Open an output for the reader's frames, in the format of its extension.

    Raises:
        OptionsError: an extension that is not supported, or a photo for a video or the other way round.
        OutputError: the output plainly cannot be written.
    """
    path, options = Path(path), options or SwapOptions()
    suffix, source = path.suffix.lower(), reader.info.path
    if isinstance(reader, ImageReader):
        if suffix in VIDEO_EXTENSIONS:
            raise OptionsError(f"{source} is a photo, {path} would be a video; use {', '.join(IMAGE_EXTENSIONS)}")
        return ImageWriter(path, options)
    if suffix in IMAGE_EXTENSIONS:
        raise OptionsError(f"{source} is a video, {path} would be a photo; use {', '.join(VIDEO_EXTENSIONS)}")
    return VideoWriter(path, reader, options)
