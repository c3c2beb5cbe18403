"""Where to look in a frame: the pictures that the detector sees and the crops that the landmarker sees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np

from mien.color import as_bytes
from mien.geometry import invert, scale_of, transform, warp
from mien.mesh import EYE_CORNERS
from mien.types import Box, ByteArray, Detection, FloatArray, Image

TILE, OVERLAP = 1280, 192
"""Larger looks are cut into tiles, so that memory does not grow with the frame."""
EXTENT = 1.5
"""Side of a landmark crop over the extent of the mesh."""


class Frame(Protocol):
    """What the finder needs of a frame; `media.frame.Frame` and `ArrayFrame` have it."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def height(self) -> int:
        """Rows."""

    def thumbnail(self, side: int) -> ByteArray:
        """The whole frame as RGB uint8, longest side at most `side`, never enlarged."""

    def read(self, box: Box) -> Image:
        """RGB of a box inside the frame, uint8 or float32 0–1."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFrame:
    """An RGB array as a frame."""

    image: Image

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.image.shape[0])

    def thumbnail(self, side: int) -> ByteArray:
        """RGB uint8, longest side at most `side`."""
        scale = min(1.0, side / max(self.width, self.height))
        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        return as_bytes(cv2.resize(self.image, size, interpolation=cv2.INTER_AREA) if scale < 1 else self.image)

    def read(self, box: Box) -> Image:
        """A copy of the box."""
        return self.image[box.y0 : box.y1, box.x0 : box.x1].copy()


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A picture of the frame that the detector looks at."""

    image: ByteArray
    to_frame: FloatArray
    """(2, 3) from the picture's pixels to the frame's."""
    inner: tuple[bool, bool, bool, bool] = (False, False, False, False)
    """Whether the left, top, right and bottom edge cuts through the frame."""
    handicap: float = 0.0
    """What hits in this picture yield to overlapping hits in others."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A tilted square that a landmark crop is taken from."""

    centre: FloatArray
    """(2,) pixels."""
    side: float
    angle: float
    """Radians, clockwise on screen; 0 is upright."""

    def matrix(self, size: int) -> FloatArray:
        """(2, 3) from frame pixels to a size × size upright crop."""
        scale = size / self.side
        cos, sin = scale * np.cos(self.angle), scale * np.sin(self.angle)
        linear = np.array([[cos, sin], [-sin, cos]])
        return np.asarray(np.c_[linear, (size - 1) / 2 - linear @ self.centre], np.float32)


def chain(first: FloatArray, second: FloatArray) -> FloatArray:
    """`second` after `first`, both (2, 3)."""
    linear = second[:, :2] @ first[:, :2]
    return np.asarray(np.c_[linear, second[:, :2] @ first[:, 2] + second[:, 2]], np.float32)


def turned(view: View) -> Iterator[View]:
    """The view and its three quarter turns."""
    for _ in range(4):
        yield view
        back = np.array([[0, -1, view.image.shape[1] - 1], [1, 0, 0]], np.float32)
        view = View(np.ascontiguousarray(np.rot90(view.image)), chain(back, view.to_frame), handicap=0.05)


def padded(view: View, side: int) -> View:
    """The view inside a border of half its size, `side` pixels at most, for faces that fill the frame."""
    height, width = view.image.shape[:2]
    scale = min(1.0, side / (2 * max(height, width)))
    small = (max(1, round(width * scale)), max(1, round(height * scale)))
    image = cv2.resize(view.image, small, interpolation=cv2.INTER_AREA)
    x, y = small[0] // 2, small[1] // 2
    image = cv2.copyMakeBorder(image, y, y, x, x, cv2.BORDER_REPLICATE)
    fx, fy = width / small[0], height / small[1]
    back = np.array([[fx, 0, (fx - 1) / 2 - fx * x], [0, fy, (fy - 1) / 2 - fy * y]], np.float32)
    return View(np.asarray(image, np.uint8), chain(back, view.to_frame))


def tiles(frame: Frame, scale: float) -> Iterator[View]:
    """The frame shrunk by `scale`, in overlapping tiles, so that memory does not grow with the frame."""
    for y0, y1 in _spans(frame.height, scale):
        for x0, x1 in _spans(frame.width, scale):
            part = view_of(frame.read(Box(x0, y0, x1, y1)), x1 - x0, y1 - y0, scale)
            inner = (x0 > 0, y0 > 0, x1 < frame.width, y1 < frame.height)
            yield View(part.image, chain(part.to_frame, np.array([[1, 0, x0], [0, 1, y0]], np.float32)), inner)


def view_of(image: Image, width: int, height: int, scale: float = 1.0) -> View:
    """A view of `width` × `height` frame pixels, from a picture of them that is shrunk by `scale` first."""
    if scale < 1:
        size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    fx, fy = width / image.shape[1], height / image.shape[0]
    return View(as_bytes(image), np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2]], np.float32))


def _spans(length: int, scale: float) -> list[tuple[int, int]]:
    """First and past-the-last frame pixel of each tile along a side of `length` frame pixels."""
    tile, overlap = TILE / scale, OVERLAP / scale
    count = max(1, math.ceil((length - overlap) / (tile - overlap)))
    if count == 1:
        return [(0, length)]
    starts = [i * (length - tile) / (count - 1) for i in range(count)]
    return [(round(start), min(length, round(start + tile))) for start in starts]


def region_of_detection(hit: Detection) -> Region:
    """Square of EXTENT times the longer side of the box, tilted like the eyes."""
    x0, y0, x1, y1 = (float(v) for v in hit.bbox)
    centre = np.array([(x0 + x1) / 2, (y0 + y1) / 2], np.float32)
    return Region(centre, EXTENT * max(x1 - x0, y1 - y0), angle_of(hit.keypoints))


def region_of_mesh(mesh: FloatArray) -> Region:
    """Square of EXTENT times the extent of the (478, 2+) mesh, seen upright by the corners of the eyes.

    A pixel at least: a landmarker that is lost may put all points at one place.
    """
    points = mesh[:, :2]
    angle = angle_of(points[list(EYE_CORNERS)])
    cos, sin = np.cos(angle), np.sin(angle)
    upright = points @ np.array([[cos, -sin], [sin, cos]], np.float32)
    low, high = upright.min(0), upright.max(0)
    centre = np.array([[cos, -sin], [sin, cos]]) @ ((low + high) / 2)
    return Region(centre.astype(np.float32), max(1.0, EXTENT * float(max(high - low))), angle)


def angle_of(eyes: FloatArray) -> float:
    """Radians, clockwise on screen, from the left to the right of (2+, 2) points."""
    across = eyes[1] - eyes[0]
    return float(np.arctan2(across[1], across[0]))


def crop_of(frame: Frame, matrix: FloatArray, size: int, base: View | None = None) -> ByteArray:
    """size × size RGB uint8 crop by a frame→crop matrix; from the thumbnail where that is sharp enough."""
    if base is not None and scale_of(matrix) * scale_of(base.to_frame) < 1:
        return as_bytes(warp(base.image, chain(base.to_frame, matrix), size, size))
    corners = np.array([[0, 0], [size, 0], [size, size], [0, size]], np.float32)
    quad = transform(corners, invert(matrix))
    low, high = np.floor(quad.min(0)) - 2, np.ceil(quad.max(0)) + 3
    box = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(frame.width, frame.height)
    if box.empty:
        return np.zeros((size, size, 3), np.uint8)
    shift = np.array([[1, 0, box.x0], [0, 1, box.y0]], np.float32)
    return as_bytes(warp(frame.read(box), chain(shift, matrix), size, size))
