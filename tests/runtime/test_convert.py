"""Half precision: converted, tested, kept, and given up where it is too far off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, checker
from onnx.reference import ReferenceEvaluator

from benchmarks.standins import STAND_INS
from mien.runtime.batching import Run, run_on_cpu
from mien.runtime.convert import Half, converted, half
from mien.runtime.session import Session
from tests.stand_ins import graph, node

EYE = np.eye(32, dtype=np.float32)


def net(*nodes: onnx.NodeProto, **constants: npt.NDArray[Any]) -> bytes:
    """From x (n×32) to y; `eye` is a weight."""
    return graph(list(nodes), {"x": ("n", 32)}, {"y": ("n", "m")}, {}, eye=EYE, **constants)


PLAIN = net(node("MatMul", ["x", "eye"], "y"))
SQUARES = net(
    node("MatMul", ["x", "eye"], "a"), node("Mul", ["a", "thousand"], "b"), node("Mul", ["b", "b"], "c"),
    node("ReduceMean", ["c"], "d", axes=[1]), node("Sqrt", ["d"], "y"), thousand=np.array(1000, np.float32),
)  # fmt: skip
LARGE = net(
    node("MatMul", ["x", "eye"], "a"), node("Mul", ["a", "large"], "b"), node("Mul", ["b", "small"], "y"),
    large=np.array(1e8, np.float32), small=np.array(1e-8, np.float32),
)  # fmt: skip
HALF_ALREADY = graph(
    [node("Cast", ["x"], "h", to=10), node("MatMul", ["h", "eye"], "p"), node("Cast", ["p"], "y", to=1)],
    {"x": ("n", 32)}, {"y": ("n", 32)}, eye=EYE.astype(np.float16),
)  # fmt: skip


def weights(data: bytes) -> set[int]:
    return {tensor.data_type for tensor in onnx.load_model_from_string(data).graph.initializer}


def kinds(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_model_from_string(data).graph.node]


def overflowing(model: Path | bytes) -> Run:
    """The CPU, but infinite for what is computed in float16 between the first and the last node.

    ONNX Runtime's CPU provider computes it in float32, and so never overflows.
    """
    assert isinstance(model, bytes)
    run = run_on_cpu(model)
    if kinds(model)[-1] != "Cast":
        return run
    return lambda feeds: [output * np.inf for output in run(feeds)]


def test_inputs_and_outputs_stay_float32_and_weights_become_float16() -> None:
    found = half(PLAIN, run_on_cpu)
    assert found is not None and isinstance(found.model, bytes)
    assert found.note == "half precision"
    assert weights(found.model) == {TensorProto.FLOAT16}
    session = Session(found.model, "cpu")
    assert [tensor.type for tensor in (*session.inputs, *session.outputs)] == ["tensor(float)"] * 2
    x = np.random.default_rng(0).random((3, 32), np.float32)
    np.testing.assert_allclose(session(x)[0], x, rtol=1e-3)


def test_sums_of_squares_that_overflow_stay_float32_at_the_second_try() -> None:
    found = half(SQUARES, overflowing)
    assert found is not None and isinstance(found.model, bytes)
    assert found.note == "half precision, but for sums and divisions"
    # Between nodes that stay float32 there is no float16, in which the square of 1000 is infinite.
    assert kinds(found.model) == ["Cast", "MatMul", "Mul", "Cast", "Mul", "ReduceMean", "Sqrt", "Identity"]
    checker.check_model(onnx.load_model_from_string(found.model), full_check=True)
    np.testing.assert_allclose(Session(found.model, "cpu")(np.ones((1, 32), np.float32))[0], 1000, rtol=1e-3)


def test_what_is_too_far_off_stays_as_it_is_and_says_so() -> None:
    found = half(LARGE, run_on_cpu)
    assert found is not None and found.model is None
    assert found.note.startswith("full precision, since in half precision its outputs are off by ")


@pytest.mark.parametrize("model", [HALF_ALREADY, graph([node("Relu", ["x"], "y")], {"x": (1, 3)}, {"y": (1, 3)})])
def test_nothing_to_convert(model: bytes) -> None:
    assert half(model, run_on_cpu) is None


def test_weights_that_a_cast_makes_float32_are_converted() -> None:
    stored = graph(
        [node("Cast", ["h"], "w", to=1), node("MatMul", ["x", "w"], "y")], {"x": ("n", 32)}, {"y": ("n", 32)},
        h=EYE.astype(np.float16),
    )  # fmt: skip
    found = half(stored, run_on_cpu)
    assert found is not None and found.note == "half precision"


@pytest.mark.parametrize("name", ["inswapper_128", "arcface_w600k_r50"])
def test_networks_with_the_structure_of_public_files(name: str) -> None:
    model = STAND_INS[name].make(0.04).SerializeToString()
    found = half(model, run_on_cpu)
    assert found is not None and isinstance(found.model, bytes)
    assert len(found.model) < 0.75 * len(model)


class Opener:
    """The CPU, of which a device breaks half precision when told to."""

    def __init__(self, broken: bool = False) -> None:
        self.broken, self.opened = broken, 0

    def __call__(self, model: Path | bytes) -> Run:
        self.opened += 1
        data = model if isinstance(model, bytes) else model.read_bytes()
        run = run_on_cpu(model)
        if not self.broken or TensorProto.FLOAT16 not in weights(data):
            return run

        def wrong(feeds: Mapping[str, npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
            return [output * np.nan for output in run(feeds)]

        return wrong


def test_kept_by_file_and_verdict_by_device(tmp_path: Path) -> None:
    good, bad = Opener(), Opener(broken=True)
    first = half(PLAIN, good, device=("GPU A", "1.32"), cache=tmp_path)
    assert first is not None and isinstance(first.model, Path)
    assert half(PLAIN, good, device=("GPU A", "1.32"), cache=tmp_path) == first
    assert good.opened == 2
    second = half(PLAIN, bad, device=("GPU B", "1.32"), cache=tmp_path)
    assert second == Half(None, "full precision, since in half precision its outputs are not finite")
    assert half(PLAIN, bad, device=("GPU B", "1.32"), cache=tmp_path) == second
    assert bad.opened == 3
    assert half(PLAIN, good, device=("GPU B", "1.33"), cache=tmp_path) == first
    assert half(HALF_ALREADY, good, device=("GPU A", "1.32"), cache=tmp_path) is None
    assert half(HALF_ALREADY, bad, device=("GPU A", "1.32"), cache=tmp_path) is None


def test_a_file_that_was_cleared_away_is_made_again(tmp_path: Path) -> None:
    found = half(PLAIN, run_on_cpu, cache=tmp_path)
    assert found is not None and isinstance(found.model, Path)
    found.model.unlink()
    assert half(PLAIN, run_on_cpu, cache=tmp_path) == found
    assert found.model.exists()


def test_memory_that_runs_out_is_no_verdict(tmp_path: Path) -> None:
    def opener(model: Path | bytes) -> Run:
        raise RuntimeError("Failed to allocate memory for requested buffer of size 4")

    with pytest.raises(MemoryError):
        half(PLAIN, opener, cache=tmp_path)
    assert not list(tmp_path.glob("**/*.json"))


def test_outputs_that_are_never_finite_cannot_be_compared() -> None:
    found = half(net(node("MatMul", ["x", "eye"], "a"), node("Log", ["a"], "y")), run_on_cpu)
    assert found == Half(None, "full precision, since random inputs give it no finite outputs to compare with")


def stored(model: Path | bytes) -> Run:
    """Computes float16 in float16, as a GPU does."""
    assert isinstance(model, bytes)
    reference = ReferenceEvaluator(onnx.load_model_from_string(model))

    def run(feeds: Mapping[str, npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
        with np.errstate(all="ignore"):
            return list(reference.run(None, dict(feeds)))

    return run


def picture_net(scale: float) -> bytes:
    """A 3×8×8 picture through two convolutions, of which the first is `scale` times as large."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4), node("Relu", ["a"], "r"),
        node("Conv", ["r", "v"], "b", pads=[1] * 4), node("Mul", ["b", "k"], "y"),
    ]  # fmt: skip
    weights = {
        "w": scale * rng.normal(0, 1, (64, 3, 3, 3)), "v": rng.normal(0, 0.1, (8, 64, 3, 3)), "k": np.array([1e-3]),
    }  # fmt: skip
    shapes = {"x": (1, 3, 8, 8)}, {"y": (1, 8, 8, 8)}
    return graph(nodes, *shapes, {}, **{name: value.astype(np.float32) for name, value in weights.items()})


