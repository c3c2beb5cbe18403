"""Full-size networks of random weights: `python -m benchmarks.standins DIR [NAME …]`.

Each has the inputs, outputs, size and structure of a public file that cannot be shipped, so that speed and memory can
be measured honestly. What they give has no meaning. For each, its parameters, cost of one item and bytes are printed;
papers and tools call either the multiply-adds (GMAC) or twice that number "FLOP".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.nets import Net, multiply_adds, parameters, save


def inswapper(width: float = 1.0) -> onnx.ModelProto:
    """inswapper_128: encoder, six blocks of two AdaIN convolutions at 32×32, decoder; no node reads `emap`."""
    net = Net(1, width)
    target, source = net.input("target", 3), net.input("source", 512)
    x = net.op("LeakyRelu", net.conv(net.pad(target, 3), net.wide(128), 7, pad=0), alpha=0.2)
    for channels, stride in ((256, 1), (512, 2), (1024, 2)):
        x = net.op("LeakyRelu", net.conv(x, net.wide(channels), stride=stride), alpha=0.2)
    for _ in range(6):
        y = net.op("Relu", _adain(net, net.conv(net.pad(x, 1), net.wide(1024), pad=0), source))
        y = _adain(net, net.conv(net.pad(y, 1), net.wide(1024), pad=0), source)
        x = net.op("Add", x, y)
    for channels in (512, 256):
        x = net.op("LeakyRelu", net.conv(net.scale_up(x), net.wide(channels)), alpha=0.2)
    x = net.op("LeakyRelu", net.conv(x, net.wide(128)), alpha=0.2)
    x = net.op("Tanh", net.conv(net.pad(x, 3), 3, 7, pad=0, gain=0.1))
    x = net.op("Add", x, net.constant(1.0, dtype=np.float32))
    net.op("Div", x, net.constant(2.0, dtype=np.float32), name="output")
    net.weights((512, 512), name="emap")
    return net.model({"target": (1, 3, 128, 128), "source": (1, 512)}, {"output": (1, 3, 128, 128)})


def _adain(net: Net, x: str, source: str) -> str:
    """Instance normalisation from its parts, then scale and shift that a layer makes of the latent."""
    mean = net.op("ReduceMean", x, axes=[2, 3], keepdims=1)
    x = net.op("Sub", x, mean)
    spread = net.op("ReduceMean", net.op("Mul", x, x), axes=[2, 3], keepdims=1)
    spread = net.op("Sqrt", net.op("Add", spread, net.constant(1e-8, dtype=np.float32)))
    x = net.op("Mul", x, net.op("Div", net.constant(1.0, dtype=np.float32), spread))
    channels = net.channels[x]
    style = net.linear(source, 512, 2 * channels, bias=0.5)
    style = net.op("Unsqueeze", net.op("Unsqueeze", style, axes=[2]), axes=[3])
    scale, shift = (
        net.op("Slice", style, *(net.constant([n], dtype=np.int64) for n in (start, start + channels, 1)))
        for start in (0, channels)
    )
    return net.op("Add", net.op("Mul", x, scale), shift)


def gfpgan(width: float = 1.0) -> onnx.ModelProto:
    """GFPGAN-512: a U-Net whose features modulate half of the channels of a StyleGAN2 decoder, as in gfpgan_1.4.

    Modulated convolutions are exported with weights that depend on the item, so a batch cannot go through them.
    """
    net = Net(2, width)
    wanted = {8: 512, 16: 512, 32: 512, 64: 512, 128: 256, 256: 128, 512: 64}
    features = {4: 256, 8: 256, 16: 256, 32: 256, 64: 256, 128: 128, 256: 64, 512: 32}
    x = net.op("LeakyRelu", net.conv(net.input("input", 3), net.wide(32), 1), alpha=0.2)
    skips: dict[int, str] = {}
    for side in (256, 128, 64, 32, 16, 8, 4):
        x = _resblock(net, x, net.wide(features[side]), 0.5)
        skips[side] = x
    x = net.op("LeakyRelu", net.conv(x, net.wide(256)), alpha=0.2)
    latent = net.linear(net.reshape(x, 1, 16 * net.wide(256)), 16 * net.wide(256), 16 * net.wide(512), gain=0.7)
    latent = net.reshape(latent, 1, 16, net.wide(512))
    conditions: dict[int, tuple[str, str]] = {}
    for side, channels in wanted.items():
        x = net.op("Add", x, skips[side // 2])
        x = _resblock(net, x, net.wide(features[side]), 2.0)
        pair = [net.op("LeakyRelu", net.conv(x, net.channels[x]), alpha=0.2) for _ in range(2)]
        half = net.wide(channels) // 2
        conditions[side] = (net.conv(pair[0], half, gain=0.3), net.conv(pair[1], half, gain=0.3))
    net.op("Identity", _decoder(net, latent, wanted, conditions), name="output")
    return net.model({"input": (1, 3, 512, 512)}, {"output": (1, 3, 512, 512)})


def _resblock(net: Net, x: str, channels: int, factor: float) -> str:
    y = net.op("LeakyRelu", net.conv(x, net.channels[x]), alpha=0.2)
    y = net.op("LeakyRelu", net.conv(net.scale_up(y, factor), channels), alpha=0.2)
    return net.op("Add", y, net.conv(net.scale_up(x, factor), channels, 1, gain=0.5))


def _decoder(net: Net, latent: str, channels: Mapping[int, int], conditions: Mapping[int, tuple[str, str]]) -> str:
    x = net.weights((1, net.wide(512), 4, 4), fan=2)
    net.channels[x] = net.wide(512)
    x, image, style = _modulated(net, x, latent, 0, net.wide(512)), "", 1
    image = _modulated(net, x, latent, style, 3, size=1)
    for side, (scale, shift) in conditions.items():
        x = _modulated(net, net.scale_up(x), latent, style, net.wide(channels[side]))
        half = net.channels[x] // 2
        kept, changed = (
            net.op("Slice", x, *(net.constant([n], dtype=np.int64) for n in (start, start + half, 1)), channels=half)
            for start in (0, half)
        )
        changed = net.op("Add", net.op("Mul", changed, scale), shift)
        x = net.op("Concat", kept, changed, channels=2 * half, axis=1)
        x = _modulated(net, x, latent, style + 1, net.wide(channels[side]))
        rgb = _modulated(net, x, latent, style + 2, 3, size=1)
        image = net.op("Add", net.scale_up(image), rgb)
        style += 2
    return image


def _modulated(net: Net, x: str, latent: str, index: int, channels: int, size: int = 3) -> str:
    """StyleGAN2's convolution: weights times the item's style, demodulated unless they make colours."""
    inputs = net.channels[x]
    style = net.op("Gather", latent, net.constant(index, dtype=np.int64), axis=1, channels=net.wide(512))
    style = net.reshape(net.linear(style, net.wide(512), inputs, gain=0.1, bias=1.0), 1, 1, inputs, 1, 1)
    colours = size == 1
    weight = net.op("Mul", net.weights((1, channels, inputs, size, size), gain=0.02 if colours else 1.0), style)
    if not colours:
        energy = net.op("ReduceSum", net.op("Mul", weight, weight), axes=[2, 3, 4], keepdims=1)
        root = net.op("Sqrt", net.op("Add", energy, net.constant(1e-8, dtype=np.float32)))
        weight = net.op("Div", weight, root)
    weight = net.reshape(weight, channels, inputs, size, size)
    x = net.op("Conv", x, weight, channels=channels, kernel_shape=[size] * 2, pads=[size // 2] * 4)
    x = net.op("Add", x, net.constant(np.zeros((1, channels, 1, 1), np.float32)))
    return x if colours else net.op("LeakyRelu", x, alpha=0.2)


def scrfd(width: float = 1.0) -> onnx.ModelProto:
    """scrfd_10g: a residual backbone, path aggregation and heads of three convolutions; outputs run over all cells."""
    net = Net(3, width)
    x = net.input("input.1", 3)
    for channels, stride in ((28, 2), (28, 1), (56, 1)):
        x = net.op("Relu", net.conv(x, net.wide(channels), stride=stride))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    levels = []
    for planes, blocks, stride in ((56, 3, 1), (88, 4, 2), (88, 2, 2), (224, 3, 2)):
        for index in range(blocks):
            x = _basic(net, x, net.wide(planes), stride if index == 0 else 1)
        levels.append(x)
    sides = [net.conv(level, net.wide(56), 1) for level in levels[1:]]
    for low, high in ((1, 2), (0, 1)):
        sides[low] = net.op("Add", sides[low], net.scale_up(sides[high], mode="nearest"))
    maps = [net.conv(side, net.wide(56)) for side in sides]
    for high, low in ((1, 0), (2, 1)):
        maps[high] = net.conv(net.op("Add", maps[high], net.conv(maps[low], net.wide(56), stride=2)), net.wide(56))
    outputs: dict[str, Sequence[int | str]] = {}
    heads = {stride: _head(net, feature) for stride, feature in zip((8, 16, 32), maps, strict=True)}
    for kind, count in (("score", 1), ("bbox", 4), ("kps", 10)):
        for stride, x in heads.items():
            y = net.conv(x, 2 * count, gain=0.1)
            y = net.op("Transpose", net.op("Sigmoid", y) if count == 1 else y, perm=[2, 3, 0, 1])
            net.op("Reshape", y, net.constant([-1, count], dtype=np.int64), name=f"{kind}_{stride}")
            outputs[f"{kind}_{stride}"] = (f"cells_{stride}", count)
    return net.model({"input.1": (1, 3, "height", "width")}, outputs)


def _head(net: Net, x: str) -> str:
    for _ in range(3):
        x = net.op("Relu", net.conv(x, net.wide(80)))
    return x


def _basic(net: Net, x: str, channels: int, stride: int = 1) -> str:
    """Two convolutions and a shortcut."""
    y = net.conv(net.op("Relu", net.conv(x, channels, stride=stride)), channels, gain=0.3)
    if stride != 1 or net.channels[x] != channels:
        x = net.conv(x, channels, 1, stride)
    return net.op("Relu", net.op("Add", x, y))


def fan(width: float = 1.0) -> onnx.ModelProto:
    """2dfan4: four hourglasses of 256 channels; the places of the maxima are found in the graph."""
    net = Net(4, width)
    x = net.op("Relu", net.conv(net.input("input", 3), net.wide(64), 7, 2))
    x = net.op("AveragePool", _pyramid(net, x, net.wide(128)), kernel_shape=[2, 2], strides=[2, 2])
    x = _pyramid(net, _pyramid(net, x, net.wide(128)), net.wide(256))
    heat = ""
    for index in range(4):
        y = _pyramid(net, _hourglass(net, x, 4), net.wide(256))
        y = net.op("Relu", net.norm(net.conv(y, net.wide(256), 1)))
        heat = net.conv(y, 68, 1, gain=0.3)
        if index < 3:
            back = net.op("Add", net.conv(y, net.wide(256), 1, gain=0.3), net.conv(heat, net.wide(256), 1, gain=0.3))
            x = net.op("Add", x, back)
    net.op("Identity", heat, name="heatmaps")
    flat = net.reshape(heat, 1, 68, 4096)
    place = net.op("ArgMax", flat, axis=2, keepdims=1)
    side = net.constant(64, dtype=np.int64)
    down = net.op("Div", place, side)
    across = net.op("Sub", place, net.op("Mul", down, side))
    parts = [net.op("Cast", value, to=onnx.TensorProto.FLOAT) for value in (across, down)]
    net.op("Concat", *parts, net.op("ReduceMax", flat, axes=[2], keepdims=1), name="landmarks", axis=2)
    return net.model(
        {"input": (1, 3, 256, 256)}, {"landmarks": (1, 68, 3), "heatmaps": (1, 68, 64, 64)}
    )  # fmt: skip


def _pyramid(net: Net, x: str, channels: int) -> str:
    """Three convolutions, each on the one before; all are put together, and the input is added."""
    parts, y = [], x
    for part in (2, 4, 4):
        y = net.conv(net.op("Relu", net.norm(y)), channels // part, gain=0.3)
        parts.append(y)
    if net.channels[x] != channels:
        x = net.conv(net.op("Relu", net.norm(x)), channels, 1)
    return net.op("Add", net.op("Concat", *parts, channels=channels, axis=1), x)


def _hourglass(net: Net, x: str, depth: int) -> str:
    channels = net.channels[x]
    above = _pyramid(net, x, channels)
    low = _pyramid(net, net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), channels)
    low = _hourglass(net, low, depth - 1) if depth > 1 else _pyramid(net, low, channels)
    side = 64 >> (4 - depth)
    return net.op("Add", above, net.size_to(_pyramid(net, low, channels), side, side, "nearest"))


def arcface(width: float = 1.0) -> onnx.ModelProto:
    """arcface_w600k_r50: IResNet-50 with PReLU; the input has a free batch, as in the real file."""
    net = Net(5, width)
    x = net.prelu(net.conv(net.input("input.1", 3), net.wide(64)))
    for channels, blocks in ((64, 3), (128, 4), (256, 14), (512, 3)):
        for index in range(blocks):
            stride = 2 if index == 0 else 1
            y = net.prelu(net.conv(net.norm(x), net.wide(channels)))
            y = net.conv(y, net.wide(channels), stride=stride, gain=0.3)
            x = net.op("Add", net.conv(x, net.wide(channels), 1, stride) if index == 0 else x, y)
    count = net.wide(512) * 49
    x = net.linear(net.op("Flatten", net.norm(x), channels=count), count, 512)
    net.op("Identity", net.norm(x), name="683")
    return net.model({"input.1": ("batch", 3, 112, 112)}, {"683": ("batch", 512)})


def bisenet(width: float = 1.0) -> onnx.ModelProto:
    """bisenet_resnet_18: ResNet-18, attention refinement, feature fusion; resized to constant sizes."""
    net = Net(6, width)
    x = net.op("Relu", net.conv(net.input("input", 3), net.wide(64), 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    levels = []
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        x = _basic(net, _basic(net, x, net.wide(channels), stride), net.wide(channels))
        levels.append(x)
    around = net.op("Relu", net.conv(net.op("GlobalAveragePool", levels[3]), net.wide(128), 1))
    x = net.op("Add", _attend(net, levels[3], net.wide(128)), net.size_to(around, 16, 16, "nearest"))
    x = net.op("Relu", net.conv(net.size_to(x, 32, 32, "nearest"), net.wide(128)))
    x = net.op("Add", _attend(net, levels[2], net.wide(128)), x)
    x = net.op("Relu", net.conv(net.size_to(x, 64, 64, "nearest"), net.wide(128)))
    x = net.op("Concat", levels[1], x, channels=2 * net.wide(128), axis=1)
    x = net.op("Relu", net.conv(x, net.wide(256), 1))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), net.wide(64), 1))
    gate = net.op("Sigmoid", net.conv(gate, net.wide(256), 1))
    x = net.op("Add", net.op("Mul", x, gate), x)
    x = net.conv(net.op("Relu", net.conv(x, net.wide(256))), 19, 1)
    net.op("Identity", net.size_to(x, 512, 512), name="output")
    return net.model({"input": (1, 3, 512, 512)}, {"output": (1, 19, 512, 512)})


def _attend(net: Net, x: str, channels: int) -> str:
    x = net.op("Relu", net.conv(x, channels))
    return net.op("Mul", x, net.op("Sigmoid", net.conv(net.op("GlobalAveragePool", x), channels, 1)))


def xseg(width: float = 1.0) -> onnx.ModelProto:
    """xseg_1: a U-Net of six levels with a dense bottleneck; channels last outside."""
    net = Net(7, width)
    x = net.op("Transpose", net.input("input", 3), perm=[0, 3, 1, 2])
    skips = []
    for channels, depth in ((32, 2), (64, 2), (128, 2), (256, 3), (256, 3), (256, 3)):
        for _ in range(depth):
            x = net.op("Relu", net.conv(x, net.wide(channels)))
        skips.append(x)
        x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    count = 16 * net.channels[x]
    y = net.linear(net.linear(net.reshape(x, 1, count), count, net.wide(512)), net.wide(512), count)
    x = net.reshape(y, 1, count // 16, 4, 4)
    for channels, depth in ((256, 3), (256, 3), (256, 3), (128, 2), (64, 2), (32, 2)):
        skip = skips.pop()
        x = net.conv(net.scale_up(x, mode="nearest"), net.channels[skip] // 2)
        x = net.op("Concat", x, skip, channels=net.channels[x] + net.channels[skip], axis=1)
        for _ in range(depth):
            x = net.op("Relu", net.conv(x, net.wide(channels)))
    x = net.op("Sigmoid", net.conv(x, 1, gain=0.3))
    net.op("Transpose", x, perm=[0, 2, 3, 1], name="output")
    return net.model({"input": (1, 256, 256, 3)}, {"output": (1, 256, 256, 1)})


@dataclass(frozen=True, slots=True)
class StandIn:
    """One of the networks."""

    make: Callable[[float], onnx.ModelProto]
    """At a factor on the number of channels; 1 is the size of the real file."""
    free: int = 1
    """Size of its free dimensions in the cost of one item."""


STAND_INS: Mapping[str, StandIn] = {
    "inswapper_128": StandIn(inswapper),
    "gfpgan_1.4": StandIn(gfpgan),
    "scrfd_10g": StandIn(scrfd, 640),
    "2dfan4": StandIn(fan),
    "arcface_w600k_r50": StandIn(arcface),
    "bisenet_resnet_18": StandIn(bisenet),
    "xseg_1": StandIn(xseg),
}
"""By registered name."""


def main() -> None:
    """Write the networks and print what they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(STAND_INS), metavar="NAME", help=", ".join(STAND_INS))
    parser.add_argument("--width", type=float, default=1.0, help="factor on the number of channels")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'name':20} {'parameters':>12} {'GMAC':>8} {'GFLOP':>8} {'bytes':>12}")
    for name in arguments.names:
        stand_in = STAND_INS[name]
        model = stand_in.make(arguments.width)
        macs = multiply_adds(model, stand_in.free) / 1e9
        size = save(model, arguments.folder / f"{name}.onnx")
        print(f"{name:20} {parameters(model):12,} {macs:8.2f} {2 * macs:8.2f} {size:12,}", flush=True)


if __name__ == "__main__":
    main()
