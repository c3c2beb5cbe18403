"""ArcFace: InsightFace's identity embedders of 512 dimensions.

Deng et al., "ArcFace: Additive Angular Margin Loss for Deep Face Recognition", 2019. The files are `w600k_r50.onnx` of
the pack buffalo_l, `w600k_mbf.onnx` of buffalo_s and `glintr100.onnx` of antelopev2. Cosines between strangers lie
near 0, and between photos of one person mostly above 0.4.
"""

from __future__ import annotations

from pathlib import Path

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network, to_nchw, unit

LICENCE = "LicenseRef-InsightFace-non-commercial-research"
HALF = (0.5, 0.5, 0.5)


class ArcFace:
    """Embedder of 512 dimensions, on crops of 112 × 112."""

    card: ModelCard
    template = "arcface_112_v2"
    size = 112

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 112, 112)], [("n", 512)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×112×112×3 RGB uint8 → N×512, L2-normalised."""
        return unit(self.card.name, self.raw(crops))

    def raw(self, crops: ByteArray) -> FloatArray:
        """N×112×112×3 RGB uint8 → N×512 as the network gave them; swappers and their converters take these."""
        (embeddings,) = self._network(to_nchw(crops, HALF, HALF))  # x / 127.5 − 1
        return embeddings


@register(
    ModelCard(
        name="arcface_w600k_r50",
        task="embedder",
        licence=LICENCE,
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/model_zoo",
        weights=Weights(
            "w600k_r50.onnx",
            "4c06341c33c2ca1f86781dab0e829f88ad5b64be9fba56e56bc9ebdefc619e43",
            174383860,
            (
                "https://huggingface.co/public-data/insightface/resolve/"
                "33c1063c49c785b7652d3fd529f86fa4f149392b/models/buffalo_l/w600k_r50.onnx",
            ),
            bundled=False,
        ),
    )
)
class ArcFaceW600kR50(ArcFace):
    """ResNet-50 trained on WebFace600K; the one that most swappers were trained with."""


@register(
    ModelCard(
        name="arcface_w600k_mbf",
        task="embedder",
        licence=LICENCE,
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/model_zoo",
        weights=Weights(
            "w600k_mbf.onnx",
            "9cc6e4a75f0e2bf0b1aed94578f144d15175f357bdc05e815e5c4a02b319eb4f",
            13616099,
            (
                "https://huggingface.co/deepghs/insightface/resolve/"
                "4e1f33d3fe0e50a0945f3a53ab94ae8977ae7ddb/buffalo_s/w600k_mbf.onnx",
            ),
            bundled=False,
        ),
    )
)
class ArcFaceW600kMbf(ArcFace):
    """MobileFaceNet trained on WebFace600K: small and fast."""


@register(
    ModelCard(
        name="arcface_glint_r100",
        task="embedder",
        licence=LICENCE,
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/model_zoo",
        weights=Weights(
            "glintr100.onnx",
            "4ab1d6435d639628a6f3e5008dd4f929edf4c4124b1a7169e1048f9fef534cdf",
            260665334,
            ("https://huggingface.co/DIAMONIK7777/antelopev2/resolve/main/glintr100.onnx",),
            bundled=False,
        ),
    )
)
class ArcFaceGlintR100(ArcFace):
    """ResNet-100 trained on Glint360K: the most accurate, and the slowest."""
