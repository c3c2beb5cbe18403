"""Which provider runs each part of a graph, and how long a run takes, by ONNX Runtime's own profile."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import MienError, ModelError
from mien.runtime.devices import DeviceSpec, Settings, providers
from mien.runtime.graph import NUMPY_TYPES, open_graph, session_options

SIDE = 320
"""Of free dimensions that are not the first: a picture's side that all detectors take."""
_SHAPE_WORK = """
    Shape Size Gather Unsqueeze Squeeze Concat Cast Slice Range Mul Add Sub Div Floor Ceil Constant ConstantOfShape
    Equal Where Expand Reshape MemcpyToHost MemcpyFromHost
"""
"""Operations that compute sizes; ONNX Runtime leaves them to the CPU on purpose."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a graph ran."""

    nodes: Mapping[str, int]
    """Operations by provider."""
    on_cpu: tuple[str, ...]
    """Kinds of operations that fell to the CPU, other than those that compute sizes."""


def read_profile(events: Sequence[Mapping[str, Any]]) -> Placement:
    """Placement from the events of a profile."""
    work = {
        str(event["name"]): (str(event["args"]["provider"]), str(event["args"].get("op_name", "")))
        for event in events
        if event.get("cat") == "Node" and event.get("args", {}).get("provider")
    }
    fallen = {kind for provider, kind in work.values() if provider == "CPUExecutionProvider"}
    return Placement(
        Counter(provider for provider, _ in work.values()), tuple(sorted(fallen - set(_SHAPE_WORK.split())))
    )


def placement(model: Path | bytes, spec: DeviceSpec, settings: Settings | None = None) -> Placement:
    """Runs zeros once, and tells where each operation ran.

    Raises:
        ModelError: it cannot be opened, or does not take the zeros.
    """
    with tempfile.TemporaryDirectory() as folder, _told():
        options = session_options(0)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        data = str(model) if isinstance(model, Path) else model
        asked = list(providers(spec, settings or Settings()))
        graph = ort.InferenceSession(data, options, providers=asked, enable_fallback=0)
        graph.run(None, zeros(graph))
        return read_profile(json.loads(Path(graph.end_profiling()).read_bytes()))


def milliseconds(model: Path | bytes, spec: DeviceSpec, runs: int = 5) -> float:
    """Median time of a run with zeros, after one that does not count.

    Raises:
        ModelError: it cannot be opened, or does not take the zeros.
        DeviceError: this ONNX Runtime was built without the device.
    """
    with _told():
        graph = open_graph(model, str(spec), 0)
        feeds, options = zeros(graph), ort.RunOptions()
        times = []
        for _ in range(runs + 1):
            started = perf_counter()
            graph.run(None, feeds, options)
            times.append(perf_counter() - started)
        return 1000 * median(times[1:])


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except MienError:
        raise
    except Exception as error:
        raise ModelError(" ".join(str(error).split())[:300] or type(error).__name__) from error


def zeros(graph: Any) -> dict[str, npt.NDArray[Any]]:
    """An input of each name: one item, free sides of `SIDE`."""
    return {
        value.name: np.zeros(
            [size if isinstance(size, int) else (SIDE if place else 1) for place, size in enumerate(value.shape)],
            NUMPY_TYPES[value.type],
        )
        for value in graph.get_inputs()
    }


def probe() -> bytes:
    """A tiny graph, to see whether a device loads: y = x · x of 4×4."""
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 4)) for name in "xy"]
    made = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "probe", info[:1], info[1:])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())
