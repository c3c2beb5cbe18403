"""Writes the network as ONNX: normalised crops in, probabilities out, weights stored as float16.

usage: python -m training.occluder.export CHECKPOINT FILE
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from training.occluder.crops import SIZE
from training.occluder.model import Occluder

MIN_ELEMENTS = 256
"""Smaller tensors stay float32."""


class Whole(nn.Module):
    """N×3×S×S in −1…1 → N×1×S×S probabilities."""

    def __init__(self, net: Occluder) -> None:
        super().__init__()
        self.net = net

    def forward(self, crops: Tensor) -> Tensor:
        """Predict and squash."""
        return torch.sigmoid(self.net(crops))


def store_float16(model: onnx.ModelProto) -> None:
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


def export(net: Occluder, path: Path) -> None:
    """Write the ONNX file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Whole(net).eval(), (torch.zeros(1, 3, SIZE, SIZE),), path,
            input_names=["crops"], output_names=["covered"], opset_version=17, dynamo=False,
            dynamic_axes={"crops": {0: "batch"}, "covered": {0: "batch"}},
        )  # fmt: skip
    model = onnx.load(path)
    store_float16(model)
    del model.graph.value_info[:]
    model.producer_name, model.doc_string = "mien", "Pixels of a face crop that something covers. Apache-2.0."
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a checkpoint as ONNX.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    net = Occluder()
    net.load_state_dict(torch.load(options.checkpoint, weights_only=True))
    export(net.eval(), options.file)


if __name__ == "__main__":
    main()
