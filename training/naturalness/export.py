"""Writes the network as ONNX: crops in, logits out, weights stored as float16.

usage: python -m training.naturalness.export CHECKPOINT FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training.naturalness.model import Naturalness
from training.naturalness.swaps import JUDGED
from training.onnx_file import write


def export(net: Naturalness, path: Path) -> None:
    """Write the ONNX file."""
    crops = torch.zeros(1, 3, JUDGED.side, JUDGED.side)
    write(net, (crops,), path, ["crops"], ["swapped"], "Whether a face was swapped. Apache-2.0.")


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
