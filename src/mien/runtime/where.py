"""Where networks run, and what they share there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from mien.options import Device
from mien.runtime.devices import DeviceSpec, Prepared, Settings
from mien.runtime.engine_job import Jobs
from mien.runtime.graph import Graph, Opener, open_graph
from mien.runtime.meanwhile import open_tensorrt
from mien.runtime.pool import Pool

Fallback: TypeAlias = Literal["none", "cpu"]
Prepare: TypeAlias = Callable[[Path | bytes, DeviceSpec], Prepared]
"""From a file or its bytes and one device, what to open there instead."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where networks run, and what they do when that device has no memory left even for one item."""

    device: Device = "auto"
    fallback: Fallback = "none"
    opener: Opener | None = None
    """Opens a graph; tests put one here that fails as a device would. None: ONNX Runtime, with `settings`."""
    settings: Settings = field(default_factory=Settings)
    cuda_graphs: bool = False
    """Whether graphs whose every dimension is fixed are recorded and replayed (CUDA and TensorRT)."""
    prepare: Prepare | None = None
    """Makes a graph ready for a device other than the CPU; called once, before it is opened there first."""
    pool: Pool = field(default_factory=Pool, compare=False, repr=False)
    jobs: Jobs = field(default_factory=Jobs, compare=False, repr=False)
    """TensorRT engines that are being built; they go on while no graph that waits for them is open."""

    def open(
        self, model: Path | bytes, spec: DeviceSpec, threads: int, *, capture: bool = False, half: bool = False
    ) -> Graph:
        """The graph on one device, or, since ONNX Runtime only warns, on another: compare its providers.

        Args:
            capture: record and replay its work.
            half: the model is one in half precision that passed its test.

        Raises:
            DeviceError: this ONNX Runtime was built without the device.
            Exception: whatever ONNX Runtime says of the file.
        """
        if self.opener is not None:
            return self.opener(model, str(spec), threads)
        if spec.kind == "tensorrt" and self.settings.cache is not None and not capture:
            return open_tensorrt(
                model, spec, threads, self.settings, half=half, open_one=open_graph, make_job=self.jobs.get
            )
        return open_graph(model, str(spec), threads, self.settings, capture=capture)


Where: TypeAlias = Device | Runtime
