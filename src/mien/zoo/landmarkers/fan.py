"""2D-FAN: 68 points (iBUG layout) from heatmaps.

Bulat and Tzimiropoulos, "How far are we from solving the 2D & 3D Face Alignment problem?", 2017. The file is
FaceFusion's `2dfan4.onnx`, a conversion of four stacked hourglasses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network, to_nchw

GRID = 4.0
"""Crop pixels of a heatmap's cell."""


@register(
    ModelCard(
        name="2dfan4",
        task="landmarker",
        licence="MIT",
        commercial=True,
        origin="https://github.com/1adrianb/face-alignment; converted, in https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights(
            "2dfan4.onnx",
            "678c6fa539d52335a31c980feefdf4a6e02d781d83dce00af8a894f114557285",
            97904803,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/2dfan4.onnx",),
            bundled=False,
        ),
    )
)
class Fan4:
    """Landmarker; the longer side of the bbox fills 195 of the crop's 256 pixels."""

    card: ModelCard
    size = 256
    points = 68
    crop: Literal["mesh", "bbox"] = "bbox"
    margin = 256 / 195
    shift = 0.0
    bgr = False
    """Trained on RGB; some tools feed BGR to the same file."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 256, 256)], [("n", 68, 3), ("n", 68, 64, 64)])

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×256×256×3 RGB uint8 → (N×68×2 crop pixels, N scores: the mean of the heatmaps' maxima)."""
        seen = crops[..., ::-1] if self.bgr else crops
        points, heatmaps = self._network(to_nchw(seen, (0, 0, 0), (1, 1, 1)))
        scores = heatmaps.max((2, 3)).mean(1)
        return points[:, :, :2] * np.float32(GRID), np.clip(scores, 0, 1)
