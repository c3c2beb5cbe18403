"""What all stand-ins are built from, and the first few, which count from colours and are read by many tests.

A stand-in is a tiny ONNX graph with the inputs and outputs of a real model, whose outputs tell what went in.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, checker, helper, numpy_helper

Dims: TypeAlias = Sequence[int | str]
Constants: TypeAlias = dict[str, npt.NDArray[Any]]


def graph(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims],
    types: Mapping[str, int] = MappingProxyType({}),
    /,
    **constants: npt.NDArray[Any],
) -> bytes:
    """An ONNX file of float32 inputs and outputs, but for those whose type is given."""
    made = helper.make_graph(
        list(nodes),
        "stand-in",
        [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), dims)
            for name, dims in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), dims)
            for name, dims in outputs.items()
        ],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> NodeProto:
    """A node with one output."""
    return helper.make_node(kind, list(inputs), [output], **attributes)


def noise(name: str) -> np.random.Generator:
    """Random numbers that are always the same for one name, and others for others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def detector() -> bytes:
    """YuNet's layout: cls is the mean of channel 0 of each cell over 255, obj that of channel 1; no offsets."""
    nodes: list[NodeProto] = []
    outputs: dict[str, Dims] = {}
    for stride in (8, 16, 32):
        nodes.append(node("AveragePool", ["input"], f"pool_{stride}", kernel_shape=[stride] * 2, strides=[stride] * 2))
        nodes.append(node("Mul", [f"pool_{stride}", "scale"], f"unit_{stride}"))
        for kind, channel in (("cls", "zero"), ("obj", "one")):
            nodes.append(node("Gather", [f"unit_{stride}", channel], f"{kind}_map_{stride}", axis=1))
            nodes.append(node("Reshape", [f"{kind}_map_{stride}", "column"], f"{kind}_{stride}"))
        for kind, zeros in (("bbox", "zeros_4"), ("kps", "zeros_10")):
            nodes.append(node("Mul", [f"cls_{stride}", zeros], f"{kind}_{stride}"))
    for kind, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        outputs.update({f"{kind}_{stride}": ("n", "cells", width) for stride in (8, 16, 32)})
    return graph(
        nodes, {"input": ("n", 3, "h", "w")}, outputs,
        scale=np.array(1 / 255, np.float32), zero=np.array(0), one=np.array(1), column=np.array([0, -1, 1]),
        zeros_4=np.zeros((1, 1, 4), np.float32), zeros_10=np.zeros((1, 1, 10), np.float32),
    )  # fmt: skip


def landmarker() -> bytes:
    """mesh478's layout: every point is the mean of the crop's channels, and the presence logit that of channel 0."""
    nodes = [
        node("ReduceMean", ["input_12"], "mean", axes=[1, 2], keepdims=0),
        node("Tile", ["mean", "repeats"], "points"),
        node("Reshape", ["points", "points_shape"], "Identity"),
        node("Gather", ["mean", "zero"], "first", axis=1),
        node("Reshape", ["first", "logit_shape"], "Identity_1"),
        node("Neg", ["first"], "Identity_2"),
    ]
    outputs = {"Identity": ("n", 1, 1, 1434), "Identity_1": ("n", 1, 1, 1), "Identity_2": ("n", 1)}
    return graph(
        nodes, {"input_12": ("n", 256, 256, 3)}, outputs,
        repeats=np.array([1, 478]), points_shape=np.array([-1, 1, 1, 1434]), zero=np.array([0]),
        logit_shape=np.array([-1, 1, 1, 1]),
    )  # fmt: skip


def embedder(dimensions: int = 128, offset: float = 0.0) -> bytes:
    """MobileFaceNet's layout: the first three values are the means of the normalised channels, plus `offset`."""
    nodes = [
        node("ReduceMean", ["input0"], "mean", axes=[2, 3], keepdims=0),
        node("MatMul", ["mean", "pick"], "picked"),
        node("Add", ["picked", "offset"], "output0"),
    ]
    pick = np.eye(3, dimensions, dtype=np.float32)
    offsets = np.array([offset] + [0] * (dimensions - 1), np.float32)
    return graph(nodes, {"input0": ("n", 3, 112, 112)}, {"output0": ("n", dimensions)}, pick=pick, offset=offsets)


def masker() -> bytes:
    """The skin, hair and clothes model's layout: the masks are the normalised channels."""
    return graph([node("Identity", ["x"], "y")], {"x": ("n", 3, 512, 512)}, {"y": ("n", 3, 512, 512)})


def expression() -> bytes:
    """The blendshape model's layout: the scores are the x of the first 52 points over 1000."""
    nodes = [
        node("Slice", ["points", "starts", "ends"], "part"),
        node("Reshape", ["part", "flat"], "column"),
        node("Mul", ["column", "scale"], "scores"),
    ]
    return graph(
        nodes, {"points": (1, 146, 2)}, {"scores": (52,)},
        starts=np.array([0, 0, 0]), ends=np.array([1, 52, 1]), flat=np.array([52]),
        scale=np.array(0.001, np.float32),
    )  # fmt: skip
