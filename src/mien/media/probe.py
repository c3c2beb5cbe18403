"""What a file is. Its content decides, never its extension."""

from __future__ import annotations

import os
from pathlib import Path

from mien.errors import MediaError
from mien.media.describe import video_info
from mien.media.image import image_info
from mien.media.info import ColorTags, MediaInfo
from mien.media.limits import Limits

__all__ = ["ColorTags", "MediaInfo", "probe"]


def probe(path: str | os.PathLike[str], limits: Limits | None = None) -> MediaInfo:
    """Describe a photo or a video.

    Raises:
        MediaError: the file is missing, empty, damaged, or neither; or asks for more than the limits allow.
    """
    path = Path(path)
    check_file(path)
    return image_info(path, limits) or video_info(path, limits or Limits())


def check_file(path: Path) -> None:
    """Raise MediaError unless `path` is a file with something in it."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise MediaError(f"{path}: cannot be opened ({error.strerror}); check the name") from error
    if not path.is_file():
        raise MediaError(f"{path}: is not a file; give a photo or a video")
    if size == 0:
        raise MediaError(f"{path}: is empty; get the file again")
    if not os.access(path, os.R_OK):
        raise MediaError(f"{path}: may not be read; change its permissions")
