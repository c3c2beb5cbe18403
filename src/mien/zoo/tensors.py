"""What every adapter shares: the check of a graph against its contract, and normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mien.errors import ModelError
from mien.options import Device
from mien.runtime.session import Session, Tensor
from mien.types import ByteArray, FloatArray
from mien.zoo.registry import ModelCard

Shape: TypeAlias = Sequence[int | str]
"""Expected dimensions: an int must be that size (or free), a name must be free."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def open_session(card: ModelCard, device: Device, file: Path | bytes | None = None) -> Session:
    """A session on a model's weights, or on another file of the same family."""
    if file is None:
        if card.weights is None:
            raise ModelError(f"{card.name}: no weights ship with mien; pass a file")
        file = card.weights.path
    return Session(file, device)


def expect(session: Session, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> None:
    """Check number, order and shapes of a graph's inputs and outputs.

    Raises:
        ModelError: what was expected and what was found.
    """
    for role, wanted, found in (("inputs", inputs, session.inputs), ("outputs", outputs, session.outputs)):
        if len(wanted) != len(found) or not all(map(_fits, wanted, found)):
            raise ModelError(
                f"{session.name}: expected {role} {_text(wanted)} but found "
                f"{_text([tensor.shape for tensor in found])}; this file is not the model it is named after"
            )


def _fits(wanted: Shape, found: Tensor) -> bool:
    return len(wanted) == len(found.shape) and all(
        not isinstance(size, int) or size == want for want, size in zip(wanted, found.shape, strict=True)
    )


def _text(shapes: Sequence[Sequence[int | str | None]]) -> str:
    return ", ".join("×".join("?" if size is None else str(size) for size in shape) for shape in shapes)


def run(session: Session, *arrays: FloatArray) -> Sequence[FloatArray]:
    """The outputs of one inference.

    Raises:
        ModelError: it failed, or gave values that are not finite.
    """
    outputs = session(*arrays)
    if not all(np.isfinite(output).all() for output in outputs):
        raise ModelError(f"{session.name}: the model gave values that are not finite; verify the file and the device")
    return outputs


def to_nchw(crops: ByteArray, mean: Sequence[float], std: Sequence[float]) -> FloatArray:
    """N×H×W×3 uint8 → N×3×H×W float32, (crops / 255 − mean) / std per channel."""
    scale = (1 / (255 * np.asarray(std, np.float64))).astype(np.float32)
    shift = (np.asarray(mean, np.float64) / np.asarray(std, np.float64)).astype(np.float32)
    return np.ascontiguousarray((crops * scale - shift).transpose(0, 3, 1, 2))


def unit(vectors: FloatArray) -> FloatArray:
    """Rows scaled to length 1; a zero row stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float32)


def sigmoid(logits: FloatArray) -> FloatArray:
    """Logistic function without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)), np.float32)
