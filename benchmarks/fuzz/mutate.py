"""Damage to a file's bytes, drawn from a random generator: the same generator state makes the same damage."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

Damage: TypeAlias = Callable[[bytearray, Random, bytes], None]
_PNG = b"\x89PNG\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_TELLING = (0, 1, 0x7F, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Values at which counters and sizes break."""
_LONGEST = 4096


def mutate(data: bytes, rng: Random, donor: bytes = b"") -> bytes:
    """The bytes with one to eight damages of random kinds.

    Args:
        donor: another file's bytes, that pieces are spliced in from.
    """
    if data[:4] == _ZIP and rng.random() < 0.7:
        return mutate_member(data, rng, donor)
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if made:
            rng.choice(DAMAGES)(made, rng, donor or data)
    if made[:8] == _PNG and rng.random() < 0.7:
        _mend_png(made)
    return bytes(made)


def _flip(made: bytearray, rng: Random, donor: bytes) -> None:
    for _ in range(rng.choice((1, 1, 4, 32))):
        made[_place(made, rng)] ^= 1 << rng.randrange(8)


def _overwrite(made: bytearray, rng: Random, donor: bytes) -> None:
    place = _place(made, rng)
    made[place : place + _length(made, rng)] = rng.randbytes(min(_length(made, rng), len(made) - place))


def _number(made: bytearray, rng: Random, donor: bytes) -> None:
    """A telling value of 1, 2 or 4 bytes, in either order of bytes."""
    size, order = rng.choice((1, 2, 4)), rng.choice(("<", ">"))
    value = rng.choice(_TELLING) & ((1 << 8 * size) - 1)
    place = _place(made, rng)
    made[place : place + size] = struct.pack(order + {1: "B", 2: "H", 4: "I"}[size], value)[: len(made) - place]


def _truncate(made: bytearray, rng: Random, donor: bytes) -> None:
    del made[_place(made, rng) :]


def _splice(made: bytearray, rng: Random, donor: bytes) -> None:
    """A piece of the donor over what is there."""
    begin = rng.randrange(len(donor))
    piece = donor[begin : begin + _length(donor, rng)]
    place = _place(made, rng)
    made[place : place + len(piece)] = piece


def _insert(made: bytearray, rng: Random, donor: bytes) -> None:
    """A piece of the file itself, or noise, between what is there."""
    begin, length = rng.randrange(len(made)), _length(made, rng)
    piece = bytes(made[begin : begin + length]) if rng.random() < 0.5 else rng.randbytes(length)
    place = _place(made, rng)
    made[place:place] = piece


def _zero(made: bytearray, rng: Random, donor: bytes) -> None:
    place = _place(made, rng)
    length = min(_length(made, rng), len(made) - place)
    made[place : place + length] = bytes(length)


def _drop(made: bytearray, rng: Random, donor: bytes) -> None:
    place = _place(made, rng)
    del made[place : place + _length(made, rng)]


DAMAGES: tuple[Damage, ...] = (_flip, _overwrite, _number, _truncate, _splice, _insert, _zero, _drop)


def _place(made: bytearray, rng: Random) -> int:
    """Headers lie at the start, and in some formats at the end: those places come up more often."""
    where, size = rng.random(), len(made)
    if where < 0.3:
        return rng.randrange(min(size, 512))
    if where < 0.45:
        return size - 1 - rng.randrange(min(size, 1024))
    return rng.randrange(size)


def _length(made: bytes | bytearray, rng: Random) -> int:
    """Short pieces more often than long ones."""
    return max(1, int(min(len(made), _LONGEST) ** rng.random()))


def _mend_png(made: bytearray) -> None:
    """Give every whole chunk its right checksum, so that the damage gets past the first look."""
    place = 8
    while place + 12 <= len(made):
        (length,) = struct.unpack_from(">I", made, place)
        end = place + 8 + length
        if end + 4 > len(made):
            return
        struct.pack_into(">I", made, end, zlib.crc32(made[place + 4 : end]))
        place = end + 4


def mutate_member(data: bytes, rng: Random, donor: bytes, *, drop: float = 0.0) -> bytes:
    """Damage in one file of a ZIP archive, which stays whole itself.

    Args:
        drop: probability that the file is left out instead.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    hit = rng.choice(sorted(members))
    if rng.random() < drop:
        del members[hit]
    else:
        members[hit] = mutate(members[hit], rng, donor)
    return pack(members)


def pack(members: Mapping[str, bytes]) -> bytes:
    """A ZIP archive of these files, the same bytes each time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()
