"""peppa_wutz: a light network for 68 points (iBUG layout), in FaceFusion's models."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.landmarkers.fan import GRID
from mien.zoo.registry import register
from mien.zoo.tensors import Network, to_nchw


@register(
    ModelCard(
        name="peppa_wutz",
        task="landmarker",
        licence="Apache-2.0",
        commercial=True,
        origin="https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights("peppa_wutz.onnx", bundled=False),
    )
)
class PeppaWutz:
    """Landmarker; crops as those of 2dfan4."""

    card: ModelCard
    size = 256
    points = 68
    crop: Literal["mesh", "bbox"] = "bbox"
    margin = 256 / 195
    shift = 0.0
    bgr = False
    """RGB; some tools feed BGR to the same file."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        # Exports differ in whether the last dimension is folded.
        self._network = Network(
            self.card, where, file, [("n", 3, 256, 256)], [("n", 68 * 3)], or_outputs=[("n", 68, 3)]
        )

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×256×256×3 RGB uint8 → (N×68×2 crop pixels, N scores: the mean of the points' own)."""
        seen = crops[..., ::-1] if self.bgr else crops
        (found,) = self._network(to_nchw(seen, (0, 0, 0), (1, 1, 1)))
        points = found.reshape(-1, 68, 3)
        return points[:, :, :2] * np.float32(GRID), np.clip(points[:, :, 2].mean(1), 0, 1)
