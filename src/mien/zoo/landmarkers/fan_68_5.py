"""fan_68_5: a guess of 68 points (iBUG layout) from 5, in FaceFusion's models."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network


@register(
    ModelCard(
        name="fan_68_5",
        task="landmarker",
        licence="LicenseRef-OpenRAIL-M",
        commercial=True,
        origin="https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights("fan_68_5.onnx", size=944321, bundled=False),
    )
)
class Fan685:
    """Landmarker of points, see `contracts.PointLandmarker`: it sees no picture, and gives a face at rest."""

    card: ModelCard
    template = "ffhq_512"
    points = 68
    crop: Literal["points"] = "points"

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 5, 2)], [("n", 68, 2)])

    def __call__(self, keypoints: FloatArray) -> FloatArray:
        """N×5×2 keypoints laid out as `ffhq_512` in a square of side 1 → N×68×2 there."""
        (points,) = self._network(np.asarray(keypoints, np.float32))
        return points
