"""Segments one face of a crop: upright, at each masker's own size and margin, mapped back onto the crop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from mien.color import as_bytes
from mien.geometry import invert, warp
from mien.mesh import upright_matrix
from mien.types import FloatArray, Image
from mien.zoo.contracts import Masker

GRID = 256
"""Longest side of the maps returned; masks are smooth, and the full size costs more than it shows."""
BARE = ("skin",)
"""Classes that say what is not covered; all others say what lies in front of the skin, or beside it."""


def face_masks(
    crops: Sequence[Image], meshes: Sequence[FloatArray], maskers: Sequence[Masker]
) -> list[Mapping[str, FloatArray]]:
    """Class → (h, w) probabilities over each crop, longest side at most `GRID`.

    A class that several maskers give is joined so that each can only hide more, in whatever order they come: the
    maximum of what covers (occluder, hair, clothes), and the minimum of the skin, which is bare where none doubts it.

    Args:
        crops: RGB, uint8 or float 0–1.
        meshes: (478, 3) each, in its crop's pixels.
    """
    found: list[dict[str, FloatArray]] = [{} for _ in crops]
    for masker in maskers:
        matrices = [upright_matrix(mesh, masker.margin, masker.size) for mesh in meshes]
        views = [
            as_bytes(warp(crop, matrix, masker.size, masker.size)) for crop, matrix in zip(crops, matrices, strict=True)
        ]
        for crop, matrix, maps, result in zip(crops, matrices, found, masker(np.stack(views)), strict=True):
            for name, seen in zip(masker.classes, _back(result, matrix, crop.shape[:2]), strict=True):
                maps[name] = _joined(name, maps[name], seen) if name in maps else seen
    return list(found)


def _joined(name: str, one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(one, other) if name in BARE else np.maximum(one, other), np.float32)


def _back(result: FloatArray, matrix: FloatArray, shape: tuple[int, int]) -> list[FloatArray]:
    scale = min(1.0, GRID / max(shape))
    height, width = max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))
    shrink = np.array([[width / shape[1], 0], [0, height / shape[0]]])
    back = invert(matrix)
    small = np.c_[shrink @ back[:, :2], shrink @ (back[:, 2] + 0.5) - 0.5].astype(np.float32)
    return [
        np.asarray(
            cv2.warpAffine(
                np.ascontiguousarray(result[..., k]), small, (width, height), borderMode=cv2.BORDER_REPLICATE
            ),
            np.float32,
        )
        for k in range(result.shape[2])
    ]
