"""Interlaced frames: two moments, each in every other row, with chroma rows of its own.

In 4:2:0 the chroma rows of a frame belong to the fields in turn. Read as rows of one picture, the colours of the
two moments would mix, two rows up and down of where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mien.media import planes
from mien.media.planes import Plane, PlaneFormat
from mien.types import Box, FloatArray, Image

_SITINGS = (0.25, 0.75)
"""Where chroma sits in its cell of two rows of the upper and the lower field (MPEG-2, H.264, H.265)."""


def apart(interlaced: bool, layout: PlaneFormat, height: int) -> bool:
    """Whether a frame of that height is read and written by fields: both need whole chroma rows."""
    return interlaced and layout.shift_y == 1 and height % 4 == 0


def read(views: Sequence[Plane], layout: PlaneFormat, box: Box) -> Image:
    """As `planes.read`."""
    made = np.empty((box.height, box.width, 3), np.uint8 if layout.depth <= 8 else np.float32)
    for parity, rows, part in _fields(box):
        made[rows] = planes.read(*_field(views, layout, parity), part)
    return made


def write(views: Sequence[Plane], layout: PlaneFormat, box: Box, rgb: FloatArray, mask: FloatArray) -> None:
    """As `planes.write`; a chroma sample may change where the mask is above 0 in its cell of its field."""
    for parity, rows, part in _fields(box):
        field, mine = _field(views, layout, parity)
        planes.write(field, mine, part, np.ascontiguousarray(rgb[rows]), np.ascontiguousarray(mask[rows]))


def fill(views: Sequence[Plane], layout: PlaneFormat, rgb: FloatArray) -> None:
    """As `planes.fill`."""
    for parity in (0, 1):
        planes.fill(*_field(views, layout, parity), np.ascontiguousarray(rgb[parity::2]))


def _field(views: Sequence[Plane], layout: PlaneFormat, parity: int) -> tuple[list[Plane], PlaneFormat]:
    return [view[parity::2] for view in views], replace(layout, siting_y=_SITINGS[parity])


def _fields(box: Box) -> Iterator[tuple[int, slice, Box]]:
    """(field, rows of the box that are its, the box in the field's own rows) of the fields in the box."""
    for parity in (0, 1):
        first = (parity - box.y0) % 2
        if first < box.height:
            part = Box(box.x0, (box.y0 + first) // 2, box.x1, (box.y1 - parity + 1) // 2)
            yield parity, slice(first, None, 2), part
