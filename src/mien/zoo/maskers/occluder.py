"""Occluders: what covers a face. Trained by this project, see `training/occluder`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network, to_nchw

SIZE, MARGIN = 160, 1.3
"""Side of the crop in pixels, and over the extent of the mesh."""


@register(
    ModelCard(
        name="occluder",
        task="masker",
        licence="Apache-2.0",
        commercial=True,
        origin="trained by mien on synthetic faces (SFHQ and SFHQ-T2I, MIT) with drawn occluders; training/occluder",
        weights=Weights("occluder.onnx", "feb51dad20b12f7a7efe9eed7c1b13b510697254d4181cf7e961dcd0d8d40674", 959503),
    )
)
class Occluder:
    """Masker of glasses, hands, masks, hats, hair and things in front of a face.

    Clear lenses count as free; beards, brows, make-up, wrinkles, shadows and highlights too. Only the
    pixels inside the mesh's outline mean something. Crops are those of `mesh.upright_matrix`.
    """

    card: ModelCard
    size = SIZE
    margin = MARGIN
    classes = ("occluder",)

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, SIZE, SIZE)], [("n", 1, SIZE, SIZE)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×160×160×3 RGB uint8 → N×160×160×1 probabilities of being covered."""
        (covered,) = self._network(to_nchw(crops, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
        return np.asarray(covered.reshape(-1, SIZE, SIZE, 1), np.float32)
