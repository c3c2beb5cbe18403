"""The frozen face network whose features judge a result in training: dlib's face recognition ResNet (CC0).

No other: the networks that measure the finished swapper must not have taught it.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from onnx2torch import convert
from torch import Tensor, nn
from torch.nn import functional

SIDE = 150
LAYERS = ("Relu_9", "Relu_38", "Relu_58")
"""Features that are compared, of 35, 17 and 8 places a side; `_plain` gives nodes these names."""


class Teacher(nn.Module):
    """N×3×S×S RGB 0–1 and N×2×3 matrices to its crop → features at `LAYERS` and the N×128 embedding."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.net = convert(_plain(onnx.load(file))).eval()
        for parameter in self.net.parameters():
            parameter.requires_grad_(False)
        self._kept: dict[str, Tensor] = {}
        for name in LAYERS:
            self.net.get_submodule(name).register_forward_hook(self._hook(name))

    def _hook(self, name: str):  # type: ignore[no-untyped-def]
        def keep(_: nn.Module, __: object, output: Tensor) -> None:
            self._kept[name] = output

        return keep

    def forward(self, images: Tensor, aligned: Tensor) -> tuple[list[Tensor], Tensor]:
        """See the class."""
        crops = functional.grid_sample(
            images, sampling_grid(aligned, images.shape[-1]), padding_mode="border", align_corners=False
        )
        embedding: Tensor = self.net(crops * 255)
        return [self._kept[name] for name in LAYERS], embedding


def sampling_grid(aligned: Tensor, side: int) -> Tensor:
    """N×SIDE×SIDE×2 places in an image of `side` pixels, −1…1, for each pixel of the aligned crop."""
    count = len(aligned)
    last = torch.tensor([[[0.0, 0.0, 1.0]]]).expand(count, 1, 3)
    back = torch.linalg.inv(torch.cat([aligned.float(), last], 1))[:, :2]
    line = torch.arange(SIDE, dtype=torch.float32)
    y, x = torch.meshgrid(line, line, indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)], 2).reshape(1, -1, 3)
    at = points @ back.transpose(1, 2)
    return ((at + 0.5) * (2 / side) - 1).reshape(count, SIDE, SIDE, 2)


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph without casts of its weights, and with a name for each node."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    nodes = []
    for index, node in enumerate(graph.node):
        if node.op_type == "Cast" and node.input[0] in stored:
            values = numpy_helper.to_array(stored[node.input[0]]).astype("float32")
            graph.initializer.remove(stored.pop(node.input[0]))
            graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            node.name = f"{node.op_type}_{index}"
            nodes.append(node)
    nodes = [_renamed(node, f"{node.op_type}_{place}") for place, node in enumerate(nodes)]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _renamed(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    node.name = name
    return node
