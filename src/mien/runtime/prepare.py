"""What is done to a model before a GPU opens it: a free batch, half precision, and the look for its TensorRT engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError
from mien.runtime import batching
from mien.runtime.batching import Run, RunOpener, free_batch
from mien.runtime.convert import half
from mien.runtime.devices import DeviceSpec, Kind, Prepared, Settings
from mien.runtime.engines import Order, built
from mien.runtime.graph import open_graph
from mien.runtime.kept import sha256_of
from mien.runtime.meanwhile import engine_order
from mien.runtime.nvml import gpu_name

Precision: TypeAlias = Literal["auto", "fp32", "fp16"]

BATCH_KINDS: tuple[Kind, ...] = ("cuda", "tensorrt", "openvino", "directml", "rocm", "migraphx")
HALF_KINDS: tuple[Kind, ...] = ("cuda", "tensorrt", "directml", "rocm", "migraphx")
"""Kinds that compute in the file's own precision; OpenVINO and CoreML choose for themselves."""
WORTH = 16_000_000
"""Bytes from which `auto` converts: below, half precision saves no time that matters, and detectors lose places."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """A `where.Prepare`: from a model and one device to what is opened there. Results are kept, so that it is quick.

    None of it raises for a model that cannot be made faster: it is then opened as it is, and a note says so.
    """

    cache: Path
    """Folder where what is made is kept."""
    precision: Precision = "auto"
    """`fp16`: half precision for every model that passes the test; `auto`: for large ones; `fp32`: never."""
    settings: Settings = field(default_factory=Settings)
    """How the device is used, for the test and to know its engine."""
    opener: RunOpener | None = None
    """Runs a graph on the device for the test of half precision; by default through `graph.open_graph`."""

    def __call__(self, model: Path | bytes, spec: DeviceSpec) -> Prepared:
        """What to open on that device.

        Raises:
            ModelError: the file cannot be read.
            OutputError: the cache cannot be written to.
            DeviceError, MemoryError: the device is not there, or has no memory left.
        """
        if spec.kind not in BATCH_KINDS:
            return Prepared(model)
        sha256, notes = sha256_of(model), list[str]()
        by_hand = self._built_by_hand(sha256, spec)
        if by_hand is not None:
            return Prepared(by_hand, ("done with the TensorRT engine that was built by hand",))
        made: Path | bytes = model
        freed = free_batch(model, self.cache, sha256=sha256)
        if freed is not None:
            made, sha256 = freed, f"{sha256} freed {batching.RULES}"
        if spec.kind in HALF_KINDS and self._wanted(made):
            opener = self.opener or _opener(spec, self.settings)
            device = (spec.kind, gpu_name(spec.index), ort.__version__)
            twin = half(made, opener, device=device, cache=self.cache, sha256=sha256)
            if twin is not None:
                made = twin.model or made
                notes.append(twin.note)
        if spec.kind == "tensorrt":
            return self._engine(made, spec, notes)
        return Prepared(made, tuple(notes))

    def _wanted(self, model: Path | bytes) -> bool:
        size = len(model) if isinstance(model, bytes) else model.stat().st_size
        return self.precision == "fp16" or (self.precision == "auto" and size >= WORTH)

    def _engine(self, model: Path | bytes, spec: DeviceSpec, notes: Sequence[str]) -> Prepared:
        """The same file, with a note where its engine is not there yet: `meanwhile.open_tensorrt` looks itself."""
        order = engine_order(model, spec, self.settings)
        if order is None or self.settings.cache is None:
            return Prepared(model, (*notes, "ONNX Runtime builds the TensorRT engine itself, which takes minutes"))
        if built(order, self.settings.cache) is None:
            return Prepared(model, (*notes, "done with CUDA until its TensorRT engine is built"))
        return Prepared(model, tuple(notes))

    def _built_by_hand(self, sha256: str, spec: DeviceSpec) -> Path | None:
        """The engine that `mien models build-engine` left for this file."""
        if spec.kind != "tensorrt" or self.settings.cache is None:
            return None
        flags = (False,) if self.precision == "fp32" else (True, False)
        try:
            found = [built(Order("", sha256, fp16, device=spec.index), self.settings.cache) for fp16 in flags]
        except DeviceError:  # no `tensorrt` package
            return None
        return next((path for path in found if path is not None), None)


def _opener(spec: DeviceSpec, settings: Settings) -> RunOpener:
    """Graphs on the device: CUDA in TensorRT's place, which would build an engine for each test."""
    kind: Kind = "cuda" if spec.kind == "tensorrt" else spec.kind

    def opened(model: Path | bytes) -> Run:
        graph = open_graph(model, str(DeviceSpec(kind, spec.ids)), 0, settings)
        options = ort.RunOptions()
        options.log_severity_level = 4

        def run(feeds: Mapping[str, npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
            return graph.run(None, feeds, options)

        return run

    return opened
