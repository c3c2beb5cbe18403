"""Graphs of fixed shapes whose work is recorded once and replayed (CUDA graphs)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from mien.runtime.binding import FixedBinding
from mien.runtime.devices import DeviceSpec
from mien.runtime.graph import Graph, Value, tensors
from mien.runtime.where import Runtime

KINDS = ("cuda", "tensorrt")
REFUSALS = (state.Fail, state.RuntimeException, state.EPFail, state.NotImplemented, state.InvalidArgument, RuntimeError)
"""What ONNX Runtime raises when it cannot open a graph for recording."""
_FLOATS = ("tensor(float)", "tensor(float16)")


def recorded(
    runtime: Runtime, model: Path | bytes, spec: DeviceSpec, threads: int, *, half: bool = False
) -> tuple[Graph, str]:
    """The graph as it is opened there, recorded where that is asked for and possible, and a note where it is not.

    Whether all dimensions are fixed is known only of an open graph, so that it is opened twice. ONNX Runtime refuses
    to record one of which a part falls to the CPU.

    Args:
        half: see `Runtime.open`.
    """
    graph = runtime.open(model, spec, threads, half=half)
    if not runtime.cuda_graphs or spec.kind not in KINDS or not is_fixed(graph):
        return graph, ""
    del graph  # there may be no room for both
    try:
        return Recorded(runtime.open(model, spec, threads, capture=True, half=half), spec), ""
    except REFUSALS as error:
        text = " ".join(str(error).split())[:200]
        return runtime.open(model, spec, threads, half=half), f"not recorded as a CUDA graph ({text})"


def is_fixed(graph: Graph) -> bool:
    """Whether it takes and gives arrays of one shape only, of a type that can be recorded here."""
    values = tensors([*graph.get_inputs(), *graph.get_outputs()])
    return all(value.type in _FLOATS and all(isinstance(size, int) for size in value.shape) for value in values)


class Recorded:
    """A graph that reads and writes the same memory of the device at each run, as a recording needs.

    The first run records. Only one thread runs at a time, since they share that memory. The binding is tested on the
    CPU; a recording was not made on a GPU yet.

    Args:
        graph: a session of ONNX Runtime that was opened for recording.
    """

    def __init__(self, graph: Any, spec: DeviceSpec) -> None:
        self._graph = graph
        self.turn = threading.RLock()
        """Held during a run. Who measures how long runs take holds it before, since waiting is no running."""
        self._binding = FixedBinding(graph, spec)

    def get_providers(self) -> Sequence[str]:
        """See `Graph`."""
        providers: Sequence[str] = self._graph.get_providers()
        return providers

    def get_inputs(self) -> Sequence[Value]:
        """See `Graph`."""
        values: Sequence[Value] = self._graph.get_inputs()
        return values

    def get_outputs(self) -> Sequence[Value]:
        """See `Graph`."""
        values: Sequence[Value] = self._graph.get_outputs()
        return values

    def run(
        self, names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions
    ) -> Sequence[npt.NDArray[np.float32]]:
        """See `Graph`.

        Raises:
            ModelError: an array of another shape than the graph's.
        """
        with self.turn:  # the outputs are valid until the next run only
            outputs = self._binding(feeds, options)
            return [outputs[name].numpy() for name in (outputs if names is None else names)]
