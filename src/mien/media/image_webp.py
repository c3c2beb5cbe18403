"""WebP chunk by chunk, and how finely one was compressed."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_LOSSY, _LOSSLESS = b"VP8 ", b"VP8L"
_EVEN_ODDS = 128


@dataclass(frozen=True, slots=True)
class WebpCompression:
    """How a WebP was compressed; the default for photos that were none."""

    lossless: bool = False
    quality: int = 0
    """libwebp's 0–100, estimated from the steps; 0 where unknown."""


def riff_chunks(data: bytes | memoryview, start: int = 12, stop: int | None = None) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, stop) of each chunk in a WebP file, or in part of one.

    Raises:
        ValueError: a chunk is cut off.
    """
    view = memoryview(data)
    end = len(view) if stop is None else stop
    while start + 8 <= end:
        kind = bytes(view[start : start + 4])
        (size,) = struct.unpack_from("<I", view, start + 4)
        first = start + 8
        if first + size > end:
            raise ValueError("a chunk is cut off")
        yield kind, first, first + size
        start = first + size + size % 2


def riff_chunk(kind: bytes, data: bytes) -> bytes:
    """One chunk."""
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def pictures(data: bytes | memoryview) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, stop) of the chunks that hold samples, those of an animation's frames included."""
    for kind, start, stop in riff_chunks(data):
        if kind == b"ANMF":
            yield from (part for part in riff_chunks(data, start + 16, stop) if part[0] in (_LOSSY, _LOSSLESS))
        elif kind in (_LOSSY, _LOSSLESS):
            yield kind, start, stop


def compression(data: bytes | memoryview) -> WebpCompression:
    """Compression of a whole WebP file; of an animation, the finest of its frames."""
    view, kinds, quality = memoryview(data), set[bytes](), 0
    for kind, start, stop in pictures(view):
        kinds.add(kind)
        if kind == _LOSSY:
            quality = max(quality, lossy_quality(bytes(view[start : min(stop, start + 256)])))
    return WebpCompression(kinds == {_LOSSLESS}, quality)


def lossy_quality(frame: bytes) -> int:
    """libwebp's quality of a VP8 key frame, from its quantisers; 0 if it is none. See RFC 6386, 9.2–9.6."""
    if len(frame) < 14 or frame[0] & 1 or frame[3:6] != b"\x9d\x01\x2a":
        return 0
    bools = _Bools(frame[10:])
    bools.number(2)
    segments, absolute = list[int](), False
    if bools.number(1):
        has_map, has_features = bools.number(1), bools.number(1)
        if has_features:
            absolute = bool(bools.number(1))
            segments = [bools.optional(7) for _ in range(4)]
            for _ in range(4):
                bools.optional(6)
        if has_map:
            for _ in range(3):
                if bools.number(1):
                    bools.number(8)
    bools.number(10)
    if bools.number(1) and bools.number(1):
        for _ in range(8):
            bools.optional(6)
    bools.number(2)
    base = bools.number(7)
    steps = [step if absolute else base + step for step in segments] or [base]
    mean = sum(steps) / len(steps)  # libwebp spreads the segments about the step that was asked for.
    linear = (1 - max(0, min(mean, 127)) / 127) ** 3
    return math.ceil(100 * (linear * 1.5 if linear < 0.5 else (linear + 1) / 2) - 1e-9)


class _Bools:
    """VP8's arithmetic decoder."""

    def __init__(self, data: bytes) -> None:
        self._value, self._next = int.from_bytes(data[:2], "big"), iter(data[2:])
        self._range, self._bits = 255, 0

    def number(self, bits: int) -> int:
        """An unsigned number whose bits are as likely 0 as 1."""
        made = 0
        for _ in range(bits):
            made = made << 1 | self._bit()
        return made

    def optional(self, bits: int) -> int:
        """A signed number, or 0 where none is given."""
        if not self.number(1):
            return 0
        value = self.number(bits)
        return -value if self.number(1) else value

    def _bit(self) -> int:
        split = 1 + ((self._range - 1) * _EVEN_ODDS >> 8)
        bit = int(self._value >= split << 8)
        if bit:
            self._range -= split
            self._value -= split << 8
        else:
            self._range = split
        while self._range < 128:
            self._value, self._range = self._value << 1, self._range << 1
            self._bits += 1
            if self._bits == 8:
                self._bits = 0
                self._value |= next(self._next, 0)
        return bit
