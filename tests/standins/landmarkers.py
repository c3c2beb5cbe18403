"""Stand-ins of landmarkers: every point is another mixture of the means of squares of the crop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from onnx import NodeProto

from tests.standins.base import Constants, Dims, graph, node, noise
from tests.standins.parts import features, linear, to_nchw


def _points(source: str, output: str, count: int, gain: float, seed: str, constants: Constants) -> list[NodeProto]:
    """N×48 → N×count, of about `gain`, around 0."""
    return linear(source, output, (48, count), gain, seed, constants)


def mesh478(seed: str) -> bytes:
    """MediaPipe's: NHWC in; points around the crop's middle, a presence logit and a tongue logit."""
    constants: Constants = {
        "middle": np.array(128, np.float32), "mesh_shape": np.array([-1, 1, 1, 1434]),
        "one_shape": np.array([-1, 1, 1, 1]),
    }  # fmt: skip
    nodes = [
        to_nchw("input_12", "nchw"),
        *features("nchw", "seen", 256, 4, constants),
        *_points("seen", "around", 1434, 60, seed, constants),
        node("Add", ["around", "middle"], "mesh"),
        node("Reshape", ["mesh", "mesh_shape"], "Identity"),
        *_points("seen", "presence", 1, 3, seed, constants),
        node("Reshape", ["presence", "one_shape"], "Identity_1"),
        *linear("seen", "Identity_2", (48, 1), 3, seed, constants),
    ]
    outputs: dict[str, Dims] = {"Identity": ("n", 1, 1, 1434), "Identity_1": ("n", 1, 1, 1), "Identity_2": ("n", 1)}
    return graph(nodes, {"input_12": ("n", 256, 256, 3)}, outputs, **constants)


def fan(seed: str) -> bytes:
    """2DFAN-4 as FaceFusion has it: x, y, score of 68 points on a grid of 64, and their heatmaps."""
    constants: Constants = {"grid": np.array(64, np.float32), "triples": np.array([-1, 68, 3])}
    weights = noise(f"{seed} heatmaps").normal(size=(68, 3, 1, 1)) * 2
    constants["maps_w"], constants["beyond"] = weights.astype(np.float32), np.array(1.3, np.float32)
    nodes = [
        *features("input", "seen", 256, 4, constants),
        *_points("seen", "logits", 204, 2, seed, constants),
        node("Sigmoid", ["logits"], "units"),
        node("Mul", ["units", "grid"], "cells"),
        node("Reshape", ["cells", "triples"], "landmarks"),
        node("AveragePool", ["input"], "small", kernel_shape=[4, 4], strides=[4, 4]),
        node("Conv", ["small", "maps_w"], "maps_raw"),
        node("Sigmoid", ["maps_raw"], "maps_unit"),
        node("Mul", ["maps_unit", "beyond"], "heatmaps"),
    ]
    outputs: dict[str, Dims] = {"landmarks": (1, 68, 3), "heatmaps": (1, 68, 64, 64)}
    return graph(nodes, {"input": (1, 3, 256, 256)}, outputs, **constants)


def peppa(seed: str) -> bytes:
    """x, y, score of 68 points on a grid of 64, in one row."""
    constants: Constants = {"scale": np.tile(np.array([64, 64, 1], np.float32), 68)}
    nodes = [
        *features("input", "seen", 256, 4, constants),
        *_points("seen", "logits", 204, 2, seed, constants),
        node("Sigmoid", ["logits"], "units"),
        node("Mul", ["units", "scale"], "output"),
    ]
    return graph(nodes, {"input": (1, 3, 256, 256)}, {"output": (1, 204)}, **constants)


def fan_68_5(seed: str) -> bytes:
    """68 points from 5, both in units of an FFHQ crop."""
    constants: Constants = {"flat": np.array([-1, 10]), "pairs": np.array([-1, 68, 2])}
    nodes = [
        node("Reshape", ["input", "flat"], "five"),
        *linear("five", "moved", (10, 136), 1, seed, constants, bias=0.5),
        node("Reshape", ["moved", "pairs"], "output"),
    ]
    return graph(nodes, {"input": (1, 5, 2)}, {"output": (1, 68, 2)}, **constants)


def insightface(seed: str, values: int) -> bytes:
    """2d106det and 1k3d68: `values` coordinates of −1–1 from raw pixels, which the graph normalises itself."""
    constants: Constants = {"mean": np.array(127.5, np.float32), "scale": np.array(1 / 128, np.float32)}
    nodes = [
        node("Sub", ["data", "mean"], "centred"),
        node("Mul", ["centred", "scale"], "unit"),
        *features("unit", "seen", 192, 4, constants),
        *_points("seen", "logits", values, 2, seed, constants),
        node("Tanh", ["logits"], "fc1"),
    ]
    return graph(nodes, {"data": ("None", 3, 192, 192)}, {"fc1": (1, values)}, **constants)


def pipnet(seed: str) -> bytes:
    """Scores and offsets of 98 points on an 8×8 grid, and offsets of ten neighbours of each."""
    constants: Constants = {}
    nodes = [node("AveragePool", ["input"], "cells", kernel_shape=[32, 32], strides=[32, 32])]
    outputs: dict[str, Dims] = {}
    for name, maps in (("cls", 98), ("x", 98), ("y", 98), ("nb_x", 980), ("nb_y", 980)):
        random = noise(f"{seed} {name}")
        constants[f"{name}_w"] = (random.normal(size=(maps, 3, 1, 1)) / 3).astype(np.float32)
        constants[f"{name}_b"] = random.uniform(0.2, 0.8, maps).astype(np.float32)
        nodes.append(node("Conv", ["cells", f"{name}_w", f"{name}_b"], f"out_{name}"))
        outputs[f"out_{name}"] = (1, maps, 8, 8)
    return graph(nodes, {"input": (1, 3, 256, 256)}, outputs, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "mesh478": partial(mesh478, "mesh478"),
        "2dfan4": partial(fan, "2dfan4"),
        "peppa_wutz": partial(peppa, "peppa_wutz"),
        "fan_68_5": partial(fan_68_5, "fan_68_5"),
        "2d106det": partial(insightface, "2d106det", 212),
        "1k3d68": partial(insightface, "1k3d68", 3309),
        "pipnet_98": partial(pipnet, "pipnet_98"),
    }
)
