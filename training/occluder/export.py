"""Writes the network as ONNX: normalised crops in, probabilities out, weights stored as float16.

usage: python -m training.occluder.export CHECKPOINT FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from training.occluder.crops import SIZE
from training.occluder.model import Occluder
from training.onnx_file import write


class Whole(nn.Module):
    """N×3×S×S in −1…1 → N×1×S×S probabilities."""

    def __init__(self, net: Occluder) -> None:
        super().__init__()
        self.net = net

    def forward(self, crops: Tensor) -> Tensor:
        """Predict and squash."""
        return torch.sigmoid(self.net(crops))


def export(net: Occluder, path: Path) -> None:
    """Write the ONNX file."""
    text = "Pixels of a face crop that something covers. Apache-2.0."
    write(Whole(net), (torch.zeros(1, 3, SIZE, SIZE),), path, ["crops"], ["covered"], text)


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
