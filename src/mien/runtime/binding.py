"""Arrays that stay in a device's memory between models, and memory that stays in place between runs.

Tested on the CPU's memory, where ONNX Runtime's binding is the same; it was not run on a GPU yet.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import ModelError
from mien.runtime.devices import DeviceSpec
from mien.runtime.graph import NUMPY_TYPES, tensors

Array: TypeAlias = npt.NDArray[Any]
MEMORY: Mapping[str, str] = {"cuda": "cuda", "tensorrt": "cuda", "rocm": "cuda", "migraphx": "cuda", "directml": "dml"}
"""ONNX Runtime's name of the memory of each kind of device; that of others is the CPU's."""


def memory_of(spec: DeviceSpec) -> tuple[str, int]:
    """ONNX Runtime's name and number of a device's memory."""
    name = MEMORY.get(spec.kind, "cpu")
    return name, 0 if name == "cpu" else spec.index


class DeviceArray:
    """An array in the memory of a device: what one model gave and another takes, without a way through the host."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def put(cls, array: Array, spec: DeviceSpec) -> DeviceArray:
        """A copy of a host's array in the device's memory."""
        return cls(ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *memory_of(spec)))

    @property
    def value(self) -> Any:
        """The `onnxruntime.OrtValue`."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return tuple(self._value.shape())

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of its elements."""
        return np.dtype(NUMPY_TYPES[self._value.data_type()])

    @property
    def memory(self) -> str:
        """Where it lies, by ONNX Runtime's name."""
        return str(self._value.device_name())

    def numpy(self) -> Array:
        """A copy on the host."""
        return np.array(self._value.numpy())


def run_bound(
    graph: Any, inputs: Mapping[str, Array | DeviceArray], spec: DeviceSpec, options: ort.RunOptions | None = None
) -> dict[str, DeviceArray]:
    """One inference whose outputs stay on the device; what lies there already is not copied.

    Args:
        graph: an `onnxruntime.InferenceSession`, opened on that device.
        inputs: by name; host arrays are copied to the device.

    Returns:
        All outputs, by name.

    Raises:
        ModelError: an input that the graph does not have, or one that is missing.
        Exception: whatever ONNX Runtime says of the run.
    """
    _check_names(graph, inputs)
    binding = graph.io_binding()
    for name, array in inputs.items():
        held = array if isinstance(array, DeviceArray) else DeviceArray.put(array, spec)
        binding.bind_ortvalue_input(name, held.value)
    names = [value.name for value in graph.get_outputs()]
    for name in names:
        binding.bind_output(name, *memory_of(spec))
    # Another stream may still be writing what comes in, and the outputs are read by others when this returns.
    binding.synchronize_inputs()
    graph.run_with_iobinding(binding, options)
    binding.synchronize_outputs()
    return {name: DeviceArray(value) for name, value in zip(names, binding.get_outputs(), strict=True)}


def chain(
    steps: Sequence[tuple[Any, Mapping[str, str]]], inputs: Mapping[str, Array | DeviceArray], spec: DeviceSpec
) -> dict[str, DeviceArray]:
    """Several models one after the other, with everything between them on the device.

    Args:
        steps: graphs, each with the names of values that its inputs take: those of `inputs`, or outputs of an earlier
            graph, of which the latest of a name counts.
        inputs: what comes from outside; copied to the device once, however often it is used.

    Returns:
        The last graph's outputs, by name.
    """
    values: dict[str, Array | DeviceArray] = {
        name: array if isinstance(array, DeviceArray) else DeviceArray.put(array, spec)
        for name, array in inputs.items()
    }
    found: dict[str, DeviceArray] = {}
    for graph, sources in steps:
        found = run_bound(graph, {name: values[source] for name, source in sources.items()}, spec)
        values.update(found)
    return found


class FixedBinding:
    """Inputs and outputs at addresses that never change, as a recorded CUDA graph needs: allocated once, copied into.

    One run at a time; what it gives is valid until the next one.

    Args:
        graph: an `onnxruntime.InferenceSession`.
        shapes: sizes of free dimensions, by their names in the file.

    Raises:
        ModelError: a dimension that has no size.
    """

    def __init__(self, graph: Any, spec: DeviceSpec, shapes: Mapping[str, int] | None = None) -> None:
        self._graph, self._lock = graph, threading.Lock()
        self._binding = graph.io_binding()
        sizes = shapes or {}
        self.inputs = {t.name: _zeros(t, spec, sizes) for t in tensors(graph.get_inputs())}
        """Memory of each input, by name."""
        self.outputs = {t.name: _zeros(t, spec, sizes) for t in tensors(graph.get_outputs())}
        """Memory of each output, by name."""
        for name, array in self.inputs.items():
            self._binding.bind_ortvalue_input(name, array.value)
        for name, array in self.outputs.items():
            self._binding.bind_ortvalue_output(name, array.value)

    def __call__(self, inputs: Mapping[str, Array], options: ort.RunOptions | None = None) -> Mapping[str, DeviceArray]:
        """Copy the inputs into place and run; inputs that are left out keep what they hold.

        Raises:
            ModelError: an array of another shape than the memory, or of no input.
        """
        with self._lock:
            for name, array in inputs.items():
                held = self.inputs.get(name)
                if held is None or held.shape != array.shape:
                    wanted = "no such input" if held is None else f"{held.shape} expected"
                    raise ModelError(f"input {name} of {array.shape} does not fit the fixed memory ({wanted})")
                held.value.update_inplace(np.ascontiguousarray(array, held.dtype))
            self._graph.run_with_iobinding(self._binding, options)
            self._binding.synchronize_outputs()
            return self.outputs


def _zeros(tensor: Any, spec: DeviceSpec, sizes: Mapping[str, int]) -> DeviceArray:
    shape = [size if isinstance(size, int) else sizes.get(str(size), 0) for size in tensor.shape]
    if 0 in shape:
        raise ModelError(f"{tensor.name} has the free dimension {tensor.shape[shape.index(0)]}; give its size")
    return DeviceArray.put(np.zeros(shape, NUMPY_TYPES[tensor.type]), spec)


def _check_names(graph: Any, inputs: Mapping[str, object]) -> None:
    wanted = {value.name for value in graph.get_inputs()}
    if wanted != set(inputs):
        raise ModelError(f"inputs {', '.join(sorted(inputs))} were given, {', '.join(sorted(wanted))} are needed")
