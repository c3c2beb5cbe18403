"""Opening an ONNX graph on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError
from mien.options import Device
from mien.runtime.devices import AUTO, PACKAGES, Kind, Settings, parse_device, providers
from mien.runtime.devices import PROVIDERS as PROVIDERS
from mien.runtime.libraries import preload

NUMPY_TYPES: Mapping[str, type[np.generic]] = MappingProxyType(
    {
        "tensor(float16)": np.float16,
        "tensor(float)": np.float32,
        "tensor(double)": np.float64,
        "tensor(int32)": np.int32,
        "tensor(int64)": np.int64,
        "tensor(uint8)": np.uint8,
        "tensor(bool)": np.bool_,
    }
)
"""NumPy's type of each of ONNX's."""


class Value(Protocol):
    """An input or output of a graph, as ONNX Runtime describes it."""

    @property
    def name(self) -> str:
        """Its name in the graph."""

    @property
    def shape(self) -> Sequence[int | str | None]:
        """A name, or None, for a free dimension."""

    @property
    def type(self) -> str:
        """Such as `tensor(float)`."""


class Graph(Protocol):
    """What is used of `onnxruntime.InferenceSession`."""

    def get_providers(self) -> Sequence[str]:
        """Providers that really loaded, best first."""

    def get_inputs(self) -> Sequence[Value]:
        """In the graph's order."""

    def get_outputs(self) -> Sequence[Value]:
        """In the graph's order."""

    def run(
        self, names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions
    ) -> Sequence[npt.NDArray[np.float32]]:
        """All outputs when `names` is None."""


Opener: TypeAlias = Callable[[Path | bytes, Device, int], Graph]
"""From a file or its bytes, one device other than `auto` and a number of threads (0: all)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, shape (int, or str for a free dimension) and ONNX type of an input or output."""

    name: str
    shape: tuple[int | str | None, ...]
    type: str


def tensors(values: Sequence[Value]) -> tuple[Tensor, ...]:
    """What a graph says of its inputs or outputs."""
    return tuple(Tensor(value.name, tuple(value.shape), value.type) for value in values)


def available_devices() -> tuple[Kind, ...]:
    """Kinds of devices whose provider the installed ONNX Runtime was built with, the CPU last."""
    built = set(ort.get_available_providers())
    return tuple(kind for kind in (*AUTO[:-1], "coreml", "cpu") if PROVIDERS[kind] in built)


def open_graph(
    model: Path | bytes, device: Device, threads: int, settings: Settings | None = None, *, capture: bool = False
) -> Graph:
    """The graph on one device, or, since ONNX Runtime only warns, on another: compare its providers.

    Args:
        settings: how that device is used.
        capture: record the work of a graph of fixed shapes once and replay it.

    Raises:
        DeviceError: this ONNX Runtime was built without the device.
        Exception: whatever ONNX Runtime says of the file.
    """
    spec = parse_device(device)
    if PROVIDERS[spec.kind] not in ort.get_available_providers():
        raise DeviceError(
            f"device {device!r} is not in this ONNX Runtime (it offers {', '.join(available_devices())}); "
            f"install {PACKAGES[spec.kind]}, in place of the ONNX Runtime that is there, or choose --device cpu"
        )
    if spec.kind in ("cuda", "tensorrt"):
        preload()
    options = session_options(threads)
    if spec.kind == "directml":  # it takes neither
        options.enable_mem_pattern = False
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    data = str(model) if isinstance(model, Path) else model
    settings = settings or Settings()
    if settings.cache is not None and spec.kind == "tensorrt":  # which makes no folder within one that is not there
        with suppress(OSError):
            settings.cache.mkdir(parents=True, exist_ok=True)
    asked = list(providers(spec, settings, capture=capture))
    # Its own way of falling back prints, and is told nobody.
    graph: Graph = ort.InferenceSession(data, options, providers=asked, enable_fallback=0)
    return graph


def session_options(threads: int) -> ort.SessionOptions:
    """What every graph is opened with."""
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised; beside that it would be printed
    options.intra_op_num_threads = threads
    # Spinning workers starve the decode and encode threads that run beside the network.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
