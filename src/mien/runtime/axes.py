"""Follows the batch through an ONNX graph that was exported for one item, and frees what holds it in place.

What the rules here make of a graph is a guess, which `batching.free_batch` proves or drops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

SMALL = 4096
"""Constants of more elements are weights, which no shape depends on."""
END = np.iinfo(np.int64).max

_REDUCE = (
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ArgMax",
    "ArgMin",
)
_BROADCAST = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "PRelu", "MatMul", "Expand", "Equal", "Less")


def per_item(shape: Sequence[int | str | None]) -> bool:
    """Whether an input or output of such a shape holds one item, or a free number of them, in its first dimension.

    A list of numbers, such as a weight or a direction, belongs to the call.
    """
    return len(shape) > 1 and (not isinstance(shape[0], int) or shape[0] == 1)


class Freer:
    """Rewrites one graph in place so that its first dimension is free.

    Args:
        model: with its batch fixed to 1, or named in some of its inputs and outputs.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._graph = model.graph
        self._shapes = static_shapes(model)
        self._constants = _constants(model)
        self._axes: dict[str, int] = {}
        """Dimension that is the batch, of each value that has one."""
        self._made = 0
        self._before: list[onnx.NodeProto] = []

    def free(self) -> None:
        """Do it. Inputs and outputs that hold no item keep their shapes."""
        for value in self._graph.input:
            if per_item(dims_of(value)):
                self._axes[value.name] = 0
        nodes: list[onnx.NodeProto] = []
        for node in self._graph.node:
            self._before = []
            self._node(node)
            nodes += [*self._before, node]
        del self._graph.node[:], self._graph.value_info[:]
        self._graph.node.extend(nodes)
        for value in (*self._graph.input, *self._graph.output):
            if per_item(dims_of(value)):
                value.type.tensor_type.shape.dim[0].Clear()
                value.type.tensor_type.shape.dim[0].dim_param = "batch"

    def _node(self, node: onnx.NodeProto) -> None:
        if not any(name in self._axes for name in node.input) or node.op_type in ("Shape", "Size"):
            return
        rule = _RULES.get(node.op_type, Freer._same)
        axis = rule(self, node)
        if axis is not None:
            self._axes.update((name, axis) for name in node.output if name)

    def _axis(self, node: onnx.NodeProto) -> int | None:
        return self._axes.get(node.input[0])

    def _rank(self, name: str) -> int | None:
        shape = self._shapes.get(name)
        return None if shape is None else len(shape)

    def _same(self, node: onnx.NodeProto) -> int | None:
        return next(self._axes[name] for name in node.input if name in self._axes)

    def _first(self, node: onnx.NodeProto) -> int | None:
        return 0

    def _aligned(self, node: onnx.NodeProto) -> int | None:
        """Broadcasting aligns dimensions from the end."""
        name = next(name for name in node.input if name in self._axes)
        before, after = self._rank(name), self._rank(node.output[0])
        return self._axes[name] if before is None or after is None else self._axes[name] + after - before

    def _transpose(self, node: onnx.NodeProto) -> int | None:
        axis, perm = self._axis(node), _attribute(node, "perm")
        if axis is None or perm is None:
            return axis
        return list(perm).index(axis)

    def _reduce(self, node: onnx.NodeProto) -> int | None:
        axis = self._axis(node)
        if axis is None or _attribute(node, "keepdims", 1):
            return axis
        gone = _attribute(node, "axis") if node.op_type.startswith("Arg") else self._listed(node, "axes", 1)
        return self._without(node, axis, [gone] if isinstance(gone, int) else gone)

    def _squeeze(self, node: onnx.NodeProto) -> int | None:
        axis = self._axis(node)
        return None if axis is None else self._without(node, axis, self._listed(node, "axes", 1))

    def _without(self, node: onnx.NodeProto, axis: int, gone: Sequence[int] | None) -> int | None:
        rank = self._rank(node.input[0])
        if gone is None or rank is None:
            return axis
        return axis - sum(each % rank < axis for each in gone)

    def _unsqueeze(self, node: onnx.NodeProto) -> int | None:
        axis, new, rank = self._axis(node), self._listed(node, "axes", 1), self._rank(node.output[0])
        if axis is None or new is None or rank is None:
            return axis
        for each in sorted(index % rank for index in new):
            axis += each <= axis
        return axis

    def _gather(self, node: onnx.NodeProto) -> int | None:
        axis, rank, indices = self._axis(node), self._rank(node.input[0]), self._shapes.get(node.input[1])
        if axis is None or rank is None or indices is None:
            return axis
        taken = int(_attribute(node, "axis", 0)) % rank
        return axis + len(indices) - 1 if taken < axis else axis

    def _slice(self, node: onnx.NodeProto) -> int | None:
        """One that takes the only item takes them all."""
        axis = self._axis(node)
        if axis is None or len(node.input) < 3:
            return axis
        starts, ends = self._value(node.input[1]), self._value(node.input[2])
        axes = self._value(node.input[3]) if len(node.input) > 3 else None
        if starts is None or ends is None:
            return axis
        listed = range(len(starts)) if axes is None else axes.tolist()
        fixed = ends.copy()
        for place, each in enumerate(listed):
            if each == axis and starts[place] == 0 and ends[place] == 1:
                fixed[place] = END
        if (fixed != ends).any():
            node.input[2] = self._constant(fixed.astype(np.int64))
        return axis

    def _reshape(self, node: onnx.NodeProto) -> int | None:
        """The batch's own size is left to be counted; a −1 elsewhere becomes the size it stands for."""
        axis = self._axis(node)
        if axis is None:
            return None
        before, after = self._shapes.get(node.input[0]), self._shapes.get(node.output[0])
        target = self._value(node.input[1])
        if before is None or after is None or 0 in after:
            place = 0 if before is None or axis == 0 else axis
        else:
            place = _place(before, axis, after)
        if target is None or place >= len(target):
            return place
        sizes = [int(size) for size in target]
        if sizes[place] == 0 and place == axis:
            return place  # copied from the input
        if after is not None and 0 not in after:
            sizes = list(after)
        elif -1 in sizes[:place] + sizes[place + 1 :] and place != axis:
            return place
        sizes[place] = 0 if -1 in sizes[:place] + sizes[place + 1 :] else -1
        if sizes != [int(size) for size in target]:
            node.input[1] = self._constant(np.array(sizes, np.int64))
        return place

    def _resize(self, node: onnx.NodeProto) -> int | None:
        """Constant sizes become the same with the batch's own size; or scales, where they are exact."""
        axis = self._axis(node)
        sizes = self._value(node.input[3]) if len(node.input) > 3 and node.input[3] else None
        if axis is None or sizes is None or _attribute(node, "axes") is not None or axis >= len(sizes):
            return axis
        shape = self._shapes.get(node.input[0])
        scales = None if shape is None or 0 in shape else _exact_scales(shape, [int(size) for size in sizes])
        if scales is not None:
            node.input[2] = self._constant(scales)
            del node.input[3]
        else:
            node.input[3] = self._sized(node.input[0], axis, sizes)
        return axis

    def _sized(self, name: str, axis: int, sizes: npt.NDArray[Any]) -> str:
        """Name of a shape that is `sizes` with the dimension `axis` of a value in it."""
        from onnx import helper

        shape, batch, whole = (self._name() for _ in range(3))
        parts = [
            self._constant(sizes[:axis].astype(np.int64)),
            batch,
            self._constant(sizes[axis + 1 :].astype(np.int64)),
        ]
        self._before += [
            helper.make_node("Shape", [name], [shape]),
            helper.make_node("Slice", [shape, *(self._constant(np.array([n])) for n in (axis, axis + 1))], [batch]),
            helper.make_node("Concat", parts, [whole], axis=0),
        ]
        return whole

    def _listed(self, node: onnx.NodeProto, name: str, place: int) -> list[int] | None:
        """Integers that are an attribute in older opsets and an input in newer ones."""
        found = _attribute(node, name)
        if found is not None:
            return [int(each) for each in found]
        value = self._value(node.input[place]) if len(node.input) > place else None
        return None if value is None else [int(each) for each in value.reshape(-1)]

    def _value(self, name: str) -> npt.NDArray[Any] | None:
        return self._constants.get(name)

    def _constant(self, values: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = self._name()
        self._graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def _name(self) -> str:
        self._made += 1
        return f"mien_free_batch_{self._made}"


_RULES: Mapping[str, Callable[[Freer, onnx.NodeProto], int | None]] = {
    "Transpose": Freer._transpose,
    "Reshape": Freer._reshape,
    "Resize": Freer._resize,
    "Slice": Freer._slice,
    "Squeeze": Freer._squeeze,
    "Unsqueeze": Freer._unsqueeze,
    "Gather": Freer._gather,
    "Gemm": Freer._first,
    "Flatten": Freer._first,
    **dict.fromkeys(_REDUCE, Freer._reduce),
    **dict.fromkeys(_BROADCAST, Freer._aligned),
}


def _place(before: Sequence[int], axis: int, after: Sequence[int]) -> int:
    """Where the batch is after a reshape: at the same distance from the start, in a dimension of 1 if there is one."""
    passed, wanted, fits = 1, int(np.prod(before[:axis])), []
    for index, size in enumerate(after):
        if passed == wanted:
            fits.append(index)
        passed *= size
    if not fits:
        return 0
    ones = [index for index in fits if after[index] == 1]
    return axis if axis in ones else (ones or fits)[0]


def _exact_scales(before: Sequence[int], after: Sequence[int]) -> npt.NDArray[np.float32] | None:
    scales = np.asarray(np.array(after) / np.array(before), np.float32)
    exact = all(float(scale) * size == want for scale, size, want in zip(scales, before, after, strict=True))
    return scales if exact else None


def dims_of(value: onnx.ValueInfoProto) -> list[int | str | None]:
    """Dimensions of an input or output, as ONNX Runtime gives them."""
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in value.type.tensor_type.shape.dim
    ]


