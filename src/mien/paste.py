"""Crops out of frames for models, and models' patches back into frames. Written once, for every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from mien.geometry import invert, scale_of, template_matrix, transform, warp
from mien.types import Box, Face, FloatArray, Image, Patch
from mien.zoo.contracts import Swapper

PAD = 4
"""Pixels around a template's square, so that filters at its border see the frame."""
FEATHER = 0.08
"""Width of the soft border of a template's square, as a share of its side."""
MOST = 4
"""Largest pixel boost."""


class Frame(Protocol):
    """What a paste needs of a frame."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def height(self) -> int:
        """Rows."""

    def read(self, box: Box) -> Image:
        """RGB of a box inside the frame, uint8 or float32 0–1."""

    def write(self, box: Box, rgb: FloatArray, mask: FloatArray) -> None:
        """Blend float RGB 0–1 into a box by a mask 0–1."""


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """One face as a swapper sees it."""

    box: Box
    """The part of the frame that was read and may be written."""
    image: Image
    """The box itself at native resolution, or its warp by a template: a square of a multiple of the swapper's size."""
    face: Face
    """Mesh, keypoints and bbox in pixels of `image`."""
    matrix: FloatArray | None = None
    """(2, 3) from the box's pixels to the warp's; None where `image` is the box."""


def read_crop(frame: Frame, face: Face, swapper: Swapper, boost: int = 1) -> Crop | None:
    """The crop that a swapper asks for; None for a face outside the frame.

    Args:
        boost: side of a template's crop over the swapper's size; 0: what is nearest to the face's own size, up to
            `MOST`.

    Raises:
        GeometryError: keypoints that coincide.
    """
    if swapper.template is None:
        box = mesh_box(face.mesh, swapper.margin).clip(frame.width, frame.height)
        return None if box.empty else Crop(box, frame.read(box), moved(face, _shift(-box.x0, -box.y0)))
    matrix = template_matrix(face.keypoints, swapper.template, swapper.size)
    boost = boost or min(MOST, max(1, round(1 / scale_of(matrix))))
    matrix, side = _enlarged(matrix, boost), boost * swapper.size
    box = square_box(matrix, side).clip(frame.width, frame.height)
    if box.empty:
        return None
    from_box = _after_shift(matrix, box)
    return Crop(box, warp(frame.read(box), from_box, side, side), moved(face, matrix), from_box)


def mesh_box(mesh: FloatArray, margin: float) -> Box:
    """Square of `margin` times the mesh's extent about its middle; may reach out of the frame."""
    low, high = mesh[:, :2].min(0), mesh[:, :2].max(0)
    half = max(1.0, float((high - low).max()) * margin / 2)
    x, y = (float(v) for v in (low + high) / 2)
    return Box(int(np.floor(x - half)), int(np.floor(y - half)), int(np.ceil(x + half)) + 1, int(np.ceil(y + half)) + 1)


def square_box(matrix: FloatArray, size: int) -> Box:
    """Box around the size × size square of a frame→crop matrix, with a little room."""
    corners = np.array([[0, 0], [size, 0], [size, size], [0, size]], np.float32) - 0.5
    points = transform(corners, invert(matrix))
    low, high = np.floor(points.min(0)).astype(int) - PAD, np.ceil(points.max(0)).astype(int) + PAD + 1
    return Box(int(low[0]), int(low[1]), int(high[0]), int(high[1]))


def moved(face: Face, matrix: FloatArray) -> Face:
    """The face with its points taken through a (2, 3) similarity; z is scaled alike."""
    corners = np.array([[face.bbox[x], face.bbox[y]] for x in (0, 2) for y in (1, 3)], np.float32)
    corners = transform(corners, matrix)
    mesh = np.c_[transform(face.mesh[:, :2], matrix), face.mesh[:, 2] * scale_of(matrix)].astype(np.float32)
    return replace(
        face,
        bbox=np.concatenate([corners.min(0), corners.max(0)]),
        keypoints=transform(face.keypoints, matrix),
        mesh=mesh,
    )


def paste(frame: Frame, crop: Crop, patch: Patch) -> None:
    """Write a swapper's patch, which fits its crop, into the frame that the crop was read from."""
    if crop.matrix is None:
        frame.write(crop.box, patch.rgb, patch.mask)
        return
    back, width, height = invert(crop.matrix), crop.box.width, crop.box.height
    # The feather is 0 at the square's edge, so the replicated border outside it stays 0.
    mask = warp(np.ascontiguousarray(patch.mask * _feather(len(patch.mask))), back, width, height)
    frame.write(crop.box, warp(patch.rgb, back, width, height), mask)


@cache
def _feather(size: int) -> FloatArray:
    """(size, size) 0 at the edge, rising smoothly to 1."""
    ramp = np.minimum(np.arange(size), np.arange(size)[::-1]) / max(1.0, FEATHER * size)
    ramp = np.sin(np.clip(ramp, 0, 1) * np.pi / 2) ** 2
    mask = np.minimum.outer(ramp, ramp).astype(np.float32)
    mask.setflags(write=False)
    return mask


def _shift(x: float, y: float) -> FloatArray:
    return np.array([[1, 0, x], [0, 1, y]], np.float32)


def _enlarged(matrix: FloatArray, k: int) -> FloatArray:
    """To a crop of k times the side; the middles of its k × k blocks are the pixels of the smaller one."""
    return np.asarray(np.c_[k * matrix[:, :2], k * matrix[:, 2] + (k - 1) / 2], np.float32)


def _after_shift(matrix: FloatArray, box: Box) -> FloatArray:
    """The frame→crop matrix for pixels counted from the box's corner."""
    corner = transform(np.array([box.x0, box.y0], np.float32), matrix)
    return np.asarray(np.c_[matrix[:, :2], corner], np.float32)
