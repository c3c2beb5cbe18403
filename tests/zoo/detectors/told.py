"""A graph that keeps what it is given and gives what it is told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mien.options import Device
from mien.runtime.graph import Graph
from mien.runtime.session import Runtime
from mien.types import FloatArray

_M = TypeVar("_M")


class Value:
    def __init__(self, name: str, shape: Sequence[int | str | None]) -> None:
        self.name, self.shape, self.type = name, list(shape), "tensor(float)"


class Told:
    """One input of `side` × `side` (None: free), and outputs that are declared as free as exports declare them."""

    def __init__(self, outputs: Sequence[FloatArray], side: int | None = None) -> None:
        self.outputs, self.side = list(outputs), side
        self.given: FloatArray = np.zeros(0, np.float32)

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        return self

    def get_providers(self) -> Sequence[str]:
        return ["CPUExecutionProvider"]

    def get_inputs(self) -> Sequence[Value]:
        return [Value("input", (1, 3, self.side or "h", self.side or "w"))]

    def get_outputs(self) -> Sequence[Value]:
        return [Value(str(i), output.shape) for i, output in enumerate(self.outputs)]

    def run(
        self, names: object, feeds: Mapping[str, npt.NDArray[Any]], options: object
    ) -> Sequence[npt.NDArray[np.float32]]:
        self.given = feeds["input"]
        return [output.copy() for output in self.outputs]

    def model(self, family: type[_M]) -> _M:
        """The adapter on this graph."""
        build: Any = family
        made: _M = build(Runtime("cpu", opener=self.open), b"")
        return made


def grid(size: tuple[int, int], stride: int, per_cell: int = 1) -> int:
    """Rows of one output."""
    return per_cell * -(-size[0] // stride) * -(-size[1] // stride)
