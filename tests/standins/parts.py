"""Parts that several stand-ins are made of. Each adds its constants to a dict and returns its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from tests.standins.base import Constants, node, noise


def features(source: str, output: str, size: int, cells: int, constants: Constants) -> list[NodeProto]:
    """N×3×size×size → N×(3·cells²): the means of cells×cells squares, channel by channel, row by row."""
    step = size // cells
    constants[f"{output}_flat"] = np.array([-1, 3 * cells * cells])
    return [
        node("AveragePool", [source], f"{output}_pool", kernel_shape=[step, step], strides=[step, step]),
        node("Reshape", [f"{output}_pool", f"{output}_flat"], output),
    ]


def linear(
    source: str, output: str, weights: Sequence[int], gain: float, seed: str, constants: Constants, bias: float = 0.0
) -> list[NodeProto]:
    """N×rows → N×columns, `weights` being (rows, columns): random, of `gain`, plus a random bias around `bias`."""
    rows, columns = weights
    random = noise(f"{seed} {output}")
    constants[f"{output}_w"] = (gain * random.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)
    constants[f"{output}_b"] = (bias + 0.1 * gain * random.normal(size=columns)).astype(np.float32)
    return [
        node("MatMul", [source, f"{output}_w"], f"{output}_wx"),
        node("Add", [f"{output}_wx", f"{output}_b"], output),
    ]


def to_nchw(source: str, output: str) -> NodeProto:
    """N×H×W×C → N×C×H×W."""
    return node("Transpose", [source], output, perm=[0, 3, 1, 2])


def mix(
    source: str, output: str, size: int, gain: float, bias: float, seed: str, constants: Constants
) -> list[NodeProto]:
    """N×3×size×size → the same: each channel made of all three, brighter to the right and darker below.

    A `gain` above 1 and a `bias` take the values out of the range of what went in, at both ends.
    """
    random = noise(f"{seed} {output}")
    blend = np.eye(3) + random.uniform(-0.35, 0.35, (3, 3))
    ramp = np.linspace(-0.1, 0.1, size)
    constants[f"{output}_w"] = (gain * blend / blend.sum(1, keepdims=True))[..., None, None].astype(np.float32)
    constants[f"{output}_b"] = (bias + random.uniform(-0.05, 0.05, 3)).astype(np.float32)
    constants[f"{output}_across"] = ramp[None, None, None].astype(np.float32)
    constants[f"{output}_down"] = -2 * ramp[None, None, :, None].astype(np.float32)
    return [
        node("Conv", [source, f"{output}_w", f"{output}_b"], f"{output}_mixed"),
        node("Add", [f"{output}_mixed", f"{output}_across"], f"{output}_right"),
        node("Add", [f"{output}_right", f"{output}_down"], output),
    ]
