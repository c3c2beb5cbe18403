"""PNG chunk by chunk: what stands beside the pixels is kept as it is, whoever encodes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR = (b"gAMA", b"cHRM", b"sRGB", b"cICP", b"mDCV", b"cLLI")
_SAMPLES = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_TEXT = (b"tEXt", b"zTXt", b"iTXt")
# Text that only repeats what is written as EXIF or XMP, with the old orientation in it.
_REPEATED = (b"Raw profile type exif\0", b"Raw profile type APP1\0", b"Raw profile type xmp\0", b"XML:com.adobe.xmp\0")
_INCH = 0.0254
_PART = 1 << 20
"""Bytes that are unpacked at a time."""
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column and row, and steps, of each pass of an interlaced PNG."""


def chunk(kind: bytes, data: bytes) -> bytes:
    """One chunk with its length and check sum."""
    return b"".join((struct.pack(">I", len(data)), kind, data, struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))))


def chunks(data: bytes | memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """(kind, payload) of each chunk of a whole file.

    Raises:
        ValueError: a chunk is cut off.
    """
    view, at = memoryview(data), len(SIGNATURE)
    while at < len(view):
        if at + 12 > len(view):
            raise ValueError("a chunk is cut off")
        (size,) = struct.unpack_from(">I", view, at)
        kind, at = bytes(view[at + 4 : at + 8]), at + 8
        if at + size + 4 > len(view):
            raise ValueError("a chunk is cut off")
        yield kind, view[at : at + size]
        at += size + 4
        if kind == b"IEND":
            return


def kept_chunks(data: bytes | memoryview) -> tuple[tuple[bytes, bytes], ...]:
    """The chunks of a whole PNG that say how its colours are meant, and its text."""
    found = ((kind, bytes(body)) for kind, body in chunks(data) if kind in _COLOR or kind in _TEXT)
    return tuple((kind, body) for kind, body in found if not body.startswith(_REPEATED))


def samples_alone(data: bytes | memoryview) -> bytes:
    """A whole PNG with nothing but what its samples need.

    Raises:
        ValueError: these are damaged: check sums do not fit, or they are too few.
    """
    view, parts, bodies, at = memoryview(data), [SIGNATURE], list[memoryview](), len(SIGNATURE)
    for kind, body in chunks(view):
        size = len(body) + 12
        if kind in _SAMPLES:
            if int.from_bytes(view[at + size - 4 : at + size]) != zlib.crc32(body, zlib.crc32(kind)):
                raise ValueError(f"the check sum of {kind.decode()} is wrong")
            parts.append(bytes(view[at : at + size]))
        if kind == b"IDAT":
            bodies.append(body)
        at += size
    _check_samples(bodies, _size_of_samples(view))
    return b"".join(parts)


def _check_samples(bodies: Iterable[memoryview], wanted: int) -> None:
    """libpng only warns of some damage, and prints it; zlib tells."""
    inflater, found = zlib.decompressobj(), 0
    for body in bodies:
        rest: bytes | memoryview = body
        while rest and not inflater.eof and found <= wanted:
            try:
                found += len(inflater.decompress(rest, _PART))
            except zlib.error as error:
                raise ValueError(f"its samples are damaged: {error}") from error
            rest = inflater.unconsumed_tail
    if not inflater.eof or found != wanted:
        raise ValueError("its samples are not as many as its size says")


def _size_of_samples(data: memoryview) -> int:
    """Bytes of a PNG's samples before compression: each row has one for its filter."""
    width, height, depth, color, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, len(SIGNATURE) + 8)
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(color, 1)
    total = 0
    for x, y, step_x, step_y in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = -(-(width - x) // step_x), -(-(height - y) // step_y)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def metadata_chunks(
    kept: Iterable[tuple[bytes, bytes]],
    *,
    icc: bytes | None,
    exif: bytes,
    xmp: bytes,
    dpi: tuple[float, float] | None,
) -> list[bytes]:
    """What stands between a PNG's header and its pixels."""
    made = [chunk(kind, data) for kind, data in kept if not (icc and kind in (b"sRGB", b"cICP"))]
    if icc:
        made.append(chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(icc)))
    if dpi:
        per_metre = [max(0, min(round(value / _INCH), 2**31 - 1)) for value in dpi]
        made.append(chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1)))
    if exif:
        made.append(chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")))
    if xmp:
        made.append(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp))
    return made


def with_metadata(png: bytes, metadata: Iterable[bytes]) -> bytes:
    """An encoded PNG with its metadata replaced."""
    parts, placed = [SIGNATURE], False
    for kind, data in chunks(png):
        if kind in (b"PLTE", b"tRNS", b"IDAT", b"IEND") and not placed:
            parts.extend(metadata)
            placed = True
        if kind in _SAMPLES:
            parts.append(chunk(kind, bytes(data)))
    return b"".join(parts)


def encode_grey_alpha_16(array: npt.NDArray[np.uint16]) -> bytes:
    """(H, W, 2) as PNG, which neither Pillow nor OpenCV can write."""
    height, width = array.shape[:2]
    picture = av.VideoFrame(width, height, "ya16be")
    plane = picture.planes[0]
    rows: npt.NDArray[Any] = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)  # type: ignore[call-overload]
    rows[:, : width * 4] = np.ascontiguousarray(array, ">u2").view(np.uint8).reshape(height, width * 4)
    encoder = av.CodecContext.create("png", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = width, height, "ya16be", Fraction(1)
    encoder.options = {"pred": "mixed"}
    return b"".join(bytes(packet) for packet in (*encoder.encode(picture), *encoder.encode(None)))


def grey_key_16(data: bytes | memoryview) -> int | None:
    """The transparent code of a 16-bit grey PNG without alpha, which OpenCV leaves out; None where there is none."""
    for kind, body in chunks(data):
        if kind == b"tRNS":
            return int.from_bytes(body[:2], "big")
        if kind == b"IDAT":
            return None
    return None
