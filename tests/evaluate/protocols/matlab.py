"""Writes MATLAB files of level 5, by the published description of the format."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MATRIX, COMPRESSED = 14, 15
TYPES = {"u1": 2, "i4": 5, "u4": 6, "f8": 9, "u2": 4}


def write_mat(path: Path, variables: Mapping[str, Any], *, compressed: bool = True) -> Path:
    """Arrays as numbers, str as text, lists as column cells."""
    parts = [matrix(value, name) for name, value in variables.items()]
    if compressed:
        packed = [zlib.compress(part) for part in parts]
        parts = [struct.pack("<II", COMPRESSED, len(each)) + each for each in packed]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(parts))
    return path


def element(kind: str, data: bytes, code: int | None = None) -> bytes:
    code = TYPES[kind] if code is None else code
    if 0 < len(data) <= 4:
        return struct.pack("<HH", code, len(data)) + data.ljust(4, b"\0")
    return struct.pack("<II", code, len(data)) + data + b"\0" * (-len(data) % 8)


def matrix(value: Any, name: str = "") -> bytes:
    if isinstance(value, str):
        sort, shape = 4, (1, len(value))
        content = element("u2", np.array([ord(letter) for letter in value], "<u2").tobytes())
    elif isinstance(value, list):
        sort, shape, content = 1, (len(value), 1), b"".join(matrix(each) for each in value)
    else:
        array = np.asarray(value)
        # MATLAB stores whole numbers of a double array in the smallest type that holds them.
        stored = "u1" if (array == array.astype("u1")).all() else "f8"
        sort, shape = 6, array.shape
        content = element(stored, array.astype("<" + stored).tobytes(order="F"))
    head = element("u4", struct.pack("<II", sort, 0)) + element("i4", struct.pack("<ii", *shape))
    body = head + element("i1", name.encode(), 1) + content
    return struct.pack("<II", MATRIX, len(body)) + body
