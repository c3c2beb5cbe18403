"""Writes the network as ONNX: crops in, logits out, weights stored as float16.

usage: python -m training.naturalness.export CHECKPOINT FILE
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import onnx
import torch

from training.naturalness.model import Naturalness
from training.naturalness.swaps import JUDGED
from training.occluder.export import store_float16


def export(net: Naturalness, path: Path) -> None:
    """Write the ONNX file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.eval(), (torch.zeros(1, 3, JUDGED.side, JUDGED.side),), path,
            input_names=["crops"], output_names=["swapped"], opset_version=17, dynamo=False,
            dynamic_axes={"crops": {0: "batch"}, "swapped": {0: "batch"}},
        )  # fmt: skip
    model = onnx.load(path)
    store_float16(model)
    del model.graph.value_info[:]
    model.producer_name, model.doc_string = "mien", "Whether a face was swapped. Apache-2.0."
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def load(path: Path) -> Naturalness:
    """A network from a checkpoint, ready to judge."""
    net = Naturalness()
    net.load_state_dict(torch.load(path, weights_only=True))
    return net.eval()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a checkpoint as ONNX.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    export(load(options.checkpoint), options.file)


if __name__ == "__main__":
    main()
