"""InsightFace's landmarkers: 106 points in the picture, and 68 in space (iBUG layout).

Both look at the bbox as it lies, take raw pixels, since their normalisation is inside the graph, and give −1 to 1
across the crop. They tell no confidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

LICENCE = "LicenseRef-InsightFace-non-commercial-research"
PACK = (
    "https://huggingface.co/public-data/insightface/resolve/33c1063c49c785b7652d3fd529f86fa4f149392b/models/buffalo_l"
)


class InsightLandmarker:
    """Landmarker on crops of 192 × 192."""

    card: ModelCard
    size = 192
    points: int
    crop: Literal["mesh", "bbox"] = "bbox"
    margin = 1.5
    shift = 0.0
    values: int
    """That the network gives for one face."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 192, 192)], [("n", self.values)])

    def _run(self, crops: ByteArray, width: int) -> tuple[FloatArray, FloatArray]:
        """The last `points` rows of `width` values, in crop pixels, and scores of 1."""
        (found,) = self._network(np.ascontiguousarray(crops.transpose(0, 3, 1, 2), np.float32))
        points = found.reshape(len(crops), -1, width)[:, -self.points :].copy()
        points[:, :, :2] += 1
        return points * np.float32(self.size / 2), np.ones(len(crops), np.float32)


@register(
    ModelCard(
        name="2d106det",
        task="landmarker",
        licence=LICENCE,
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/alignment/coordinate_reg",
        weights=Weights(
            "2d106det.onnx",
            "f001b856447c413801ef5c42091ed0cd516fcd21f2d6b79635b1e733a7109dbf",
            5030888,
            (f"{PACK}/2d106det.onnx",),
            bundled=False,
        ),
    )
)
class Landmarks106(InsightLandmarker):
    """106 points in InsightFace's own order."""

    points = 106
    values = 106 * 2

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×192×192×3 RGB uint8 → (N×106×2 crop pixels, N ones)."""
        return self._run(crops, 2)


@register(
    ModelCard(
        name="1k3d68",
        task="landmarker",
        licence=LICENCE,
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/alignment",
        weights=Weights(
            "1k3d68.onnx",
            "df5c06b8a0c12e422b2ed8947b8869faa4105387f199c477af038aa01f9a45cc",
            143607619,
            (f"{PACK}/1k3d68.onnx",),
            bundled=False,
        ),
    )
)
class Landmarks3d68(InsightLandmarker):
    """The last 68 of 1103 points in space; z is on the scale of x and y, larger = nearer. See `mien.landmarks.pose`."""

    points = 68
    values = 1103 * 3

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×192×192×3 RGB uint8 → (N×68×3 crop pixels, N ones)."""
        return self._run(crops, 3)
