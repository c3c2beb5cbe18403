"""Skin, clothes and hair: a PAN segmenter from Skin-Clothes-Hair-Segmentation-using-SMP."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD, Network, to_nchw


@register(
    ModelCard(
        name="skin_hair",
        task="masker",
        licence="MIT",
        commercial=True,
        origin="https://github.com/Kazuhito00/Skin-Clothes-Hair-Segmentation-using-SMP",
        weights=Weights(
            "skin_hair_clothes.onnx", "670de1d08a1d3a7c0d51a0363c1b971991bcd18d4ee3a55e83ab07610eb69d1c", 4085277
        ),
    )
)
class SkinHair:
    """Masker; the classes are independent probabilities and need not sum to 1."""

    card: ModelCard
    size = 512
    margin = 1.6
    classes = ("skin", "clothes", "hair")

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 512, 512)], [("n", 3, 512, 512)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×512×512×3 RGB uint8 → N×512×512×3 probabilities of skin, clothes, hair."""
        (masks,) = self._network(to_nchw(crops, IMAGENET_MEAN, IMAGENET_STD))
        return np.ascontiguousarray(masks.transpose(0, 2, 3, 1))
