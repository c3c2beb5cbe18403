"""Writes a trained network as ONNX: a free batch, large weights stored as float16."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

MIN_ELEMENTS = 256
"""Smaller tensors stay float32."""


def write(
    net: nn.Module, inputs: tuple[Tensor, ...], path: Path, names: Sequence[str], outputs: Sequence[str], text: str
) -> None:
    """Write a network that is ready to run.

    Args:
        inputs: an example of each, a batch of one.
        names, outputs: of inputs and outputs in the file.
        text: what it does, and its licence.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.eval(), inputs, path,
            input_names=list(names), output_names=list(outputs), opset_version=17, dynamo=False,
            dynamic_axes={name: {0: "batch"} for name in (*names, *outputs)},
        )  # fmt: skip
    model = onnx.load(path)
    _store_float16(model)
    del model.graph.value_info[:]
    model.producer_name, model.doc_string = "mien", text
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def _store_float16(model: onnx.ModelProto) -> None:
    """Keep large weights as float16 behind a Cast that the runtime folds away."""
    graph, casts = model.graph, []
    for tensor in list(graph.initializer):
        if tensor.data_type != onnx.TensorProto.FLOAT or np.prod(tensor.dims) < MIN_ELEMENTS:
            continue
        half = tensor.name + "_f16"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), half))
        casts.append(helper.make_node("Cast", [half], [tensor.name], to=onnx.TensorProto.FLOAT))
    nodes = casts + list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)
