"""Writes the network as ONNX, weights stored as float16, and reads such weights back.

`python -m training.swapgan.export WORK/last.pt FILE.onnx`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from mien.fusion import INPUTS, OUTPUTS, SIDE
from training.onnx_file import write
from training.swapgan.model import HELD, MOVED, SwapGAN

CHANNELS = (3, 3, 1, 1, 1, 1)


class Whole(nn.Module):
    """The network with its maps as a tuple, in the order of `OUTPUTS`."""

    def __init__(self, net: SwapGAN) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Gain, bias, share, flow."""
        maps = self.net(*inputs)
        return maps.gain, maps.bias, maps.trust, maps.flow


def export(net: SwapGAN, path: Path) -> None:
    """Write the ONNX file."""
    inputs = tuple(torch.rand(1, channels, SIDE, SIDE) for channels in CHANNELS)
    text = "Maps that blend a source's texture into a target's face. Apache-2.0."
    write(Whole(net), inputs, path, INPUTS, OUTPUTS, text)


def difference(net: SwapGAN, file: Path) -> float:
    """Largest difference between what the file gives in ONNX Runtime and what the network gives."""
    chance = torch.Generator().manual_seed(0)
    inputs = [torch.rand(3, channels, SIDE, SIDE, generator=chance) for channels in CHANNELS]
    with torch.no_grad():
        wanted = Whole(net).eval()(*inputs)
    found = ort.InferenceSession(file).run(None, {n: x.numpy() for n, x in zip(INPUTS, inputs, strict=True)})
    return max(float(np.abs(a - b.numpy()).max()) for a, b in zip(found, wanted, strict=True))


def load_exported(net: SwapGAN, file: Path) -> None:
    """Put the weights of an exported file into a network."""
    stored = {t.name.removesuffix("_f16"): numpy_helper.to_array(t) for t in onnx.load(file).graph.initializer}
    wanted = dict(net.named_parameters())
    with torch.no_grad():
        for name, parameter in wanted.items():
            if f"net.{name}" in stored:  # a part that the file's network had not yet begins as it is
                parameter.copy_(torch.from_numpy(stored[f"net.{name}"].astype("float32")))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a checkpoint's averaged network as ONNX.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    net = SwapGAN(held=HELD, moved=MOVED)
    net.load_state_dict(torch.load(args.checkpoint, weights_only=True)["average"])
    export(net, args.file)
    load_exported(net, args.file)  # weights as float16 hold them
    apart = difference(net, args.file)
    print(f"{args.file}: {args.file.stat().st_size} bytes, {apart:.1e} from PyTorch")
    if apart > 1e-3:
        raise SystemExit("ONNX Runtime gives something else than PyTorch")


if __name__ == "__main__":
    main()
