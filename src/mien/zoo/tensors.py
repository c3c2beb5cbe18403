"""What every adapter shares: a network that is held to its contract, and normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mien.errors import ModelError
from mien.runtime.session import Session, Tensor, Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard

Shape: TypeAlias = Sequence[int | str]
"""Expected dimensions: an int must be that size (or free), a name must be free.

A name of an input stands for one size in all of a call's arrays, results too; other names stand for any.
"""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Network(Session):
    """A model's weights, or another file of the same family, as a callable that keeps its contract.

    Raises:
        ModelError: the file is not the one that shipped, or its inputs and outputs are others than expected.
        DeviceError: see `Session`.
    """

    def __init__(
        self,
        card: ModelCard,
        where: Where,
        file: Path | bytes | None,
        inputs: Sequence[Shape],
        outputs: Sequence[Shape],
    ) -> None:
        if file is None:
            if card.bundled is None:
                raise ModelError(f"{card.name}: no weights ship with mien; pass a file")
            file = card.bundled.checked()
        super().__init__(file, where, name=card.name)
        self._wanted = (tuple(inputs), tuple(outputs))
        for role, wanted, found in (("inputs", inputs, self.inputs), ("outputs", outputs, self.outputs)):
            if len(wanted) != len(found) or not all(map(_fits, wanted, found)):
                raise ModelError(
                    f"{self._file}: expected {role} {_text(wanted)} but found "
                    f"{_text([tensor.shape for tensor in found])}; this file is not the model it is named after"
                )
            if other := {tensor.type for tensor in found} - {"tensor(float)"}:
                raise ModelError(
                    f"{self._file}: expected {role} of float32 but found {', '.join(sorted(other))}; "
                    "convert the file to float32 inputs and outputs"
                )

    def __call__(self, *arrays: npt.NDArray[np.float32]) -> Sequence[FloatArray]:
        """The outputs of one inference.

        Raises:
            ModelError: it failed, was given or gave values that are not finite, or gave other shapes than agreed.
        """
        for array in arrays:
            if not np.isfinite(array).all():
                raise ModelError(f"{self.name}: was given values that are not finite; report this with the file")
        outputs = super().__call__(*arrays)
        wanted, promised = self._wanted
        sizes = {
            name: size
            for shape, array in zip(wanted, arrays, strict=True)
            for name, size in zip(shape, array.shape, strict=True)
            if isinstance(name, str)
        }
        for shape, output in zip(promised, outputs, strict=True):
            if not _keeps(shape, output.shape, sizes):
                raise ModelError(
                    f"{self.name}: gave {_text([output.shape])} for {_text([array.shape for array in arrays])}; "
                    "this file is not the model it is named after"
                )
        require_finite(self.name, *outputs)
        return outputs


def require_finite(name: str, *outputs: npt.NDArray[np.floating]) -> None:
    """Refuse what a network gave, or what was made of it, when it is not finite.

    Raises:
        ModelError: names the model.
    """
    if not all(np.isfinite(output).all() for output in outputs):
        raise ModelError(f"{name}: the model gave values that are not finite; verify the file and the device")


def _fits(wanted: Shape, found: Tensor) -> bool:
    return len(wanted) == len(found.shape) and all(
        not isinstance(size, int) or size == want for want, size in zip(wanted, found.shape, strict=True)
    )


def _keeps(promised: Shape, found: Sequence[int], sizes: Mapping[str, int]) -> bool:
    return len(promised) == len(found) and all(
        size == (sizes.get(want, size) if isinstance(want, str) else want)
        for want, size in zip(promised, found, strict=True)
    )


def _text(shapes: Sequence[Sequence[int | str | None]]) -> str:
    return ", ".join("×".join("?" if size is None else str(size) for size in shape) for shape in shapes)


def to_nchw(crops: ByteArray, mean: Sequence[float], std: Sequence[float]) -> FloatArray:
    """N×H×W×3 uint8 → N×3×H×W float32, (crops / 255 − mean) / std per channel."""
    scale = (1 / (255 * np.asarray(std, np.float64))).astype(np.float32)
    shift = (np.asarray(mean, np.float64) / np.asarray(std, np.float64)).astype(np.float32)
    return np.ascontiguousarray((crops * scale - shift).transpose(0, 3, 1, 2))


def unit(name: str, embeddings: FloatArray) -> FloatArray:
    """Rows scaled to length 1.

    Raises:
        ModelError: a row of zeros, which is nobody's, yet would be compared; names the model.
    """
    lengths = np.linalg.norm(embeddings.astype(np.float64), axis=1)
    if not (lengths > 1e-6).all():
        raise ModelError(f"{name}: the model gave an empty embedding; verify the file and the device")
    return np.asarray(embeddings / lengths[:, None], np.float32)


def sigmoid(logits: FloatArray) -> FloatArray:
    """Logistic function without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)), np.float32)
