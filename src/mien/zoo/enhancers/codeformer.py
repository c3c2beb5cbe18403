"""CodeFormer: restores faces from a codebook, between beautiful and faithful.

Zhou et al., "Towards Robust Blind Face Restoration with Codebook Lookup Transformer", 2022.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.enhancers.restorer import HALF, to_unit
from mien.zoo.registry import register
from mien.zoo.tensors import Network, to_nchw


@register(
    ModelCard(
        name="codeformer",
        task="enhancer",
        licence="LicenseRef-S-Lab-1.0-non-commercial",
        commercial=False,
        origin="https://github.com/sczhou/CodeFormer; converted, in https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights(
            "codeformer.onnx",
            "21710e7ab61c82683576c428e9c1b6fe1ed419586b7b39e394c3449c294b550f",
            376951650,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/codeformer.onnx",),
            bundled=False,
        ),
    )
)
class CodeFormer:
    """Enhancer; `weight` 0 gives the best-looking face, 1 the one most like the input."""

    card: ModelCard
    template = "ffhq_512"
    size = 512

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        shape = ("n", 3, 512, 512)
        self._network = Network(self.card, where, file, [shape, (1,)], [shape], spare=True)

    def __call__(self, crops: ByteArray, weight: float = 1.0) -> FloatArray:
        """N×512×512×3 RGB uint8 → N×512×512×3 float32 RGB 0–1."""
        (restored,) = self._network(to_nchw(crops, HALF, HALF), np.array([weight], np.float64))
        return to_unit(restored)
