"""What swappers share that work on aligned square crops: pixel boost, batches, normalisation, masks.

Pixel boost: of a k·S × k·S crop, each of the k² sub-crops takes every k-th pixel of every k-th row, so each shows the
whole face at the network's size. Sub-crop number k·i + j begins at row i, column j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from mien.color import as_float
from mien.errors import ModelError
from mien.mesh import SURFACE
from mien.runtime.session import Where
from mien.types import Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard
from mien.zoo.contracts import Source, SourceNeeds, Style
from mien.zoo.tensors import Network, Shape, unit

HALF = (0.5, 0.5, 0.5)
NONE, ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
ARCFACE = "arcface_w600k_r50"
"""The embedder that the swappers of this kind were trained with."""
RIM = 0.03
"""Width of the soft border of the mesh's outline, as a share of the face; it lies half outside."""
GRID = 256
"""Side of the grid that masks are made on; they are smooth."""
CLEAR, COVERED = 0.3, 0.65
"""Probability of an occluder up to which all of the face is swapped, and from which nothing is."""


def split(crop: FloatArray, k: int) -> FloatArray:
    """(k·S, k·S, C) → (k², S, S, C): every k-th pixel, in the order of their first pixel, row by row."""
    size = crop.shape[0] // k
    return crop.reshape(size, k, size, k, -1).transpose(1, 3, 0, 2, 4).reshape(k * k, size, size, -1)


def join(tiles: FloatArray) -> FloatArray:
    """(k², S, S, C) → (k·S, k·S, C): what `split` took apart."""
    k, size = round(len(tiles) ** 0.5), tiles.shape[1]
    return np.ascontiguousarray(
        tiles.reshape(k, k, size, size, -1).transpose(2, 0, 3, 1, 4).reshape(k * size, k * size, -1)
    )


class TemplateSwapper:
    """Swapper on crops that are aligned by `template`: one network with the inputs `source` and `target`.

    A family gives the class attributes, and `_latent` where its source is no plain embedding.
    """

    card: ModelCard
    template: str = ""
    size: int = 256
    margin = 1.0
    needs_mask = True
    needs = SourceNeeds(ARCFACE)
    mean: Sequence[float] = NONE
    std: Sequence[float] = ONE
    """Of the target's normalisation, (x / 255 − mean) / std."""
    signed = False
    """Whether the output is normalised like the target; else it is 0–1."""
    source_shape: Shape = ("n", 512)
    masked: bool | None = False
    """Whether the file gives a mask as well, which is left out; None: some files do."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        image, mask = (("n", channels, self.size, self.size) for channels in (3, 1))
        inputs = {"source": self.source_shape, "target": image}
        alone, both = [image], [image, mask]
        self._network = Network(
            self.card, where, file, inputs, both if self.masked else alone,
            or_outputs=both if self.masked is None else None,
        )  # fmt: skip

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, style: Style,
    ) -> list[Patch]:  # fmt: skip
        """Render the source on all crops, and on all their sub-crops, as one batch.

        Raises:
            ModelError: crops that are no squares of a multiple of `size`; see `Network` for what the file may raise.
        """
        boosts = [self._boost(crop) for crop in crops]
        tiles = [split(as_float(crop), k) for crop, k in zip(crops, boosts, strict=True)]
        rendered = self._render(np.concatenate(tiles), source)
        parts = np.split(rendered, np.cumsum([k * k for k in boosts])[:-1])
        return [
            Patch(join(part[..., :3]), self._mask(part, face, mask))
            for part, face, mask in zip(parts, faces, masks, strict=True)
        ]

    def _render(self, tiles: FloatArray, source: Source) -> FloatArray:
        """(M, S, S, 3) RGB 0–1 → the same, swapped; channels beyond the third are for `_mask`."""
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        target = np.ascontiguousarray(((tiles - mean) / std).transpose(0, 3, 1, 2))
        latent = self._latent(source)
        output = self._network(np.repeat(latent, len(target), axis=0), target)[0]
        rgb = output.transpose(0, 2, 3, 1)
        return np.clip(rgb * std + mean if self.signed else rgb, 0, 1).astype(np.float32)

    def _latent(self, source: Source) -> FloatArray:
        """(1, …) the network's `source`: here the embedding, at length 1."""
        return unit(self.card.name, self._embedding(source))

    def _embedding(self, source: Source) -> FloatArray:
        """(1, D) as `prepare_source` made it."""
        if source.embedding is None:
            raise ModelError(f"{self.card.name}: was given no embedding; report this with the model's name")
        return source.embedding[None]

    def _photo(self, source: Source) -> FloatArray:
        """(1, 3, size, size) RGB 0–1 of the source."""
        if source.photo is None:
            raise ModelError(f"{self.card.name}: was given no photo; report this with the model's name")
        return np.ascontiguousarray(as_float(source.photo).transpose(2, 0, 1)[None])

    def _mask(self, tiles: FloatArray, face: Face, masks: Mapping[str, FloatArray] | None) -> FloatArray:
        side = round(len(tiles) ** 0.5) * self.size
        return np.asarray(outline(face.mesh, side) * uncovered(masks, side), np.float32)

    def _boost(self, crop: Image) -> int:
        height, width = crop.shape[:2]
        if height != width or height < self.size or height % self.size:
            raise ModelError(
                f"{self.card.name}: a crop of {width}×{height} is no square of a multiple of {self.size}; report this"
            )
        return int(height // self.size)


def outline(mesh: FloatArray, side: int) -> FloatArray:
    """(side, side) 0–1: inside a mesh in crop pixels, with a soft rim."""
    points = (mesh[:SURFACE, :2] + 0.5) * np.float32(GRID / side) - 0.5
    inside = np.zeros((GRID, GRID), np.float32)
    cv2.fillConvexPoly(inside, cv2.convexHull(np.round(points * 16).astype(np.int32)), 1.0, shift=4)
    sigma = max(0.7, 0.5 * RIM * float(np.ptp(points, axis=0).max()))
    # A face that reaches out of the crop has no border there: the crop's own fades out anyway.
    soft = cv2.GaussianBlur(inside, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
    return _sized(np.asarray(soft, np.float32), side)


def uncovered(masks: Mapping[str, FloatArray] | None, side: int) -> FloatArray:
    """(side, side) 0–1: where no masker found something in front of the face; 1 where none was asked."""
    if masks is None or "occluder" not in masks:
        return np.ones((side, side), np.float32)
    free = np.clip((COVERED - masks["occluder"]) / (COVERED - CLEAR), 0, 1)
    return _sized(np.asarray(free, np.float32), side)


def _sized(mask: FloatArray, side: int) -> FloatArray:
    how = cv2.INTER_AREA if side < mask.shape[0] else cv2.INTER_LINEAR
    return np.asarray(np.clip(cv2.resize(mask, (side, side), interpolation=how), 0, 1), np.float32)
