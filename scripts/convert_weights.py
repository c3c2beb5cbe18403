#!/usr/bin/env python3
"""Make the weights of the wheel from the original ONNX files.

usage: convert_weights.py ORIGINALS DESTINATION     (needs the `onnx` package)

Large initializers are stored as float16 behind a Cast, which ONNX Runtime folds away when it loads
the file, so arithmetic stays float32. The batch dimension is made free where the graph fixed it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

MIN_ELEMENTS = 256
"""Smaller tensors (biases, slopes) stay float32: they save nothing and matter most."""


def store_float16(model: onnx.ModelProto) -> None:
    """Store large float32 initializers as float16, each read through a Cast to float32."""
    graph = model.graph
    casts = []
    for tensor in list(graph.initializer):
        if tensor.data_type != onnx.TensorProto.FLOAT or np.prod(tensor.dims) < MIN_ELEMENTS:
            continue
        values = numpy_helper.to_array(tensor)
        if np.abs(values).max() > np.finfo(np.float16).max:
            continue
        half = tensor.name + "_f16"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float16), half))
        casts.append(helper.make_node("Cast", [half], [tensor.name], to=onnx.TensorProto.FLOAT))
    nodes = casts + list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)


def shorten_mantissas(model: onnx.ModelProto) -> None:
    """Round large float32 initializers to 16 of their 23 bits, for nets that float16 moves too far.

    The file keeps its size, but a wheel, which is a ZIP archive, compresses the zeros away.
    """
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= MIN_ELEMENTS:
            bits = numpy_helper.to_array(tensor).astype(np.float32).view(np.uint32).astype(np.uint64)
            rounded = ((bits + 0x40) & ~np.uint64(0x7F)).astype(np.uint32).view(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))


def restore_float32(model: onnx.ModelProto) -> None:
    """Undo `store_float16` in a file that came that way."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for cast in [node for node in graph.node if node.op_type == "Cast" and node.input[0] in tensors]:
        values = numpy_helper.to_array(tensors[cast.input[0]]).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(values, cast.output[0]))
        graph.node.remove(cast)
    drop_unused(model)


def split_prelu(model: onnx.ModelProto) -> None:
    """PReLU with slopes a becomes a·x + (1 − a)·max(x, 0), each product a 1×1 depthwise convolution.

    On CPUs ONNX Runtime computes PRelu slowly and in another memory layout than convolutions, so the
    plain graph spends two thirds of its time there.
    """
    graph = model.graph
    slopes = {tensor.name: numpy_helper.to_array(tensor).reshape(-1) for tensor in graph.initializer}
    nodes = []
    for index, node in enumerate(graph.node):
        if node.op_type != "PRelu":
            nodes.append(node)
            continue
        (x, slope), y, names = node.input, node.output[0], [f"prelu_{index}_{part}" for part in "abxyz"]
        a = slopes[slope].astype(np.float32)
        for name, values in zip(names, (a, 1 - a), strict=False):
            graph.initializer.append(numpy_helper.from_array(values.reshape(-1, 1, 1, 1), name))
        scale = {"group": a.size, "kernel_shape": [1, 1]}
        nodes += [
            helper.make_node("Conv", [x, names[0]], [names[2]], **scale),
            helper.make_node("Relu", [x], [names[3]]),
            helper.make_node("Conv", [names[3], names[1]], [names[4]], **scale),
            helper.make_node("Add", [names[2], names[4]], [y]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    drop_unused(model)


def free_batch(model: onnx.ModelProto) -> None:
    """Name the first dimension of every input and output `batch`."""
    for value in (*model.graph.input, *model.graph.output):
        dim = value.type.tensor_type.shape.dim[0]
        dim.Clear()
        dim.dim_param = "batch"
    del model.graph.value_info[:]


def _set_initializer(graph: onnx.GraphProto, name: str, values: np.ndarray) -> None:
    for tensor in graph.initializer:
        if tensor.name == name:
            graph.initializer.remove(tensor)
            break
    graph.initializer.append(numpy_helper.from_array(values, name))


def free_embedder(model: onnx.ModelProto) -> None:
    """The final Reshape to (1, -1) becomes (-1, 128)."""
    graph = model.graph
    last = graph.node[-1]
    assert last.op_type == "Reshape" and last.output[0] == graph.output[0].name
    _set_initializer(graph, "output_shape", np.array([-1, 128], np.int64))
    last.input[1] = "output_shape"
    drop_unused(model)
    free_batch(model)


def free_masker(model: onnx.ModelProto) -> None:
    """Every Resize to absolute sizes (which hold the batch) becomes a Resize by scales."""
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in shape_inference.infer_shapes(model, data_prop=True).graph.value_info
    }
    for index, node in enumerate(n for n in model.graph.node if n.op_type == "Resize" and len(n.input) == 4):
        before, after = shapes[node.input[0]], shapes[node.output[0]]
        scales = np.array([1, 1, after[2] / before[2], after[3] / before[3]], np.float32)
        _set_initializer(model.graph, f"scales_{index}", scales)
        source = node.input[0]
        del node.input[:]
        node.input.extend([source, "", f"scales_{index}"])
    drop_unused(model)
    free_batch(model)


def drop_unused(model: onnx.ModelProto) -> None:
    """Remove nodes and initializers that no output needs."""
    graph = model.graph
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    initializers = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(initializers)


STEPS: dict[str, tuple[Callable[[onnx.ModelProto], None], ...]] = {
    "yunet_n": (),
    "mesh478": (restore_float32, split_prelu, free_batch, store_float16),
    "blendshapes52": (store_float16,),
    "mobilefacenet_128": (free_embedder, store_float16),
    "skin_hair_clothes": (free_masker,),
    "retinaface_mnet025": (shorten_mantissas,),
}


def main(originals: Path, destination: Path) -> None:
    """Convert every model and print its size and sha256."""
    for name, steps in STEPS.items():
        model = onnx.load(originals / f"{name}.onnx")
        for step in steps:
            step(model)
        onnx.checker.check_model(model, full_check=True)
        data = model.SerializeToString(deterministic=True)
        (destination / f"{name}.onnx").write_bytes(data)
        print(f"{name}.onnx {len(data)} {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
