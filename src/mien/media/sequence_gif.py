"""GIF: its blocks, its pictures on their canvas, and writing one picture after the other."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import BinaryIO

import numpy as np
from PIL import Image

from mien.media.image_open import quiet
from mien.media.image_palette import Mask, fill, packed, unpacked
from mien.media.sequence_timeline import Canvas, Disposal, Piece, Timeline
from mien.types import Box, ByteArray

_HUNDRED = 100
_EXTENSION, _PICTURE, _END = 0x21, 0x2C, 0x3B
_CONTROL, _APPLICATION = 0xF9, 0xFF
_DISPOSAL: dict[int, Disposal] = {2: "clear", 3: "restore"}
_SHORTEST = 2
"""Hundredths of a second; what is shorter, viewers show for ten times as long."""


def scan_gif(data: bytes | memoryview) -> Timeline:
    """The pictures of a whole GIF file.

    Raises:
        ValueError: a picture is cut off, or there is none.
    """
    try:
        return _scan(memoryview(data))
    except (IndexError, struct.error) as error:
        raise ValueError("a picture is cut off") from error


def _scan(data: memoryview) -> Timeline:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, shared = 13, None
    if flags & 0x80:
        at = 13 + (6 << (flags & 7))
        shared = (13, at)
    plays, pieces = 1, list[Piece]()
    delay, disposal, clear = 0, 0, None
    notes: tuple[str, ...] = ()
    while True:
        if at == len(data):
            notes = ("the GIF has no end mark; frames after its last one may be missing",)
            break
        kind = data[at]
        if kind == _END:
            break
        if kind == _EXTENSION:
            label, body = data[at + 1], at + 3
            if label == _CONTROL:
                packed_flags, delay, index = struct.unpack_from("<BHB", data, body)
                disposal, clear = packed_flags >> 2 & 7, index if packed_flags & 1 else None
            elif label == _APPLICATION and bytes(data[body : body + 11]) == b"NETSCAPE2.0" and data[body + 12] == 1:
                (repeats,) = struct.unpack_from("<H", data, body + 13)
                plays = repeats + 1 if repeats else 0
            at = _after_blocks(data, at + 2)
        elif kind == _PICTURE:
            x, y, w, h, flags = struct.unpack_from("<HHHHB", data, at + 1)
            palette, stop = shared, at + 10
            if flags & 0x80:
                palette = (stop, stop + (6 << (flags & 7)))
                stop = palette[1]
            end = _after_blocks(data, stop + 1)
            if not pieces:
                width, height = max(width, x + w), max(height, y + h)
            box = Box(x, y, min(x + w, width), min(y + h, height))
            how = _DISPOSAL.get(disposal, "keep")
            spans = ((at, at + 10), (stop, end))
            pieces.append(Piece(box, Fraction(delay, _HUNDRED), how, True, spans, clear, palette))
            at, delay, disposal, clear = end, 0, 0, None
        elif kind == 0:
            at += 1
        else:
            raise ValueError(f"block {kind:#x} is none that GIF has")
    if not pieces:
        raise ValueError("it holds no picture")
    return Timeline(width, height, tuple(p.duration for p in pieces), plays, tuple(pieces), notes=notes)


def _after_blocks(data: memoryview, at: int) -> int:
    """Where the sub-blocks that begin at `at` end."""
    while size := data[at]:
        at += size + 1
    return at + 1


def gif_frames(data: bytes | memoryview, timeline: Timeline) -> Iterator[ByteArray]:
    """(H, W, 4) whole pictures. What is cleared becomes transparent, as in every browser."""
    data = memoryview(data)
    canvas = Canvas((timeline.height, timeline.width, 4), np.uint8)
    for piece in timeline.pieces:
        yield canvas.draw(piece, _samples(data, piece))


def _samples(data: memoryview, piece: Piece) -> ByteArray:
    (head, body), table = piece.spans, np.zeros((256, 4), np.uint8)
    if piece.palette is not None:
        colors = np.frombuffer(data[slice(*piece.palette)], np.uint8).reshape(-1, 3)
    else:
        colors = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    table[: len(colors), :3], table[:, 3] = colors, 255
    if piece.clear is not None:
        table[piece.clear] = 0
    width, height, flags = struct.unpack_from("<HHB", data, head[0] + 5)
    # Alone and with a grey ramp for a palette, the picture's grey levels are its indices.
    single = b"".join(
        (
            b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0),
            b"," + struct.pack("<HHHHB", 0, 0, width, height, flags & 0x40),
            data[slice(*body)],
            b";",
        )
    )
    with quiet(), Image.open(io.BytesIO(single), formats=["GIF"]) as image:
        image.load()
        indices = np.asarray(image.convert("L") if image.mode != "L" else image)
    return np.asarray(table[indices])


class GifMuxer:
    """Writes whole pictures as a GIF: each as the box that differs from the one before, with its own palette.

    Args:
        file: empty and seekable.
        plays: how often the whole is shown; 0 is for ever.
    """

    def __init__(self, file: BinaryIO, size: tuple[int, int], plays: int) -> None:
        self._file, (self._width, self._height) = file, size
        self._shown: ByteArray | None = None
        self._waiting: tuple[ByteArray, ByteArray | None, int] | None = None
        self.reduced = self.hardened = self.fast = 0
        """Frames with more colours, with half transparency, or shorter than a GIF can show."""
        file.write(b"GIF89a" + struct.pack("<HHBBB", *size, 0x70, 0, 0))
        if plays != 1:
            file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01" + struct.pack("<HB", max(0, plays - 1) & 0xFFFF, 0))

    def add(self, array: ByteArray, original: ByteArray | None, hundredths: int) -> None:
        """Write one picture.

        Args:
            array: (H, W, 4).
            original: the picture before the swap; where it is equal, colours are kept first.
            hundredths: of a second that it is shown.
        """
        if ((array[..., 3] > 0) & (array[..., 3] < 255)).any():
            self.hardened += 1
        array = np.where(array[..., 3:] >= 128, array | np.array([0, 0, 0, 255], np.uint8), np.uint8(0))
        self.fast += hundredths < _SHORTEST
        if self._waiting is not None:
            self._write(*self._waiting, following=array)
        self._waiting = (array, original, hundredths)

    def finish(self) -> None:
        """Write what is left, and the end mark."""
        if self._waiting is not None:
            self._write(*self._waiting, following=None)
        self._waiting = None
        self._file.write(b";")

    def _write(self, array: ByteArray, original: ByteArray | None, time: int, following: ByteArray | None) -> None:
        # GIF cannot make single pixels transparent again, only clear a whole picture.
        clears = following is not None and bool(((array[..., 3] > 0) & (following[..., 3] == 0)).any())
        new = array[..., 3] > 0 if self._shown is None else (array != self._shown).any(-1)
        box = Box(0, 0, self._width, self._height) if clears or self._shown is None else changed_box(new)
        part = (slice(box.y0, box.y1), slice(box.x0, box.x1))
        needed = array[part][..., 3] > 0 if clears else new[part]
        indices, palette = self._indexed(array[part], None if original is None else original[part], needed)
        self._picture(indices, palette, box, time, 2 if clears else 1)
        self._shown = np.zeros_like(array) if clears else array

    def _indexed(self, array: ByteArray, original: ByteArray | None, needed: Mask) -> tuple[ByteArray, ByteArray]:
        """Indices of the pixels that are needed, 0 (transparent) for the others, and the palette (256, 4)."""
        palette = np.zeros((256, 4), np.uint8)
        palette[1:, 3] = 255
        kept = needed & (array == original).all(-1) if original is not None else needed & False
        colors, places = np.unique(packed(array[kept][:, :3]), return_inverse=True)
        if len(colors) > 255:
            kept, colors = needed & False, colors[:0]
        indices = np.where(needed, np.uint8(255), np.uint8(0))
        if len(colors):
            palette[1 : 1 + len(colors), :3] = unpacked(colors)
            indices[kept] = places.astype(np.uint8) + 1
        rest = needed & ~kept
        if rest.any():
            free = range(1 + len(colors), 256)
            exact = fill(indices, palette, free, np.ascontiguousarray(array[..., :3]), rest)
            self.reduced += not exact
        return indices, palette

    def _picture(self, indices: ByteArray, palette: ByteArray, box: Box, time: int, disposal: int) -> None:
        bits = max(1, int(indices.max()).bit_length())
        control = struct.pack("<BBBBHBB", _EXTENSION, _CONTROL, 4, disposal << 2 | 1, time, 0, 0)
        head = struct.pack("<BHHHHB", _PICTURE, box.x0, box.y0, box.width, box.height, 0x80 | bits - 1)
        file = io.BytesIO()
        Image.fromarray(indices).save(file, "GIF", optimize=False, interlace=0)
        single = file.getbuffer()
        (start, stop) = scan_gif(single).pieces[0].spans[1]
        self._file.write(control + head + palette[: 1 << bits, :3].tobytes() + bytes(single[start:stop]))


def changed_box(mask: Mask) -> Box:
    """The smallest box that holds what is set in (H, W); one pixel if nothing is."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return Box(0, 0, 1, 1)
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
