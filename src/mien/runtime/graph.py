"""Opening an ONNX graph on a device; the only importer of ONNX Runtime beside `session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError
from mien.options import Device

PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}


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
"""From a file or its bytes, a device other than `auto` and a number of threads (0: all)."""


def available_devices() -> tuple[Device, ...]:
    """Devices whose provider the installed ONNX Runtime was built with, best first."""
    built = set(ort.get_available_providers())
    devices: tuple[Device, ...] = ("cuda", "tensorrt", "cpu")
    return tuple(device for device in devices if PROVIDERS[device] in built)


def open_graph(model: Path | bytes, device: Device, threads: int) -> Graph:
    """The graph on that device, or, since ONNX Runtime only warns, on another: compare its providers.

    Raises:
        DeviceError: this ONNX Runtime was built without the device.
        Exception: whatever ONNX Runtime says of the file.
    """
    if PROVIDERS[device] not in ort.get_available_providers():
        raise DeviceError(
            f"device {device!r} is not in this ONNX Runtime (it offers {', '.join(available_devices())}); "
            "run `mien doctor` for the package to install, or choose --device cpu"
        )
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised; beside that it would be printed
    options.intra_op_num_threads = threads
    # Spinning workers starve the decode and encode threads that run beside the network.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    data = str(model) if isinstance(model, Path) else model
    graph: Graph = ort.InferenceSession(data, options, providers=[PROVIDERS[device]])
    return graph
