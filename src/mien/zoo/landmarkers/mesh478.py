"""MediaPipe's face landmarker: a 3-D mesh of 468 points and 10 iris points."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network, sigmoid


@register(
    ModelCard(
        name="mesh478",
        task="landmarker",
        licence="Apache-2.0",
        commercial=True,
        origin="https://ai.google.dev/edge/mediapipe/solutions/vision/face_landmarker",
        weights=Weights("mesh478.onnx", "3b46e92ae15a08a88f863517bac64232c3aa49ad1c9f96d976b3705030bcbe17", 2576468),
    )
)
class Mesh478:
    """Landmarker; crops are 1.5 times the mesh extent and upright by the eyes."""

    card: ModelCard
    size = 256
    points = 478
    crop: Literal["mesh", "bbox"] = "mesh"
    margin = 1.5
    shift = 0.0

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(
            self.card, where, file, [("n", 256, 256, 3)], [("n", 1, 1, 1434), ("n", 1, 1, 1), ("n", 1)]
        )

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×256×256×3 RGB uint8 → (N×478×3 crop pixels, N presence 0–1)."""
        points, presence, _tongue = self._network(crops * np.float32(1 / 255))
        points = np.array(points, np.float32).reshape(-1, 478, 3)
        # The network's 0 is the crop's edge (mirrored crops add up to 256, not 255); ours is a pixel's centre.
        points[:, :, :2] -= 0.5
        return points, sigmoid(presence.reshape(-1))
