"""Graphs of fixed shapes that are recorded: the choice, and the binding to fixed memory, here that of the CPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

from mien.errors import ModelError
from mien.runtime import where
from mien.runtime.capture import Recorded, is_fixed
from mien.runtime.devices import DeviceSpec, Settings
from mien.runtime.graph import Graph, open_graph
from mien.runtime.session import Runtime, Session
from tests import stand_ins

SCALE = stand_ins.graph(
    [stand_ins.node("Mul", ["x", "two"], "y"), stand_ins.node("ReduceSum", ["x"], "sum", keepdims=0)],
    {"x": (2, 3)}, {"y": (2, 3), "sum": ()}, two=np.array(2, np.float32),
)  # fmt: skip
FREE = stand_ins.graph([stand_ins.node("Identity", ["x"], "y")], {"x": ("n", 3)}, {"y": ("n", 3)})


def recorded(threads: int = 0) -> Recorded:
    return Recorded(open_graph(SCALE, "cpu", threads), DeviceSpec("cpu"))


def test_a_bound_graph_gives_what_the_graph_gives_each_time_in_new_arrays() -> None:
    graph = recorded()
    kept = []
    for value in (1.0, -3.5):
        x = np.full((2, 3), value, np.float32)
        y, total = graph.run(None, {"x": x}, ort.RunOptions())
        np.testing.assert_array_equal(y, 2 * x)
        assert total == 6 * value
        kept.append(y)
    assert kept[0][0, 0] == 2.0
    turned = np.arange(6, dtype=np.float32).reshape(3, 2).T
    np.testing.assert_array_equal(graph.run(["y"], {"x": turned}, ort.RunOptions())[0], 2 * turned)
    assert list(graph.get_providers()) == ["CPUExecutionProvider"]
    assert [value.name for value in (*graph.get_inputs(), *graph.get_outputs())] == ["x", "y", "sum"]


def test_an_array_of_another_shape_is_refused_and_not_cut() -> None:
    with pytest.raises(ModelError, match=r"input x of \(1, 3\) does not fit the fixed memory \(\(2, 3\) expected\)"):
        recorded().run(None, {"x": np.zeros((1, 3), np.float32)}, ort.RunOptions())


def test_threads_share_the_memory_in_turn() -> None:
    graph, wrong = recorded(1), []

    def work(value: float) -> None:
        for _ in range(50):
            y = graph.run(["y"], {"x": np.full((2, 3), value, np.float32)}, ort.RunOptions())[0]
            if not (y == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(index),)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert wrong == []


def test_which_graphs_are_fixed() -> None:
    assert is_fixed(open_graph(SCALE, "cpu", 0))
    assert not is_fixed(open_graph(FREE, "cpu", 0))


class FakeCuda:
    """Stands for ONNX Runtime with CUDA: opens on the CPU, and may refuse to record."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.asked: list[bool] = []

    def open(
        self, model: Path | bytes, device: str, threads: int, settings: Settings | None = None, *, capture: bool = False
    ) -> Graph:
        self.asked.append(capture)
        if capture and self.refuses:
            raise state.Fail("[ONNXRuntimeError] : 1 : FAIL : This session cannot use the graph capture\n feature")
        return Claims(open_graph(model, "cpu", threads))


class Claims:
    """A graph that says it is on CUDA."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    def get_providers(self) -> Sequence[str]:
        return ["CUDAExecutionProvider"]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(where, "open_graph", fake.open)
    real = ort.OrtValue.ortvalue_from_numpy
    made = staticmethod(lambda array, device, index: real(array, "cpu", 0))
    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_numpy", made)
    return fake


def test_a_fixed_graph_is_recorded_when_asked_for(cuda: FakeCuda) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    session = Session(SCALE, Runtime("cuda", cuda_graphs=True))
    assert cuda.asked == [False, True]
    np.testing.assert_array_equal(session(x)[0], 2 * x)
    assert session.notes == ()
    Session(SCALE, Runtime("cuda"))
    Session(FREE, Runtime("cuda", cuda_graphs=True))
    assert cuda.asked[2:] == [False, False]


def test_what_cannot_be_recorded_runs_as_it_is_with_a_note(cuda: FakeCuda) -> None:
    cuda.refuses = True
    session = Session(SCALE, Runtime("cuda", cuda_graphs=True), name="net")
    assert cuda.asked == [False, True, False]
    np.testing.assert_array_equal(session(np.ones((2, 3), np.float32))[1], 6)
    (note,) = session.notes
    assert note.startswith("net: not recorded as a CUDA graph ([ONNXRuntimeError] : 1 : FAIL : This session cannot")
    assert "\n" not in note


def test_waiting_for_the_memory_is_not_running(cuda: FakeCuda) -> None:
    """Else calls that wait for each other count as hung."""
    session, x = Session(SCALE, Runtime("cuda", cuda_graphs=True)), np.ones((2, 3), np.float32)
    (replica,) = session.replicas
    graph = replica._graph
    assert isinstance(graph, Recorded)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(session(x)[0])) for _ in range(3)]
    with graph.turn:
        for thread in threads:
            thread.start()
        threads[0].join(0.2)
        assert all(thread.is_alive() for thread in threads)
        assert replica.running == set()
    for thread in threads:
        thread.join(20)
    assert len(results) == 3 and all((result == 2).all() for result in results)
