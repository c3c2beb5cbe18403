"""Arrays on a device between models: on the CPU's memory, and on a pretended GPU's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest

from mien.errors import ModelError
from mien.runtime import binding
from mien.runtime.binding import DeviceArray, FixedBinding, chain, memory_of, run_bound
from mien.runtime.devices import DeviceSpec
from mien.runtime.graph import open_graph
from tests.stand_ins import graph, node

CPU = DeviceSpec("cpu")
TWICE = graph([node("Mul", ["x", "two"], "y")], {"x": ("n", 3)}, {"y": ("n", 3)}, {}, two=np.array(2, np.float32))
SUM = graph([node("Add", ["a", "b"], "c")], {"a": ("n", 3), "b": ("n", 3)}, {"c": ("n", 3)})
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def opened(model: bytes) -> Any:
    return open_graph(model, "cpu", 1)


@pytest.mark.parametrize(
    ("spec", "memory"),
    [
        (CPU, ("cpu", 0)),
        (DeviceSpec("cuda", (2, 3)), ("cuda", 2)),
        (DeviceSpec("tensorrt"), ("cuda", 0)),
        (DeviceSpec("directml", (1,)), ("dml", 1)),
        (DeviceSpec("openvino", (1,)), ("cpu", 0)),
    ],
)
def test_memory_by_device(spec: DeviceSpec, memory: tuple[str, int]) -> None:
    assert memory_of(spec) == memory


def test_an_array_goes_there_and_back_as_a_copy() -> None:
    source = X.copy()
    there = DeviceArray.put(source[:, ::-1], CPU)
    assert (there.shape, str(there.dtype), there.memory) == ((2, 3), "float32", "cpu")
    back = there.numpy()
    np.testing.assert_array_equal(back, X[:, ::-1])
    back[:] = 9
    np.testing.assert_array_equal(there.numpy(), X[:, ::-1])


def test_what_one_model_gives_is_what_the_next_takes() -> None:
    first = run_bound(opened(TWICE), {"x": X}, CPU)
    assert list(first) == ["y"] and isinstance(first["y"], DeviceArray)
    second = run_bound(opened(SUM), {"a": first["y"], "b": X}, CPU)
    np.testing.assert_array_equal(second["c"].numpy(), 3 * X)
    np.testing.assert_array_equal(first["y"].numpy(), 2 * X)


def test_a_chain() -> None:
    twice = opened(TWICE)
    steps = [(twice, {"x": "image"}), (twice, {"x": "y"}), (opened(SUM), {"a": "y", "b": "image"})]
    np.testing.assert_array_equal(chain(steps, {"image": X}, CPU)["c"].numpy(), 5 * X)


def test_nothing_between_models_goes_through_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[tuple[str, int]] = []
    put = DeviceArray.put.__func__  # type: ignore[attr-defined]

    def counted(cls: type[DeviceArray], array: npt.NDArray[Any], spec: DeviceSpec) -> Any:
        copied.append(memory_of(spec))
        return put(cls, array, CPU)  # this machine has no other memory

    def never(self: DeviceArray) -> None:
        raise AssertionError("copied to the host")

    monkeypatch.setattr(DeviceArray, "put", classmethod(counted))
    monkeypatch.setattr(DeviceArray, "numpy", never)
    bound: list[tuple[str, int]] = []

    class Binding:
        """ONNX Runtime's, but the outputs' memory is written down and the CPU's taken."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def bind_output(self, name: str, memory: str, index: int) -> None:
            bound.append((memory, index))
            self._real.bind_output(name, "cpu")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    class Graph:
        """On a pretended GPU."""

        def __init__(self, model: bytes) -> None:
            self._real = opened(model)

        def io_binding(self) -> Binding:
            return Binding(self._real.io_binding())

        def run_with_iobinding(self, given: Binding, options: Any) -> None:
            self._real.run_with_iobinding(given._real, options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    twice = Graph(TWICE)
    found = chain([(twice, {"x": "image"})] + [(twice, {"x": "y"})] * 3, {"image": X}, DeviceSpec("cuda", (1,)))
    np.testing.assert_array_equal(found["y"].value.numpy(), 16 * X)
    assert copied == [("cuda", 1)]
    assert bound == [("cuda", 1)] * 4


def test_wrong_names_are_one_error() -> None:
    with pytest.raises(ModelError, match=r"^inputs a, x were given, a, b are needed$"):
        run_bound(opened(SUM), {"a": X, "x": X}, CPU)


def test_fixed_memory_is_allocated_once_and_copied_into() -> None:
    fixed = FixedBinding(opened(SUM), CPU, {"n": 2})
    places = [array.value.data_ptr() for array in (*fixed.inputs.values(), *fixed.outputs.values())]
    np.testing.assert_array_equal(fixed({"a": X, "b": X})["c"].numpy(), 2 * X)
    np.testing.assert_array_equal(fixed({"b": 10 * X})["c"].numpy(), 11 * X)
    assert [array.value.data_ptr() for array in (*fixed.inputs.values(), *fixed.outputs.values())] == places


def test_fixed_memory_refuses_other_shapes_and_unknown_sizes() -> None:
    with pytest.raises(ModelError, match=r"^x has the free dimension n; give its size$"):
        FixedBinding(opened(TWICE), CPU)
    fixed = FixedBinding(opened(TWICE), CPU, {"n": 2})
    with pytest.raises(ModelError, match=r"^input x of \(1, 3\) does not fit the fixed memory \(\(2, 3\) expected\)$"):
        fixed({"x": X[:1]})
    with pytest.raises(ModelError, match=r"^input z of \(2, 3\) does not fit the fixed memory \(no such input\)$"):
        fixed({"z": X})


def test_fixed_memory_is_used_by_one_thread_at_a_time() -> None:
    fixed = FixedBinding(opened(TWICE), CPU, {"n": 2})
    inside: list[int] = []
    most: list[int] = []
    run = fixed._graph.run_with_iobinding

    class Slow:
        """Tells how many are inside."""

        def run_with_iobinding(self, bound: Any, options: ort.RunOptions | None) -> None:
            inside.append(1)
            most.append(len(inside))
            run(bound, options)
            inside.pop()

    fixed._graph = Slow()
    threads = [threading.Thread(target=lambda: [fixed({"x": X}) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 80


def test_names_of_memory_are_onnx_runtimes() -> None:
    assert {memory for memory, _ in map(memory_of, (DeviceSpec("cuda"), CPU))} == {"cuda", "cpu"}
    assert set(binding.MEMORY.values()) == {"cuda", "dml"}