@pytest.mark.parametrize(("scale", "note"), [(1, "half precision"), (300, "full precision, since in half precision ")])
def test_pictures_of_0_to_255_that_overflow_are_found(scale: float, note: str) -> None:
    model = picture_net(scale)
    small = np.random.default_rng(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    twin = converted(model)
    assert twin is not None and np.isfinite(stored(twin)({"x": small})[0]).all(), "small values do not show it"
    found = half(model, stored)
    assert found is not None and found.note.startswith(note)


def test_large_values_are_not_asked_of_a_network_that_does_not_bear_them() -> None:
    nodes = [node("Conv", ["x", "w"], "a"), node("Exp", ["a"], "e"), node("Log", ["e"], "y")]
    model = graph(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 100, 8, 8)}, {}, w=np.ones((100, 3, 1, 1), np.float32))
    found = half(model, run_on_cpu)
    assert found is not None and found.note == "half precision"


@pytest.mark.parametrize(
    ("fails", "note"),
    [
        (1, "full precision, since the test of half precision did not run"),
        (2, "half precision, but for sums and divisions"),
        (3, "half precision"),
    ],
)
def test_a_failure_that_passes_is_no_verdict(fails: int, note: str, tmp_path: Path) -> None:
    good = Opener()

    def flaky(model: Path | bytes) -> Run:
        run = good(model)
        if good.opened == fails:
            raise RuntimeError("CUBLAS failure 1: CUBLAS_STATUS_NOT_INITIALIZED")
        return run

    first, second = (half(PLAIN, flaky, cache=tmp_path) for _ in range(2))
    assert first is not None and first.note == note
    assert second is not None and second.note == "half precision"
