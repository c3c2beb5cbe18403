"""Files of one item: made free where the graph allows it, kept once, and run in parts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from google.protobuf.message import EncodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.shape_inference import InferenceError

from benchmarks.standins import STAND_INS
from mien.errors import ModelError
from mien.runtime import batching
from mien.runtime.batching import Run, best_batch, difference, free_batch, run_batch, run_on_cpu
from mien.runtime.session import Session
from tests.stand_ins import graph, node

TINY = 0.04
SHAPE_1_12 = np.array([1, 12])


def freed(model: bytes) -> bytes:
    made = free_batch(model)
    assert isinstance(made, bytes)
    return made


def agrees(model: bytes, made: bytes, count: int = 5) -> None:
    """Any number of items in one batch gives what the original gives singly."""
    original, batch = Session(model, "cpu"), Session(made, "cpu")
    assert all(tensor.shape[0] == "batch" for tensor in (*batch.inputs, *batch.outputs))
    random = np.random.default_rng(9)
    arrays = [random.random((count, *(int(size or 0) for size in t.shape[1:])), np.float32) for t in original.inputs]
    for found, wanted in zip(batch(*arrays), run_batch(original, arrays), strict=True):
        assert found.shape == wanted.shape
        assert difference(found, wanted) <= 1e-4


def one(*nodes: onnx.NodeProto, output: Sequence[int], opset: int = 17, **constants: npt.NDArray[Any]) -> bytes:
    """A graph from x (1×3×4×4) to y."""
    made = helper.make_graph(
        list(nodes), "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


GRAPHS = {
    "no shapes": one(node("Relu", ["x"], "y"), output=(1, 3, 4, 4)),
    "reshape to 1, rest": one(node("Reshape", ["x", "s"], "y"), output=(1, 48), s=np.array([1, -1])),
    "reshape to all sizes": one(node("Reshape", ["x", "s"], "y"), output=(1, 12, 4), s=np.array([1, 12, 4])),
    "reshape that copies": one(node("Reshape", ["x", "s"], "y"), output=(1, 48), s=np.array([0, -1])),
    "reshape and back, through rows": one(
        node("Reshape", ["x", "rows"], "r"), node("Neg", ["r"], "n"), node("Reshape", ["n", "s"], "y"),
        output=(1, 3, 4, 4), rows=np.array([12, 4]), s=np.array([1, 3, 4, 4]),
    ),
    "the batch moved behind, as attention does": one(
        node("Reshape", ["x", "s"], "a"), node("Transpose", ["a"], "b", perm=[2, 0, 1]),
        node("Reshape", ["b", "heads"], "c"), node("Transpose", ["c"], "d", perm=[1, 0, 2]),
        node("Reshape", ["d", "back"], "e"), node("Neg", ["e"], "y"),
        output=(1, 3, 16), s=np.array([1, 3, 16]), heads=np.array([16, 3, 1]), back=np.array([1, 3, 16]),
    ),
    "resize to sizes twice as large": one(
        node("Resize", ["x", "", "", "s"], "y", mode="linear"), output=(1, 3, 8, 8), s=np.array([1, 3, 8, 8])
    ),
    "resize to sizes that no scale gives": one(
        node("Resize", ["x", "", "", "s"], "y", mode="linear"), output=(1, 3, 7, 5), s=np.array([1, 3, 7, 5])
    ),
    "slice of the only item": one(
        node("Slice", ["x", "a", "b"], "y"), output=(1, 2, 4, 4), a=np.array([0, 1]), b=np.array([1, 3])
    ),
    "expand": one(
        node("ReduceMean", ["x"], "m", axes=[2, 3], keepdims=1), node("Expand", ["m", "s"], "y"),
        output=(1, 3, 4, 4), s=np.array([1, 3, 4, 4]),
    ),
    "squeeze and unsqueeze around the batch": one(
        node("ReduceMax", ["x"], "m", axes=[2], keepdims=1), node("Squeeze", ["m", "two"], "q"),
        node("Unsqueeze", ["q", "none"], "u"), node("Reshape", ["u", "s"], "y"),
        output=(1, 12), two=np.array([2]), none=np.array([0]), s=np.array([1, 12]),
    ),
    "argmax without its dimension": one(
        node("ArgMax", ["x"], "i", axis=3, keepdims=0), node("Cast", ["i"], "f", to=1),
        node("Reshape", ["f", "s"], "y"), output=(1, 12), s=np.array([1, 12]),
    ),
    "a constant node": one(
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array([1, 48]))),
        node("Reshape", ["x", "s"], "y"), output=(1, 48),
    ),
    "unsqueeze by attribute": one(
        node("ReduceMean", ["x"], "m", axes=[1], keepdims=0), node("Unsqueeze", ["m"], "u", axes=[1]),
        node("Reshape", ["u", "s"], "y"), output=(1, 16), opset=11, s=np.array([1, 16]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_of_one_item_takes_any_number(name: str) -> None:
    agrees(GRAPHS[name], freed(GRAPHS[name]))


MERGING = {
    "mean over the batch": one(node("ReduceMean", ["x"], "y", axes=[0, 2, 3], keepdims=1), output=(1, 3, 1, 1)),
    "softmax over the batch": one(
        node("Softmax", ["x"], "s", axis=0), node("Add", ["s", "x"], "y"), output=(1, 3, 4, 4)
    ),
    "rows of all items": one(node("Reshape", ["x", "s"], "y"), output=(12, 4), s=np.array([-1, 4])),
    "an output that never changes": one(node("Sub", ["x", "x"], "y"), output=(1, 3, 4, 4)),
    "weights made of the item": one(node("Conv", ["x", "x"], "y"), output=(1, 1, 1, 1)),
    "an output that is not finite": one(node("Log", ["x"], "y"), output=(1, 3, 4, 4)),
}


@pytest.mark.parametrize("name", MERGING)
def test_a_graph_that_cannot_be_proved_is_left_alone(name: str) -> None:
    assert free_batch(MERGING[name]) is None


def test_a_free_graph_is_left_alone() -> None:
    assert free_batch(graph([node("Relu", ["x"], "y")], {"x": ("n", 3)}, {"y": ("n", 3)})) is None


def test_one_free_name_in_and_a_fixed_one_out_are_made_one() -> None:
    agrees_shape = Session(freed(graph([node("Relu", ["x"], "y")], {"x": ("n", 3)}, {"y": (1, 3)})), "cpu")
    assert agrees_shape.outputs[0].shape == ("batch", 3)


def test_a_number_of_the_call_keeps_its_shape() -> None:
    model = graph([node("Mul", ["x", "weight"], "y")], {"x": (1, 3), "weight": (1,)}, {"y": (1, 3)})
    session = Session(freed(model), "cpu")
    assert [tensor.shape for tensor in session.inputs] == [("batch", 3), (1,)]
    x = np.ones((4, 3), np.float32)
    assert run_batch(session, [x, np.array([3], np.float32)])[0].tolist() == (3 * x).tolist()


@pytest.mark.parametrize("name", ["inswapper_128", "2dfan4", "xseg_1"])
def test_networks_with_the_structure_of_public_files(name: str) -> None:
    model = STAND_INS[name].make(TINY).SerializeToString()
    agrees(model, freed(model), 3)


@pytest.mark.parametrize("name", ["gfpgan_1.4", "scrfd_10g"])
def test_public_structures_that_merge_their_items(name: str) -> None:
    assert free_batch(STAND_INS[name].make(TINY).SerializeToString()) is None


@given(st.permutations(range(4)), st.sampled_from([(1, 48), (1, 6, 8), (1, 2, 2, 12)]))
@settings(deadline=None, max_examples=30)
def test_what_is_freed_always_agrees(perm: list[int], sizes: tuple[int, ...]) -> None:
    back = list(np.argsort(perm))
    model = one(
        node("Transpose", ["x"], "t", perm=perm), node("Relu", ["t"], "r"), node("Transpose", ["r"], "b", perm=back),
        node("Reshape", ["b", "s"], "y"), output=sizes, s=np.array(sizes),
    )  # fmt: skip
    agrees(model, freed(model), 2)


def test_kept_by_content_so_that_the_proof_is_done_once(tmp_path: Path) -> None:
    opened: list[Path | bytes] = []

    def opener(model: Path | bytes) -> batching.Run:
        opened.append(model)
        return run_on_cpu(model)

    model = GRAPHS["reshape to 1, rest"]
    paths = [free_batch(model, tmp_path, opener=opener) for _ in range(2)]
    assert isinstance(paths[0], Path) and paths[0] == paths[1]
    assert len(opened) == 2
    file = tmp_path / "net.onnx"
    file.write_bytes(model)
    assert free_batch(file, tmp_path, opener=opener) == paths[0]
    assert free_batch(MERGING["rows of all items"], tmp_path, opener=opener) is None
    assert free_batch(MERGING["mean over the batch"], tmp_path, opener=opener) is None
    tried = len(opened)
    assert free_batch(MERGING["mean over the batch"], tmp_path, opener=opener) is None
    assert len(opened) == tried
    assert not list(tmp_path.glob("**/*.part"))


def test_many_threads_prove_it_once(tmp_path: Path) -> None:
    opened: list[Path | bytes] = []

    def opener(model: Path | bytes) -> batching.Run:
        opened.append(model)
        return run_on_cpu(model)

    found: list[Path | bytes | None] = []
    model = GRAPHS["expand"]
    threads = [
        threading.Thread(target=lambda: found.append(free_batch(model, tmp_path, opener=opener))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8
    assert len(opened) == 2


def test_memory_that_runs_out_is_no_verdict(tmp_path: Path) -> None:
    def opener(model: Path | bytes) -> batching.Run:
        raise MemoryError

    with pytest.raises(MemoryError):
        free_batch(GRAPHS["expand"], tmp_path, opener=opener)
    assert free_batch(GRAPHS["expand"], tmp_path) is not None


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match=r"net\.onnx: is no ONNX file that can be read; verify the file"):
        free_batch(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"none\.onnx: cannot be read \(No such file"):
        free_batch(tmp_path / "none.onnx", tmp_path)


class Clock:
    """Seconds that pass only when something is done."""

    def __init__(self, cost: Mapping[int, float]) -> None:
        self.now, self.cost, self.calls = 0.0, cost, list[int]()

    def __call__(self) -> float:
        return self.now

    def work(self, size: int) -> None:
        self.calls.append(size)
        self.now += self.cost[size]


@pytest.mark.parametrize(
    ("cost", "best"),
    [
        ({1: 0.1, 2: 0.1, 4: 0.1, 8: 0.1, 16: 0.1}, 16),
        ({1: 0.1, 2: 0.2, 4: 0.4, 8: 0.8, 16: 1.6}, 1),
        ({1: 0.1, 2: 0.15, 4: 0.2, 8: 0.39, 16: 0.79}, 4),
    ],
    ids=["free", "no gain", "gain up to four"],
)
def test_the_smallest_size_near_the_best_rate(cost: dict[int, float], best: int) -> None:
    clock = Clock(cost)
    assert best_batch(clock.work, clock=clock, seconds=60) == best


def test_memory_that_runs_out_ends_the_probe() -> None:
    clock = Clock({1: 0.1, 2: 0.11, 4: 0.12})

    def work(size: int) -> None:
        if size == 8:
            raise RuntimeError("CUDA failure 2: out of memory")
        clock.work(size)

    assert best_batch(work, clock=clock, seconds=60) == 4
    with pytest.raises(RuntimeError, match="out of memory"):
        best_batch(work, (8, 16), clock=clock)


def test_another_failure_is_raised() -> None:
    def work(size: int) -> None:
        if size == 2:
            raise ModelError("net: inference failed")

    with pytest.raises(ModelError):
        best_batch(work)


def test_time_ends_the_probe() -> None:
    clock = Clock({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0, 16: 1.0})
    assert best_batch(clock.work, clock=clock, seconds=5.0) == 2
    assert set(clock.calls) == {1, 2}


def test_the_choice_is_kept_for_its_key(tmp_path: Path) -> None:
    clock = Clock(dict.fromkeys((1, 2, 4, 8, 16), 0.1))
    for key in (("abc", "GPU"), ("abc", "GPU"), ("abc", "another GPU")):
        assert best_batch(clock.work, clock=clock, cache=tmp_path, key=key, seconds=60) == 16
    assert clock.calls.count(16) == 2 * 3
    next(tmp_path.glob("probe/*.json")).write_text("{")
    assert best_batch(clock.work, clock=clock, cache=tmp_path, key=("abc", "GPU"), seconds=60) == 16


class Counting(Session):
    """Records the size of each call."""

    def __init__(self, model: bytes) -> None:
        super().__init__(model, "cpu", name="net")
        self.sizes: list[int] = []

    def __call__(self, *arrays: npt.NDArray[Any]) -> Any:
        self.sizes.append(len(arrays[0]))
        return super().__call__(*arrays)


def test_a_fixed_graph_goes_item_by_item_and_a_free_one_in_parts() -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3) - 7
    fixed = Counting(graph([node("Neg", ["x"], "y")], {"x": (1, 3)}, {"y": (1, 3)}))
    free = Counting(graph([node("Neg", ["x"], "y")], {"x": ("n", 3)}, {"y": ("n", 3)}))
    for session, size, sizes in ((fixed, 4, [1] * 5), (free, 2, [2, 2, 1]), (free, None, [5]), (free, 8, [5])):
        session.sizes.clear()
        assert run_batch(session, [x], size)[0].tolist() == (-x).tolist()
        assert session.sizes == sizes


def test_inputs_of_different_counts_and_outputs_of_other_rows() -> None:
    add = Session(
        graph([node("Add", ["a", "b"], "y")], {"a": ("n", 3), "b": ("n", 3)}, {"y": ("n", 3)}), "cpu", name="n"
    )
    with pytest.raises(ModelError, match=r"^n: was given inputs of \[2, 3\] items; give as many of each$"):
        run_batch(add, [np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)])
    rows = Session(MERGING["rows of all items"], "cpu", name="rows")
    with pytest.raises(ModelError, match=r"^rows: gave 12×4 for 1 items; give it one item at a time$"):
        run_batch(rows, [np.zeros((2, 3, 4, 4), np.float32)])


def test_difference_is_relative_and_infinite_where_it_means_nothing() -> None:
    a = np.array([1.0, 100.0])
    assert difference(a + 1, a) == pytest.approx(0.01)
    assert difference(a[:1], a) == float("inf")
    assert difference(a, a * np.nan) == float("inf")


def test_a_failure_that_passes_is_no_verdict(tmp_path: Path) -> None:
    model = graph([node("Relu", ["x"], "y")], {"x": (1, 3)}, {"y": (1, 3)})
    fails = [True]

    def flaky(file: Path | bytes) -> Run:
        if fails and fails.pop():
            raise RuntimeError("Resource temporarily unavailable")
        return run_on_cpu(file)

    assert free_batch(model, tmp_path, opener=flaky) is None
    assert isinstance(free_batch(model, tmp_path, opener=flaky), Path)


MISREAD = graph(
    [
        node("Transpose", ["x"], "t", perm=[1, 0]), node("Compress", ["t", "c"], "f"),
        node("Transpose", ["f"], "g", perm=[0]), node("Reshape", ["g", "s"], "y"),
    ],
    {"x": (1, 4)}, {"y": (1, 4)}, {}, c=np.ones(4, bool), s=np.array([1, 4]),
)  # fmt: skip
"""Compress flattens, which no rule knows, so that the batch is sought in a dimension that is not there."""


@pytest.mark.parametrize(
    "error",
    [None, ValueError("x"), KeyError("x"), ZeroDivisionError(), EncodeError("too large"), InferenceError("no shape")],
)
def test_graphs_that_the_rules_misread_cannot_be_freed(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error is None:
        assert Session(MISREAD, "cpu")(np.ones((1, 4), np.float32))[0].shape == (1, 4)
    else:

        def free(self: object) -> None:
            raise error

        monkeypatch.setattr("mien.runtime.axes.Freer.free", free)
    assert free_batch(MISREAD, tmp_path) is None
    assert len(list(tmp_path.glob("batch/*.json"))) == 1
