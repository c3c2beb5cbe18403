"""Animated WebP: its frames' times, and writing one picture after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from mien.media.image_webp import riff_chunk, riff_chunks
from mien.media.sequence_gif import changed_box
from mien.media.sequence_timeline import Timeline
from mien.types import Box, ByteArray

_ICC, _ALPHA, _EXIF, _XMP, _ANIMATION = 0x20, 0x10, 0x08, 0x04, 0x02
_REPLACE = 0x02
_LONGEST = (1 << 24) - 1
_SIDE = 16_383


def scan_webp(data: bytes | memoryview) -> Timeline | None:
    """The frames of a whole WebP file; None if it is no animation.

    Raises:
        ValueError: a frame is cut off.
    """
    view = memoryview(data)
    (size,) = struct.unpack_from("<I", view, 4)
    if size + 8 > len(view):
        raise ValueError("the file is cut off")
    width = height = plays = 0
    durations: list[Fraction | None] = []
    for kind, start, _ in riff_chunks(view, stop=size + 8):
        if kind == b"VP8X":
            width, height = _triple(view, start + 4) + 1, _triple(view, start + 7) + 1
        elif kind == b"ANIM":
            (plays,) = struct.unpack_from("<H", view, start + 4)
        elif kind == b"ANMF":
            durations.append(Fraction(_triple(view, start + 12), 1000))
    return Timeline(width, height, tuple(durations), plays) if durations else None


def webp_frames(path: Path) -> Iterator[ByteArray]:
    """(H, W, 3 or 4) whole pictures, by libwebp."""
    with Image.open(path, formats=["WEBP"]) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            image.load()
            yield np.asarray(image if image.mode in ("RGB", "RGBA") else image.convert("RGBA"))


class WebpMuxer:
    """Writes whole pictures as an animated WebP.

    Args:
        file: empty and seekable.
        size: (width, height).
        plays: how often the whole is shown; 0 is for ever.
        encode: a picture (h, w, 3 or 4) as a WebP of its own.
        cropped: write only the box that differs from the picture before, for lossless encoding.

    Raises:
        ValueError: a side that WebP cannot hold.
    """

    def __init__(
        self, file: BinaryIO, size: tuple[int, int], plays: int, encode: Callable[[ByteArray], bytes], *, cropped: bool
    ) -> None:
        if max(size) > _SIDE:
            raise ValueError(f"WebP holds at most {_SIDE} pixels a side")
        self._file, self._size, self._plays, self._encode, self._cropped = file, size, plays, encode, cropped
        self._shown: ByteArray | None = None
        self._alpha = False
        self._icc = self._exif = self._xmp = b""

    def start(self, *, icc: bytes | None, exif: bytes, xmp: bytes) -> None:
        """Write the header and what stands before the frames; EXIF and XMP come last."""
        self._icc, self._exif, self._xmp = icc or b"", exif.removeprefix(b"Exif\0\0"), xmp
        self._file.write(b"RIFF\0\0\0\0WEBP" + riff_chunk(b"VP8X", bytes(10)))
        if self._icc:
            self._file.write(riff_chunk(b"ICCP", self._icc))
        self._file.write(riff_chunk(b"ANIM", struct.pack("<IH", 0, self._plays & 0xFFFF)))

    def add(self, array: ByteArray, milliseconds: int) -> None:
        """Write one picture (H, W, 3 or 4)."""
        box = Box(0, 0, *self._size)
        if self._cropped and self._shown is not None:
            box = changed_box((array != self._shown).any(-1))
            box = Box(box.x0 & ~1, box.y0 & ~1, box.x1, box.y1)  # Places count in twos.
        single = self._encode(np.ascontiguousarray(array[box.y0 : box.y1, box.x0 : box.x1]))
        parts = [
            riff_chunk(kind, single[start:stop])
            for kind, start, stop in riff_chunks(single)
            if kind in (b"ALPH", b"VP8 ", b"VP8L")
        ]
        self._alpha |= array.shape[2] == 4
        sides = (box.x0 // 2, box.y0 // 2, box.width - 1, box.height - 1, min(milliseconds, _LONGEST))
        head = b"".join(struct.pack("<I", side)[:3] for side in sides) + bytes([_REPLACE])
        self._file.write(riff_chunk(b"ANMF", head + b"".join(parts)))
        self._shown = array

    def finish(self) -> None:
        """Write what comes last, and the sizes and flags at the start."""
        for kind, data in ((b"EXIF", self._exif), (b"XMP ", self._xmp)):
            if data:
                self._file.write(riff_chunk(kind, data))
        length = self._file.tell()
        if length > 2**32 - 2:
            raise ValueError("WebP holds at most 4 GB")
        flags = _ANIMATION | _ALPHA * self._alpha
        flags |= _ICC * bool(self._icc) | _EXIF * bool(self._exif) | _XMP * bool(self._xmp)
        sides = b"".join(struct.pack("<I", side - 1)[:3] for side in self._size)
        self._file.seek(0)
        self._file.write(b"RIFF" + struct.pack("<I", length - 8) + b"WEBP")
        self._file.write(riff_chunk(b"VP8X", struct.pack("<I", flags) + sides))
        self._file.seek(0, 2)


def _triple(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 3], "little")
