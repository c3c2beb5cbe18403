"""Reads numbers, text and nested cells of MATLAB's level 5 files, as which WIDER FACE gives its difficulties.

MathWorks, "MAT-File Format", level 5: elements of a tag (type, bytes) and data padded to 8 bytes; small ones have both
counts in one word and their data in the next; variables may be compressed by zlib, each by itself.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mien.errors import InputError

_HEAD = 128
_INT8, _MATRIX, _COMPRESSED = 1, 14, 15
_TYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
    16: "u1",
    17: "u2",
}
_CELL, _CHAR, _NUMBERS = 1, 4, range(6, 16)
_DEEPEST = 8


def read_mat(path: Path) -> Mapping[str, Any]:
    """Variables by name: arrays of numbers, str for rows of text, and lists of these, in column order, for cells.

    Raises:
        InputError: it cannot be read, or holds anything else.
    """
    try:
        data = path.read_bytes()
        order = {b"IM": "<", b"MI": ">"}[data[126:128]]
        return dict(_variable(body, order) for body in _matrices(data[_HEAD:], order))
    except (OSError, KeyError, ValueError, IndexError, struct.error, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: is no MATLAB file of level 5 with cells and numbers ({error}); take it from the set's own archive"
        ) from error


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Type and data of each element."""
    place = 0
    while place + 8 <= len(data):
        first, size = struct.unpack_from(order + "II", data, place)
        if first >> 16:  # small: 2 bytes of size, 2 of type, 4 of data
            kind, size, start, end = first & 0xFFFF, first >> 16, place + 4, place + 8
        else:
            kind, start = first, place + 8
            end = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(data):
            raise ValueError("it ends early")
        yield kind, data[start : start + size]
        place = end


def _matrices(data: bytes, order: str) -> Iterator[bytes]:
    for kind, body in _elements(data, order):
        if kind == _COMPRESSED:
            kind, body = next(_elements(zlib.decompress(body), order))
        if kind == _MATRIX:
            yield body


def _variable(body: bytes, order: str, depth: int = 0) -> tuple[str, Any]:
    """Name and value of a matrix."""
    if not body:
        return "", np.zeros((0, 0))
    parts = _elements(body, order)
    (_, flags), (_, dimensions), (kind, name) = next(parts), next(parts), next(parts)
    shape = np.frombuffer(dimensions, order + "i4").tolist()
    count, sort = math.prod(shape), struct.unpack_from(order + "I", flags)[0] & 0xFF
    label = name.decode("ascii") if kind == _INT8 else ""
    if sort == _CELL and depth < _DEEPEST:
        cells = [_variable(cell, order, depth + 1)[1] for kind, cell in parts if kind == _MATRIX]
        if len(cells) != count:
            raise ValueError(f"a cell array of {len(cells)} cells, not {count}")
        return label, cells
    if sort != _CHAR and sort not in _NUMBERS:
        raise ValueError(f"a value of class {sort}")
    kind, content = next(parts)
    values = np.frombuffer(content, order + _TYPES[kind])
    if sort == _CHAR:
        return label, "".join(map(chr, values.tolist()))
    return label, values.reshape(shape, order="F").astype(np.float64)
