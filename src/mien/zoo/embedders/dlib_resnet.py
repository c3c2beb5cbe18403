"""dlib's face recognition ResNet, converted to ONNX.

King, "Dlib-ml: A Machine Learning Toolkit", 2009; `dlib_face_recognition_resnet_model_v1`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network, unit


@register(
    ModelCard(
        name="dlib_resnet",
        task="embedder",
        licence="CC0-1.0",
        commercial=True,
        origin="https://github.com/davisking/dlib-models",
        weights=Weights(
            "dlib_resnet_128.onnx",
            "429dcdf0594b1eb520909f4513a14f91fd70bb3e12875c89645d79040fdb670d",
            11244470,
            bundled=False,
        ),
    )
)
class DlibResNet:
    """Embedder of 128 dimensions, on wide crops of 150 × 150; other templates ruin it.

    Its embeddings all point much the same way: strangers have a mean cosine of 0.84, so thresholds of other
    embedders, `min_similarity` among them, do not fit. Its own measure is the distance of two `raw` embeddings: one
    person below 0.54.
    """

    card: ModelCard
    template = "dlib_150"
    size = 150

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, 150, 150)], [("n", 128)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×150×150×3 RGB uint8 → N×128, L2-normalised."""
        return unit(self.card.name, self.raw(crops))

    def raw(self, crops: ByteArray) -> FloatArray:
        """N×150×150×3 RGB uint8 → N×128 as the network gave them; compare these by distance."""
        # Mean and scale are inside the graph.
        (embeddings,) = self._network(np.ascontiguousarray(crops.transpose(0, 3, 1, 2), np.float32))
        return embeddings
