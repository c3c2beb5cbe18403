"""MobileFaceNet: a small identity embedder.

Chen et al., "MobileFaceNets: Efficient CNNs for Accurate Real-Time Face Verification", 2018.
"""

from __future__ import annotations

from pathlib import Path

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD, Network, to_nchw, unit


@register(
    ModelCard(
        name="mobilefacenet",
        task="embedder",
        licence="Apache-2.0",
        commercial=True,
        origin="https://github.com/foamliu/MobileFaceNet",
        weights=Weights(
            "mobilefacenet_128.onnx", "939d54f206258fe287b2a2db5cb7b5176b32ea6c3c72775b62c2d4059072d73c", 2028831
        ),
    )
)
class MobileFaceNet:
    """Embedder of 128 dimensions."""

    card: ModelCard
    template = "arcface_112_v2"
    size = 112

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 112, 112)], [("n", 128)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×112×112×3 RGB uint8 → N×128, L2-normalised."""
        return unit(self.card.name, self.raw(crops))

    def raw(self, crops: ByteArray) -> FloatArray:
        """N×112×112×3 RGB uint8 → N×128 as the network gave them."""
        (embeddings,) = self._network(to_nchw(crops, IMAGENET_MEAN, IMAGENET_STD))
        return embeddings
