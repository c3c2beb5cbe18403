"""What every adapter shares: a network that is held to its contract, and normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mien.errors import ModelError
from mien.runtime.session import Session, Tensor, Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard

Shape: TypeAlias = Sequence[int | str | None]
"""Expected dimensions: an int must be that size (or free), a name must be free, None may be anything.

A name of an input stands for one size in all of a call's arrays, results too; other names stand for any. A name that
comes first counts the items of a batch; there, files that take one item at a time are welcome too.
"""

_TYPES: Mapping[str, type[np.floating[Any]]] = MappingProxyType(
    {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64}
)

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Network(Session):
    """A model's weights, or another file of the same family, as a callable that keeps its contract.

    Arrays are cast to what the file declares (float16, float32 or float64); results are float32. A file that takes one
    item at a time is called once for each item of a batch, and so is one that declares a free batch but fails on the
    first: some are exported so. The latter is remembered, and `notes` tells it.

    Args:
        inputs: in the file's order, or by name, for families whose exports differ in order; arrays are then given in
            the order of this mapping.
        outputs: in the file's order.
        optional: inputs by name that only some files of the family have; their arrays come last. See `has`.
        spare: the file may have outputs beyond `outputs`; they are left out.
        or_outputs: another layout of the outputs, which some exports of the family have.

    Raises:
        ModelError: the file is not the one that shipped, or its inputs and outputs are others than expected.
        DeviceError: see `Session`.
    """

    def __init__(
        self,
        card: ModelCard,
        where: Where,
        file: Path | bytes | None,
        inputs: Sequence[Shape] | Mapping[str, Shape],
        outputs: Sequence[Shape],
        *,
        optional: Mapping[str, Shape] = MappingProxyType({}),
        spare: bool = False,
        or_outputs: Sequence[Shape] | None = None,
    ) -> None:
        if file is None:
            if card.bundled is None:
                raise ModelError(f"{card.name}: no weights ship with mien; pass a file")
            file = card.bundled.checked()
        super().__init__(file, where, name=card.name)
        if or_outputs is not None and _all_fit(or_outputs, self.outputs):
            outputs = or_outputs
        self._places, wanted = self._arranged(inputs, optional)
        self._wanted = (wanted, tuple(outputs))
        given = self.outputs[: len(outputs)] if spare else self.outputs
        self._check("inputs", wanted, self.inputs)
        self._check("outputs", outputs, given)
        self._items = [bool(shape) and isinstance(shape[0], str) for shape in wanted]
        self._single = any(each and tensor.shape[0] == 1 for each, tensor in zip(self._items, self.inputs, strict=True))

    def has(self, name: str) -> bool:
        """Whether the file has this input."""
        return any(tensor.name == name for tensor in self.inputs)

    def __call__(self, *arrays: npt.NDArray[Any]) -> Sequence[FloatArray]:
        """The outputs of one inference.

        Raises:
            ModelError: it failed, was given or gave values that are not finite, or gave other shapes than agreed.
        """
        for array in arrays:
            if not np.isfinite(array).all():
                raise ModelError(f"{self.name}: was given values that are not finite; report this with the file")
        by_place = dict(zip(self._places, arrays, strict=True))
        given = [np.asarray(by_place[i], _TYPES[tensor.type]) for i, tensor in enumerate(self.inputs)]
        count = max((len(array) for array, each in zip(given, self._items, strict=True) if each), default=1)
        outputs = self._whole(given, count) or self._singly(given, count)
        require_finite(self.name, *outputs)
        return outputs

    def _whole(self, given: Sequence[npt.NDArray[Any]], count: int) -> Sequence[FloatArray] | None:
        """All items at once; None where the file turns out to take one at a time."""
        if self._single and count > 1:
            return None
        try:
            return self._run(given)
        except ModelError as error:
            if count == 1 or was_ended(error):
                raise
        outputs = self._singly(given, count)
        self._single = True
        self._notes.append(f"{self.name}: run item by item, since its file takes no more, whatever it declares")
        return outputs

    def _singly(self, given: Sequence[npt.NDArray[Any]], count: int) -> Sequence[FloatArray]:
        parts = [
            self._run([array[i : i + 1] if each else array for array, each in zip(given, self._items, strict=True)])
            for i in range(count)
        ]
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    def _run(self, arrays: Sequence[npt.NDArray[Any]]) -> Sequence[FloatArray]:
        """One call of the file, in its own order and types."""
        wanted, promised = self._wanted
        outputs = [np.asarray(output, np.float32) for output in super().__call__(*arrays)[: len(promised)]]
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
        return outputs

    def _arranged(
        self, inputs: Sequence[Shape] | Mapping[str, Shape], optional: Mapping[str, Shape]
    ) -> tuple[Sequence[int], tuple[Shape, ...]]:
        """Place of each array that a call is given among the file's inputs, and the shapes in the file's order."""
        if not isinstance(inputs, Mapping):
            return range(len(inputs)), tuple(inputs)
        shapes = {**inputs, **{name: shape for name, shape in optional.items() if self.has(name)}}
        names = [tensor.name for tensor in self.inputs]
        if sorted(names) != sorted(shapes):
            raise ModelError(
                f"{self._file}: expected inputs {', '.join(inputs)} but found {', '.join(names)}; "
                "this file is not the model it is named after"
            )
        return [names.index(name) for name in shapes], tuple(shapes[name] for name in names)

    def _check(self, role: str, wanted: Sequence[Shape], found: Sequence[Tensor]) -> None:
        if not _all_fit(wanted, found):
            raise ModelError(
                f"{self._file}: expected {role} {_text(wanted)} but found "
                f"{_text([tensor.shape for tensor in found])}; this file is not the model it is named after"
            )
        if other := {tensor.type for tensor in found} - set(_TYPES):
            raise ModelError(
                f"{self._file}: expected {role} of floating point but found {', '.join(sorted(other))}; "
                "convert the file to float32 inputs and outputs"
            )


def was_ended(error: ModelError) -> bool:
    """Whether an inference failed because it was cancelled or took too long; ONNX Runtime says so only in words."""
    return "terminate flag" in str(error.__cause__)


def require_finite(name: str, *outputs: npt.NDArray[np.floating]) -> None:
    """Refuse what a network gave, or what was made of it, when it is not finite.

    Raises:
        ModelError: names the model.
    """
    if not all(np.isfinite(output).all() for output in outputs):
        raise ModelError(f"{name}: the model gave values that are not finite; verify the file and the device")


def _all_fit(wanted: Sequence[Shape], found: Sequence[Tensor]) -> bool:
    return len(wanted) == len(found) and all(map(_fits, wanted, found))


def _fits(wanted: Shape, found: Tensor) -> bool:
    return len(wanted) == len(found.shape) and all(
        not isinstance(size, int)
        or want is None
        or size == want
        or (place == 0 and size == 1 and isinstance(want, str))
        for place, (want, size) in enumerate(zip(wanted, found.shape, strict=True))
    )


def _keeps(promised: Shape, found: Sequence[int], sizes: Mapping[str, int]) -> bool:
    return len(promised) == len(found) and all(
        want is None or size == (sizes.get(want, size) if isinstance(want, str) else want)
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