def static_shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Shapes of values for one item, as far as they are known; 0 for a dimension that is not.

    Weights are left out of what is searched, since that copies it, and files may hold 2 GB.
    """
    import onnx
    from onnx import helper, shape_inference

    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    for value in (*light.graph.input, *light.graph.output):
        dims = value.type.tensor_type.shape.dim
        if per_item(dims_of(value)):
            dims[0].Clear()
            dims[0].dim_value = 1
    given = {value.name for value in light.graph.input}
    for tensor in model.graph.initializer:
        if np.prod(tensor.dims) <= SMALL:
            light.graph.initializer.append(tensor)
        elif tensor.name not in given:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    found = shape_inference.infer_shapes(light, data_prop=True).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*found.value_info, *found.output, *found.input)
        if value.type.tensor_type.HasField("shape")
    }
    return shapes | {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}


def _constants(model: onnx.ModelProto) -> dict[str, npt.NDArray[Any]]:
    """Small constants by name, whether initializers or nodes."""
    from onnx import numpy_helper

    found = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if np.prod(tensor.dims) <= SMALL
    }
    for node in model.graph.node:
        value = _attribute(node, "value") if node.op_type == "Constant" else None
        if value is not None:
            found[node.output[0]] = numpy_helper.to_array(value)
    return found


def _attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    from onnx import helper

    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)
