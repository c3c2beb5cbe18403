"""A device that does and fails as told, in place of ONNX Runtime."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.options import Device
from mien.runtime.graph import PROVIDERS, Graph
from mien.runtime.session import Fallback, Session
from mien.runtime.where import Runtime

ARENA = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. "
    "Name:'/conv' Status Message: \n/onnxruntime/core/framework/bfc_arena.cc:376 "
    "void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) "
    "Failed to allocate memory for requested buffer of size 939524096\n"
)


@dataclass
class Value:
    name: str
    shape: Sequence[int | str | None]
    type: str = "tensor(float)"


@dataclass(eq=False)
class FakeDevice:
    """A device that fails as told, and the graphs that were opened on it."""

    fails: Callable[[str, int], bool] = lambda device, items: False
    error: Callable[[], BaseException] = lambda: RuntimeError(ARENA)
    opening: Callable[[str], bool] = lambda device: False
    inputs: Sequence[Value] = (Value("x", ("batch", 3)), Value("shift", (1, 3)))
    outputs: Sequence[Value] = (Value("y", ("batch", 3)), Value("sums", ("batch",)))
    more: int = 0
    """Results beyond the items."""
    missing: Sequence[str] = ()
    """Kinds in whose place ONNX Runtime takes the CPU without a word."""
    opened: list[str] = field(default_factory=list)
    models: list[Path | bytes] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    graphs: list[weakref.ref[Any]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Graphs alive when one was opened."""

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        self.held.append(sum(graph() is not None for graph in self.graphs))
        self.opened.append(device)
        self.models.append(model)
        if self.opening(device):
            raise self.error()
        graph = Opened(self, device)
        self.graphs.append(weakref.ref(graph))
        return graph

    def session(self, device: Device = "cuda", fallback: Fallback = "none", **runtime: Any) -> Session:
        return Session(b"", Runtime(device, fallback, self.open, **runtime), name="net")


class Opened:
    """y = 2x + shift, and the sums of x."""

    def __init__(self, owner: FakeDevice, device: Device) -> None:
        self.owner, self.device = owner, device

    def get_providers(self) -> Sequence[str]:
        kind = self.device.partition(":")[0]
        return [PROVIDERS["cpu" if kind in self.owner.missing else kind]]

    def get_inputs(self) -> Sequence[Value]:
        return self.owner.inputs

    def get_outputs(self) -> Sequence[Value]:
        return self.owner.outputs

    def run(self, names: object, feeds: Mapping[str, npt.NDArray[Any]], options: object) -> Sequence[npt.NDArray[Any]]:
        x = feeds["x"]
        self.owner.batches.append(len(x))
        self.owner.ran.append(self.device)
        if self.owner.fails(self.device, len(x)):
            raise self.owner.error()
        x = np.concatenate([x, x[: self.owner.more]])
        return [2 * x + feeds["shift"], x.sum(1)]
