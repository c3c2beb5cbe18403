"""What the references share: how they run a file, and how they normalise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

Array: TypeAlias = npt.NDArray[Any]

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
NONE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class File:
    """An ONNX file as ONNX Runtime sees it."""

    def __init__(self, data: bytes) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self.data = data
        self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self.names = [tensor.name for tensor in self._session.get_inputs()]
        self.shapes = [tensor.shape for tensor in self._session.get_inputs()]
        self.results = [tensor.shape for tensor in self._session.get_outputs()]

    def __call__(self, *arrays: Array, **named: Array) -> list[Array]:
        """Outputs in the file's order, of inputs in its order or by name."""
        return self.feed({**dict(zip(self.names, arrays, strict=False)), **named})

    def feed(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The same, for names that Python has no word for."""
        return list(self._session.run(None, dict(feeds)))


def planes(rgb: Array, mean: Sequence[float] = (0, 0, 0), std: Sequence[float] = (1, 1, 1), top: float = 255) -> Array:
    """H×W×3 → 1×3×H×W, (value / top − mean) / std."""
    out = np.zeros((1, 3, *rgb.shape[:2]), np.float32)
    for channel in range(3):
        out[0, channel] = (rgb[:, :, channel].astype(np.float64) / top - mean[channel]) / std[channel]
    return out


def picture(planes: Array, mean: Sequence[float] = (0, 0, 0), std: Sequence[float] = (1, 1, 1)) -> Array:
    """1×3×H×W → H×W×3 within 0–1, value · std + mean."""
    channels = [np.clip(planes[0, c].astype(np.float64) * std[c] + mean[c], 0, 1) for c in range(3)]
    return np.stack(channels, 2)


def unit(vector: Array) -> Array:
    """Of length 1."""
    wide = vector.astype(np.float64).ravel()
    return np.asarray(wide / np.sqrt((wide * wide).sum()))
