"""BiSeNet: a face parser of 19 classes, trained on CelebAMask-HQ.

Yu et al., "BiSeNet: Bilateral Segmentation Network for Real-time Semantic Segmentation", 2018; weights from
yakhyo/face-parsing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD, Network, to_nchw

ORIGIN = "https://github.com/yakhyo/face-parsing"
LABELS = (
    "background", "skin", "left brow", "right brow", "left eye", "right eye", "glasses", "left ear", "right ear",
    "earring", "nose", "mouth", "upper lip", "lower lip", "neck", "necklace", "clothes", "hair", "hat",
)  # fmt: skip
"""What the network tells apart, in its order."""
GROUPS = {
    "skin": (1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14),
    "clothes": (15, 16),
    "hair": (17,),
    "occluder": (6, 18),
}


class BiSeNet:
    """Masker; each pixel belongs to its likeliest label, so the classes are 0 or 1. Earrings are nothing."""

    card: ModelCard
    size = 512
    margin = 1.5
    classes: tuple[str, ...] = tuple(GROUPS)

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        shape = ("n", 3, 512, 512)
        # Exports keep the two heads that only training uses.
        self._network = Network(self.card, where, file, [shape], [("n", len(LABELS), 512, 512)], spare=True)
        self._table = np.zeros((len(LABELS), len(GROUPS)), np.float32)
        for index, labels in enumerate(GROUPS.values()):
            self._table[list(labels), index] = 1

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×512×512×3 RGB uint8 → N×512×512×4: skin, clothes, hair, occluder (glasses and hats)."""
        (logits,) = self._network(to_nchw(crops, IMAGENET_MEAN, IMAGENET_STD))
        return np.asarray(self._table[logits.argmax(1)], np.float32)


@register(
    ModelCard(
        name="bisenet_resnet_18",
        task="masker",
        licence="MIT",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "bisenet_resnet_18.onnx",
            "2218b6183c26ca5c83303232d682a536c670c13ea9695f716c777d1f244eefe9",
            53205356,
            ("https://huggingface.co/facefusion/models-3.1.0/resolve/main/bisenet_resnet_18.onnx",),
            bundled=False,
        ),
    )
)
class BiSeNet18(BiSeNet):
    """With a ResNet-18."""


@register(
    ModelCard(
        name="bisenet_resnet_34",
        task="masker",
        licence="MIT",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "bisenet_resnet_34.onnx",
            "4a0b8c958a3c938913bd06a8365dbb3c8761afba6ecbf0d14b3b1f77eb230c96",
            93632546,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/bisenet_resnet_34.onnx",),
            bundled=False,
        ),
    )
)
class BiSeNet34(BiSeNet):
    """With a ResNet-34."""
