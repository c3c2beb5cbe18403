"""A device whose memory runs out: the batch shrinks, the graph is opened again, the CPU takes over, or one error."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import DeviceError, ModelError
from mien.runtime.memory import is_out_of_memory
from mien.zoo.cards import ModelCard
from mien.zoo.registry import Zoo
from tests.runtime.fake_device import ARENA, FakeDevice, Value

X = np.arange(30, dtype=np.float32).reshape(10, 3)
SHIFT = np.array([[1, 2, 3]], np.float32)


def check(outputs: Sequence[npt.NDArray[Any]], x: npt.NDArray[Any] = X) -> None:
    np.testing.assert_array_equal(outputs[0], 2 * x + SHIFT)
    np.testing.assert_array_equal(outputs[1], x.sum(1))


@pytest.mark.parametrize(
    "text",
    [
        ARENA,
        "CUDA failure 2: out of memory ; GPU=0 ; expr=cudaStreamCreateWithFlags(&stream)",
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "BFCArena: Available memory of 100 is smaller than requested bytes of 200",
        "bad allocation",
        "std::bad_alloc",
        "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
        "CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED ; GPU=0",
        "[executionContext.cpp::2] Error Code 2: OutOfMemory (Requested size was 5 bytes.)",
        "Cuda Error in allocate: 2 (out of memory)",
    ],
)
def test_what_an_exhausted_memory_says(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))


def test_what_other_failures_say() -> None:
    assert is_out_of_memory(MemoryError())
    for text in ("CUDA failure 700: an illegal memory access was encountered", "CUDA failure 209", "invalid graph", ""):
        assert not is_out_of_memory(RuntimeError(text))


def test_a_batch_is_halved_until_it_fits_and_that_is_remembered() -> None:
    device = FakeDevice(lambda _, items: items > 3)
    session = device.session()
    check(session(X, SHIFT))
    assert device.batches == [10, 5, 2, 2, 2, 2, 2]
    device.batches.clear()
    check(session(X[:5], SHIFT), X[:5])
    assert device.batches == [2, 2, 1]
    assert device.opened == ["cuda"]
    assert session.notes == ("net: out of memory on cuda; at most 2 done at a time",)


@settings(deadline=None, max_examples=60)
@given(
    count=st.integers(1, 20),
    fits=st.integers(1, 20),
    chances=st.lists(st.booleans(), max_size=12),
    fallback=st.sampled_from([True, False]),
)
def test_whatever_fits_and_whenever_it_does_not_the_results_are_those_of_one_batch(
    count: int, fits: int, chances: list[bool], fallback: bool
) -> None:
    """Batches over `fits` fail, and the first calls by chance; alone an item fits once the chances are used up."""
    left = list(chances)
    device = FakeDevice(lambda device, items: items > fits or (device == "cuda" and bool(left) and left.pop()))
    session = device.session(fallback="cpu" if fallback else "none")
    x = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    try:
        check(session(x, SHIFT), x)
    except DeviceError:
        assert not fallback and len(device.opened) == 2
    left.clear()
    check(session(x, SHIFT), x)
    assert len(session.notes) == len(set(session.notes)) <= 4
    assert set(device.held) == {0}


def test_only_the_part_that_failed_is_done_again() -> None:
    calls = iter([False, False, True])
    device = FakeDevice(lambda _, items: next(calls, False))
    session = device.session()
    session.replicas[0].most = 4
    check(session(X, SHIFT))
    assert device.batches == [4, 4, 2, 1, 1]


def test_one_item_that_does_not_fit_has_the_graph_opened_again_when_the_old_one_is_gone() -> None:
    calls = iter([True])
    device = FakeDevice(lambda _, items: next(calls, False))
    session = device.session()
    check(session(X[:1], SHIFT), X[:1])
    assert device.opened == ["cuda", "cuda"]
    assert device.held == [0, 0]
    assert session.notes == ("net: out of memory on cuda; opened again to free it",)
    check(session(X, SHIFT))
    assert device.opened == ["cuda", "cuda"]


@pytest.mark.parametrize("error", [lambda: RuntimeError(ARENA), MemoryError], ids=["words", "type"])
def test_the_cpu_takes_over_when_asked_to(error: Callable[[], BaseException]) -> None:
    device = FakeDevice(lambda device, _: device == "cuda", error)
    session = device.session(fallback="cpu")
    check(session(X, SHIFT))
    assert device.batches == [10, 5, 2, 1, 1, 10]
    assert device.opened == ["cuda", "cuda", "cpu"]
    assert device.held == [0, 0, 0]
    assert session.device == "cpu"
    assert session.notes == (
        "net: out of memory on cuda; at most 1 done at a time",
        "net: out of memory on cuda; opened again to free it",
        "net: out of memory on cuda; done on the CPU from there on",
    )


def test_without_a_fallback_it_is_one_error_with_the_next_step() -> None:
    device = FakeDevice(lambda device, _: True)
    session = device.session()
    with pytest.raises(DeviceError) as caught:
        session(X, SHIFT)
    assert str(caught.value) == (
        "net: out of memory on cuda, even for one item; "
        "close what else uses it, pass --fallback cpu, or choose --device cpu"
    )
    device.fails = lambda device, _: False
    check(session(X, SHIFT))  # and the session can go on when there is memory again


def test_a_cpu_without_memory_has_nowhere_to_go() -> None:
    device = FakeDevice(lambda device, _: True)
    with pytest.raises(DeviceError, match="net: out of memory on cpu, even for one item; close other programs"):
        device.session(fallback="cpu")(X, SHIFT)
    assert device.opened == ["cuda", "cuda", "cpu"]


def test_memory_that_runs_out_while_opening() -> None:
    device = FakeDevice(opening=lambda device: device == "cuda")
    session = device.session(fallback="cpu")
    assert (session.device, session.notes) == ("cpu", ("net: out of memory on cuda; done on the CPU instead",))
    check(session(X, SHIFT))
    with pytest.raises(DeviceError, match="net: out of memory on cuda, even for one item; close what else"):
        device.session()


def test_memory_that_runs_out_while_opening_again() -> None:
    device = FakeDevice(lambda device, _: device == "cuda", opening=lambda _: len(device.opened) == 2)
    session = device.session(fallback="cpu")
    check(session(X[:1], SHIFT), X[:1])
    assert device.opened == ["cuda", "cuda", "cpu"]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ((Value("x", (10, 3)), Value("shift", (1, 3))), (Value("y", (10, 3)), Value("sums", (10,)))),
        ((Value("x", ("n", 3)), Value("shift", (1, 3))), (Value("y", ("faces", 3)), Value("sums", ("n",)))),
        ((Value("x", ("n", 3)), Value("shift", ("m", 3))), (Value("y", ("n", 3)), Value("sums", ("n",)))),
    ],
    ids=["fixed", "results of another number", "two numbers"],
)
def test_a_graph_that_cannot_be_split_is_not(inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
    device = FakeDevice(lambda device, _: device == "cuda", inputs=inputs, outputs=outputs)
    check(device.session(fallback="cpu")(X, SHIFT))
    assert device.batches == [10, 10, 10]


def test_other_errors_name_the_network_in_one_line_and_are_not_tried_again() -> None:
    device = FakeDevice(lambda *_: True, lambda: RuntimeError("Non-zero status code:\n  invalid\n argument"))
    with pytest.raises(ModelError) as caught:
        device.session(fallback="cpu")(X, SHIFT)
    assert str(caught.value) == (
        "net: inference failed (Non-zero status code: invalid argument); run `mien doctor`, or choose another device"
    )
    assert device.batches == [10]


def test_an_empty_batch() -> None:
    device = FakeDevice()
    check(device.session()(X[:0], SHIFT), X[:0])
    assert device.batches == [0]


def test_many_threads_that_run_out_together_act_once() -> None:
    barrier = threading.Barrier(4)

    def fails(device: str, items: int) -> bool:
        if device == "cuda" and not barrier.broken:
            with suppress(threading.BrokenBarrierError):
                barrier.wait(0.2)
        return device == "cuda"

    device = FakeDevice(fails)
    session = device.session(fallback="cpu")
    results: list[Sequence[npt.NDArray[Any]]] = [[] for _ in range(4)]

    def work(index: int) -> None:
        results[index] = session(X + index, SHIFT)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for index, outputs in enumerate(results):
        check(outputs, X + index)
    assert session.device == "cpu"
    assert device.opened.count("cpu") == 1
    assert device.opened.count("cuda") <= 5
    assert len(session.notes) == 3


def test_a_zoo_tells_each_note_once() -> None:
    device = FakeDevice(lambda device, _: device == "cuda")

    class Model:
        card = ModelCard("net", "swapper", "CC0-1.0", True, "made here")

        def __init__(self) -> None:
            self.first, self.second = device.session(fallback="cpu"), device.session(fallback="cpu")

    zoo, model = Zoo("cpu", fallback="cpu"), Model()
    zoo._loaded["swapper", "net"] = model
    assert not zoo.notes
    model.first(X[:1], SHIFT)
    model.second(X[:1], SHIFT)
    assert zoo.notes == (
        "net: out of memory on cuda; opened again to free it",
        "net: out of memory on cuda; done on the CPU from there on",
    )
    assert zoo.used_device == "cpu"


LIMITED = """
import resource
import numpy as np
from mien.runtime.session import Session
from tests import stand_ins

weights = np.random.default_rng(0).normal(size=(64, 3, 3, 3)).astype(np.float32)
nodes = [stand_ins.node("Conv", ["x", "w"], "a"), stand_ins.node("ReduceMean", ["a"], "y", axes=[2, 3], keepdims=0)]
session = Session(stand_ins.graph(nodes, {"x": ("n", 3, 128, 128)}, {"y": ("n", 64)}, w=weights), "cpu", threads=1)
x = np.random.default_rng(1).random((32, 3, 128, 128), np.float32)
alone = np.concatenate([session(one[None])[0] for one in x])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 60 * 2**20, resource.RLIM_INFINITY))  # all 32 need 134 MB
together = session(x)[0]
print(np.abs(together - alone).max() < 1e-5, *session.notes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's here")
def test_onnx_runtime_under_a_real_limit_of_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("True model: out of memory on cpu; at most ")
    assert (done.returncode, done.stderr) == (0, "")
