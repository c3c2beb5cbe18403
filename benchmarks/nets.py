"""A small writer of ONNX graphs with seeded random weights, for networks as large and as slow as real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

Dims: TypeAlias = Sequence[int | str]
OPSET = 11
"""What most of the public files were exported with."""
SMALL = 4096
"""Initializers of more elements are weights, which shapes never depend on."""


class Net:
    """A graph under construction. Methods take and give names of values; `channels` knows the second dimension of each.

    Args:
        seed: of the weights.
        width: factor on the number of channels, for tiny versions of the same structure.
    """

    def __init__(self, seed: int, width: float = 1.0) -> None:
        self._random = np.random.default_rng(seed)
        self._width = width
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[TensorProto] = []
        self.channels: dict[str, int] = {}

    def wide(self, channels: int) -> int:
        """So many channels at full width, in this net; a multiple of four."""
        return max(1, round(channels * self._width / 4)) * 4

    def constant(self, values: npt.ArrayLike, name: str = "", dtype: npt.DTypeLike | None = None) -> str:
        """An initializer."""
        array = np.asarray(values, dtype)
        name = name or f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, shape: Sequence[int], gain: float = 1.0, fan: int | None = None, name: str = "") -> str:
        """Random weights that keep the variance of a rectified input, times `gain`²."""
        size = int(np.prod(shape[1:])) if fan is None else fan
        values = self._random.standard_normal(shape, np.float32)
        values *= np.float32(gain * np.sqrt(2 / size))
        return self.constant(values, name)

    def op(self, kind: str, *inputs: str, name: str = "", channels: int | None = None, **attributes: Any) -> str:
        """A node with one output."""
        output = name or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        self.channels[output] = self.channels.get(inputs[0], 0) if channels is None else channels
        return output

    def conv(
        self, x: str, channels: int, size: int = 3, stride: int = 1, pad: int | None = None, gain: float = 1.0
    ) -> str:
        """A convolution with bias to exactly so many channels; padded to keep the size unless told otherwise."""
        weight = self.weights((channels, self.channels[x], size, size), gain)
        edge = size // 2 if pad is None else pad
        bias = self.constant(np.zeros(channels, np.float32))
        return self.op(
            "Conv", x, weight, bias, channels=channels,
            kernel_shape=[size, size], strides=[stride, stride], pads=[edge] * 4,
        )  # fmt: skip

    def norm(self, x: str) -> str:
        """Batch normalisation with the statistics of a unit normal."""
        count = self.channels[x]
        ones, zeros = np.ones(count, np.float32), np.zeros(count, np.float32)
        return self.op("BatchNormalization", x, *(self.constant(values) for values in (ones, zeros, zeros, ones)))

    def prelu(self, x: str) -> str:
        """With a slope of a quarter per channel."""
        return self.op("PRelu", x, self.constant(np.full((self.channels[x], 1, 1), 0.25, np.float32)))

    def linear(self, x: str, inputs: int, outputs: int, gain: float = 1.0, bias: float = 0.0) -> str:
        """A fully connected layer."""
        weight = self.weights((outputs, inputs), gain)
        offset = self.constant(np.full(outputs, bias, np.float32))
        return self.op("Gemm", x, weight, offset, channels=outputs, transB=1)

    def reshape(self, x: str, *shape: int) -> str:
        """To constant sizes; 0 keeps one, −1 is what is left."""
        return self.op("Reshape", x, self.constant(shape, dtype=np.int64), channels=shape[1])

    def pad(self, x: str, edge: int) -> str:
        """Reflect the borders."""
        return self.op("Pad", x, self.constant([0, 0, edge, edge] * 2, dtype=np.int64), mode="reflect")

    def scale_up(self, x: str, factor: float = 2.0, mode: str = "linear") -> str:
        """Resize by a factor."""
        scales = self.constant([1, 1, factor, factor], dtype=np.float32)
        return self.op("Resize", x, self._nowhere(), scales, **_resize(mode))

    def size_to(self, x: str, height: int, width: int, mode: str = "linear") -> str:
        """Resize to a constant size, which in real exports holds the batch."""
        sizes = self.constant([1, self.channels[x], height, width], dtype=np.int64)
        return self.op("Resize", x, self._nowhere(), self._nowhere(), sizes, **_resize(mode))

    def _nowhere(self) -> str:
        return self.constant(np.zeros(0, np.float32))

    def model(self, inputs: Mapping[str, Dims], outputs: Mapping[str, Dims]) -> onnx.ModelProto:
        """The finished graph; the given names are those of its inputs and outputs."""
        made = helper.make_graph(
            self._nodes,
            "stand-in",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs.items()],
            self._constants,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(made, opset_imports=opset, ir_version=6, producer_name="mien stand-in")

    def input(self, name: str, channels: int) -> str:
        """Announce an input."""
        self.channels[name] = channels
        return name


def _resize(mode: str) -> dict[str, Any]:
    if mode == "nearest":
        return {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {"mode": mode, "coordinate_transformation_mode": "half_pixel"}


def parameters(model: onnx.ModelProto) -> int:
    """Values in initializers of floating point."""
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16)
    return sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer if tensor.data_type in kinds)


def multiply_adds(model: onnx.ModelProto, free: int = 1) -> int:
    """Multiplications, each with its addition, of all convolutions and matrix products; twice that are the FLOP.

    Args:
        free: the size that free dimensions stand for.
    """
    shapes = _shapes(model, free)
    return sum(_cost(node, shapes) for node in model.graph.node)


def _shapes(model: onnx.ModelProto, free: int) -> dict[str, list[int]]:
    """Of every value; the weights themselves are left out of what is searched, since that copies it."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    for value in light.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = dim.dim_value or free
    for tensor in model.graph.initializer:
        if np.prod(tensor.dims) <= SMALL:
            light.graph.initializer.append(tensor)
        else:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    found = shape_inference.infer_shapes(light, data_prop=True).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*found.input, *found.value_info, *found.output)
    }
    return shapes | {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}


def _cost(node: onnx.NodeProto, shapes: Mapping[str, Sequence[int]]) -> int:
    if node.op_type == "Conv":
        return int(np.prod(shapes[node.output[0]])) * int(np.prod(shapes[node.input[1]][1:]))
    if node.op_type == "ConvTranspose":
        return int(np.prod(shapes[node.input[0]])) * int(np.prod(shapes[node.input[1]][1:]))
    if node.op_type in ("Gemm", "MatMul"):
        return int(np.prod(shapes[node.output[0]])) * int(shapes[node.input[0]][-1])
    return 0


def save(model: onnx.ModelProto, path: Path) -> int:
    """Write it, whole or not at all; its size in bytes."""
    part = path.with_suffix(".part")
    data = model.SerializeToString(deterministic=True)
    part.write_bytes(data)
    part.replace(path)
    return len(data)
