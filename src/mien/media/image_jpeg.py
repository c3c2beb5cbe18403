"""How a JPEG was compressed, and settings that are at least as fine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from PIL import Image, ImageFile, JpegImagePlugin

_buffer = Lock()


@dataclass(frozen=True, slots=True)
class JpegSettings:
    """Compression of a JPEG; the default for photos that were none."""

    tables: tuple[tuple[int, ...], ...] = ()
    """For each component its quantisation table, 64 steps."""
    subsampling: int = 0
    """Pillow's: 0 4:4:4, 1 4:2:2, 2 4:2:0."""
    progressive: bool = False
    keep_rgb: bool = False
    """The components are R, G, B."""
    comment: bytes = b""

    def keywords(self, quality: int, mode: str) -> dict[str, Any]:
        """Pillow's keywords for a JPEG as fine as `quality` asks for, and never coarser than this one was."""
        asked = _tables(quality, mode)
        theirs = self.tables if len(self.tables) >= len(asked) else ()
        tables = [
            [min(pair) for pair in zip(table, theirs[min(i, len(theirs) - 1)], strict=True)] if theirs else list(table)
            for i, table in enumerate(asked)
        ]
        keywords: dict[str, Any] = {"qtables": tables, "subsampling": self.subsampling}
        if self.progressive:
            keywords["progressive"] = True
        if self.keep_rgb and mode == "RGB":
            keywords |= {"keep_rgb": True, "subsampling": 0}
        if self.comment:
            keywords["comment"] = self.comment
        return keywords


@contextmanager
def room_for(image: Image.Image) -> Iterator[None]:
    """Lets Pillow write a progressive JPEG of any tables: it must fit into its buffer, which else is too small."""
    with _buffer:
        before = ImageFile.MAXBLOCK
        ImageFile.MAXBLOCK = max(before, image.width * image.height * len(image.getbands()) * 2)
        try:
            yield
        finally:
            ImageFile.MAXBLOCK = before


def jpeg_settings(image: Image.Image) -> JpegSettings:
    """Compression of an opened photo."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return JpegSettings()
    layers: Sequence[tuple[int, int, int, int]] = image.layer
    tables = tuple(tuple(image.quantization.get(layer[3], ())) for layer in layers)
    comment = image.info.get("comment")
    return JpegSettings(
        tables=tables if all(len(table) == 64 for table in tables) else (),
        subsampling=max(JpegImagePlugin.get_sampling(image), 0),
        progressive=bool(image.info.get("progressive")),
        keep_rgb=len(layers) == 3 and (_is_rgb(layers) or image.info.get("adobe_transform") == 0),
        comment=comment if isinstance(comment, bytes) else b"",
    )


def _is_rgb(layers: Sequence[tuple[int, int, int, int]]) -> bool:
    return bytes(layer[0] for layer in layers) == b"RGB"


def _tables(quality: int, mode: str) -> list[list[int]]:
    """Pillow's tables for a quality, one for each component up to chroma."""
    file = io.BytesIO()
    Image.new(mode, (1, 1)).save(file, "JPEG", quality=quality)
    with Image.open(file, formats=["JPEG"]) as image:
        assert isinstance(image, JpegImagePlugin.JpegImageFile)
        tables = image.quantization
    return [list(tables[key]) for key in sorted(tables)]
