"""Photos and videos: opened by their content, read as frames, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from mien.errors import OptionsError
from mien.media.describe import video_info
from mien.media.encoders import VIDEO_EXTENSIONS
from mien.media.frame import Frame, ImageFrame, VideoFrame
from mien.media.image import ImageReader
from mien.media.image_writer import IMAGE_EXTENSIONS, ImageWriter
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.probe import probe
from mien.media.sequence import SequenceReader
from mien.media.sequence_writer import SEQUENCE_EXTENSIONS, SequenceWriter
from mien.media.video import VideoReader
from mien.media.video_writer import VideoWriter
from mien.options import AnalyzeOptions, SwapOptions

__all__ = [
    "IMAGE_EXTENSIONS",
    "SEQUENCE_EXTENSIONS",
    "VIDEO_EXTENSIONS",
    "Frame",
    "ImageFrame",
    "ImageReader",
    "ImageWriter",
    "MediaInfo",
    "Reader",
    "SequenceReader",
    "SequenceWriter",
    "VideoFrame",
    "VideoReader",
    "VideoWriter",
    "Writer",
    "open_reader",
    "open_writer",
    "probe",
]

Reader: TypeAlias = ImageReader | SequenceReader | VideoReader
"""Iterable of frames, any number of times; `.info`, `.kind`, `.frame_count`; a context manager."""
Writer: TypeAlias = ImageWriter | SequenceWriter | VideoWriter
"""`write(frame)`, `close()`, `abort()`, `.notes`; a context manager that aborts on an exception."""
_PLAYED = ("gif", "png")
"""Animations that FFmpeg reads as well, so that they can become videos."""
_UNTIMED = (".tif", ".tiff")


def open_reader(
    path: str | os.PathLike[str], options: AnalyzeOptions | None = None, *, output: Path | None = None
) -> Reader:
    """Open a photo (a clip of one frame), a sequence of photos (an animation, the pages of a TIFF) or a video.

    Args:
        options: `trim`, `max_seconds`, `fps`, `scale` and the limits are applied.
        output: what will be written; an animated GIF or PNG is read as a video where that is one.

    Raises:
        MediaError: the file is missing, empty, damaged, too large, or neither.
        OptionsError: options that do not fit the file.
    """
    limits = Limits.of(options)
    info = probe(path, limits)
    if info.kind == "image":
        return ImageReader(info.path, info, options)
    if info.kind == "sequence":
        if output is None or output.suffix.lower() not in VIDEO_EXTENSIONS:
            return SequenceReader(info.path, info, options)
        if info.container not in _PLAYED:
            names = ", ".join(SEQUENCE_EXTENSIONS)
            raise OptionsError(f"{path}: is a {info.container} sequence, {output} would be a video; use {names}")
        info = video_info(info.path, limits)
    return VideoReader(info.path, info, options)


def open_writer(path: str | os.PathLike[str], reader: Reader, options: SwapOptions | None = None) -> Writer:
    """Open an output for the reader's frames, in the format of its extension.

    Raises:
        OptionsError: an extension that is not supported, or that cannot hold what the reader gives.
        OutputError: the output plainly cannot be written.
    """
    path, options = Path(path), options or SwapOptions()
    suffix, source = path.suffix.lower(), reader.info.path
    if isinstance(reader, ImageReader):
        if suffix in VIDEO_EXTENSIONS:
            raise OptionsError(f"{source} is a photo, {path} would be a video; use {', '.join(IMAGE_EXTENSIONS)}")
        return ImageWriter(path, options)
    if isinstance(reader, SequenceReader):
        return SequenceWriter(path, reader, options)
    if suffix in SEQUENCE_EXTENSIONS and suffix not in _UNTIMED:
        return SequenceWriter(path, reader, options)
    if suffix in IMAGE_EXTENSIONS:
        names = ", ".join((*VIDEO_EXTENSIONS, *(s for s in SEQUENCE_EXTENSIONS if s not in _UNTIMED)))
        raise OptionsError(f"{source} is a video, {path} would be a photo; use {names}")
    return VideoWriter(path, reader, options)
