"""InsightFace's small network that guesses sex and age."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network


@register(
    ModelCard(
        name="genderage",
        task="attribute",
        licence="LicenseRef-InsightFace-non-commercial-research",
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/model_zoo",
        weights=Weights(
            "genderage.onnx",
            "4fde69b1c810857b88c64a335084f1c3fe8f01246c9a191b48c7bb756d6652fb",
            1322532,
            (
                "https://huggingface.co/public-data/insightface/resolve/"
                "33c1063c49c785b7652d3fd529f86fa4f149392b/models/buffalo_l/genderage.onnx",
            ),
            bundled=False,
        ),
    )
)
class GenderAge:
    """Attributes of the bbox as it lies; a guess from looks, with an error of years."""

    card: ModelCard
    size = 96
    margin = 1.5
    names = ("female", "male", "age")

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 96, 96)], [("n", 3)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×96×96×3 RGB uint8 → N×3: scores of female and male (the larger counts), age in years."""
        # Raw pixels: the normalisation is inside the graph.
        (found,) = self._network(np.ascontiguousarray(crops.transpose(0, 3, 1, 2), np.float32))
        return found * np.array([1, 1, 100], np.float32)
