"""Animated PNG: its chunks, its pictures on their canvas, and writing one picture after the other."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.media.image_deep import png_pixels
from mien.media.image_open import quiet
from mien.media.image_pixels import promoted
from mien.media.image_png import SIGNATURE, chunk, chunks
from mien.media.sequence_gif import changed_box
from mien.media.sequence_timeline import Canvas, Disposal, Piece, Timeline
from mien.types import Box

_DISPOSAL: dict[int, Disposal] = {1: "clear", 2: "restore"}
_SHARED = (b"PLTE", b"tRNS")
_LIMIT = 65535


def scan_apng(data: bytes | memoryview) -> Timeline | None:
    """The pictures of a whole PNG file; None if it is no animation.

    Raises:
        ValueError: frames are missing.
    """
    view = memoryview(data)
    width = height = expected = plays = 0
    pieces: list[Piece] = []
    spans: list[tuple[int, int]] = []
    control: tuple[int, ...] | None = None
    at = len(SIGNATURE)
    for kind, body in chunks(view):
        start, at = at + 8, at + 12 + len(body)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", body)
        elif kind == b"acTL":
            expected, plays = struct.unpack(">II", body)
        elif kind in (b"fcTL", b"IEND"):
            if control is not None:
                pieces.append(_piece(control, spans, first=not pieces, size=(width, height)))
            control, spans = (struct.unpack(">IIIIIHHBB", body) if kind == b"fcTL" else None), []
        elif kind == b"IDAT" and control is not None:
            spans.append((start, start + len(body)))
        elif kind == b"fdAT":
            spans.append((start + 4, start + len(body)))
    if not expected:
        return None
    if len(pieces) < expected:
        raise ValueError(f"{len(pieces)} of {expected} frames are there")
    return Timeline(width, height, tuple(p.duration for p in pieces), plays, tuple(pieces))


def _piece(control: Sequence[int], spans: Sequence[tuple[int, int]], *, first: bool, size: tuple[int, int]) -> Piece:
    _, width, height, x, y, numerator, denominator, disposal, blend = control
    if not spans or not width or not height or x + width > size[0] or y + height > size[1]:
        raise ValueError("a frame is empty or beyond its canvas")
    how = _DISPOSAL.get(disposal, "keep")
    if first and how == "restore":
        how = "clear"
    time = Fraction(numerator, denominator or 100)
    return Piece(Box(x, y, x + width, y + height), time, how, blend == 1, tuple(spans))


def apng_frames(data: bytes | memoryview, timeline: Timeline, path: Path) -> Iterator[npt.NDArray[Any]]:
    """(H, W, C) uint8 or uint16 whole pictures."""
    view = memoryview(data)
    header, shared = b"", []
    for kind, body in chunks(view):
        if kind == b"IHDR":
            header = bytes(body)
        elif kind in _SHARED:
            shared.append(chunk(kind, bytes(body)))
        elif kind == b"IDAT":
            break
    canvas: Canvas | None = None
    for piece in timeline.pieces:
        samples = _samples(view, piece, header, shared, path)
        canvas = canvas or Canvas((timeline.height, timeline.width, samples.shape[2]), samples.dtype)
        yield canvas.draw(piece, samples)


def _samples(view: memoryview, piece: Piece, header: bytes, shared: Sequence[bytes], path: Path) -> npt.NDArray[Any]:
    header = struct.pack(">II", piece.box.width, piece.box.height) + header[8:]
    body = b"".join(bytes(view[start:stop]) for start, stop in piece.spans)
    single = b"".join((SIGNATURE, chunk(b"IHDR", header), *shared, chunk(b"IDAT", body), chunk(b"IEND", b"")))
    if header[8] == 16:
        array: npt.NDArray[Any] = png_pixels(single, path)
    else:
        with quiet(), Image.open(io.BytesIO(single), formats=["PNG"]) as image:
            image.load()
            array = promoted(image.convert("L") if image.mode == "1" else image, path)
    return array.reshape(*array.shape[:2], -1)


class ApngMuxer:
    """Writes whole pictures as an animated PNG: each as the box that differs from the one before.

    Args:
        file: empty and seekable.
        metadata: chunks that stand before the first picture.
        plays: how often the whole is shown; 0 is for ever.
    """

    def __init__(self, file: BinaryIO, metadata: Sequence[bytes], plays: int) -> None:
        self._file, self._metadata, self._plays = file, metadata, plays
        self._shown: npt.NDArray[Any] | None = None
        self._count = self._sequence = self._control = 0

    def add(self, array: npt.NDArray[Any], png: Any, duration: Fraction) -> None:
        """Write one picture.

        Args:
            array: (H, W, C), of the same C and type for all.
            png: makes a PNG file of a picture (h, w, C).
            duration: seconds.
        """
        box = Box(0, 0, array.shape[1], array.shape[0])
        if self._shown is not None:
            box = changed_box((array != self._shown).any(-1))
        single: bytes = png(np.ascontiguousarray(array[box.y0 : box.y1, box.x0 : box.x1]))
        parts = {kind: bytes(body) for kind, body in chunks(single) if kind == b"IHDR"}
        if self._shown is None:
            self._file.write(SIGNATURE + chunk(b"IHDR", parts[b"IHDR"]))
            self._control = self._file.tell()
            self._file.write(chunk(b"acTL", struct.pack(">II", 0, self._plays)))
            self._file.write(b"".join(self._metadata))
        time = duration.limit_denominator(_LIMIT)
        if time.numerator > _LIMIT:
            time = Fraction(min(_LIMIT, round(time)))
        place = (box.width, box.height, box.x0, box.y0, time.numerator, time.denominator)
        self._file.write(chunk(b"fcTL", struct.pack(">IIIIIHHBB", self._next(), *place, 0, 0)))
        for kind, body in chunks(single):
            if kind == b"IDAT" and self._shown is None:
                self._file.write(chunk(b"IDAT", bytes(body)))
            elif kind == b"IDAT":
                self._file.write(chunk(b"fdAT", struct.pack(">I", self._next()) + bytes(body)))
        self._shown = array
        self._count += 1

    def finish(self) -> None:
        """Write the end, and the number of frames where it belongs."""
        self._file.write(chunk(b"IEND", b""))
        self._file.seek(self._control)
        self._file.write(chunk(b"acTL", struct.pack(">II", self._count, self._plays)))
        self._file.seek(0, 2)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence - 1
