"""What the restorers share: an aligned face in, the same face in better quality out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard
from mien.zoo.tensors import Network, to_nchw

HALF = (0.5, 0.5, 0.5)


class Restorer:
    """Enhancer that takes and gives RGB in −1 to 1."""

    card: ModelCard
    template = "ffhq_512"
    size = 512

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        shape = ("n", 3, self.size, self.size)
        self._network = Network(self.card, where, file, [shape], [shape], spare=True)

    def __call__(self, crops: ByteArray, weight: float = 1.0) -> FloatArray:
        """N×size×size×3 RGB uint8 → N×size×size×3 float32 RGB 0–1; `weight` has no effect."""
        (restored,) = self._network(to_nchw(crops, HALF, HALF))
        return to_unit(restored)


def to_unit(restored: FloatArray) -> FloatArray:
    """N×3×H×W in −1 to 1, anything beyond cut off → N×H×W×3 in 0 to 1."""
    return np.ascontiguousarray((np.clip(restored, -1, 1) + 1).transpose(0, 2, 3, 1) / 2, np.float32)
