"""Stand-ins of maskers: every class is another mixture of a pixel's channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from onnx import NodeProto

from tests.standins.base import Constants, Dims, graph, node, noise


def _classes(source: str, output: str, count: int, gain: float, seed: str, constants: Constants) -> list[NodeProto]:
    random = noise(f"{seed} {output}")
    constants[f"{output}_w"] = (gain * random.normal(size=(count, 3, 1, 1))).astype(np.float32)
    constants[f"{output}_b"] = random.normal(size=count).astype(np.float32) / 4
    return [node("Conv", [source, f"{output}_w", f"{output}_b"], output)]


def smp(seed: str, names: tuple[str, str], size: int, count: int) -> bytes:
    """Probabilities of `count` classes, channels first."""
    constants: Constants = {}
    source, output = names
    nodes = [*_classes(source, "logits", count, 1.0, seed, constants), node("Sigmoid", ["logits"], output)]
    outputs: dict[str, Dims] = {output: ("n", count, size, size)}
    return graph(nodes, {source: ("n", 3, size, size)}, outputs, **constants)


def xseg(seed: str) -> bytes:
    """NHWC in and out; goes below 0 and above 1."""
    weights = np.array([[0.4], [0.9], [-0.7]], np.float32) * (1 + noise(seed).uniform(-0.3, 0.3))
    nodes = [node("MatMul", ["input", "w"], "mixed"), node("Add", ["mixed", "b"], "output")]
    return graph(
        nodes, {"input": (1, 256, 256, 3)}, {"output": (1, 256, 256, 1)},
        w=weights.astype(np.float32), b=np.array([0.15], np.float32),
    )  # fmt: skip


def bisenet(seed: str) -> bytes:
    """Logits of 19 classes."""
    constants: Constants = {}
    nodes = _classes("input", "output", 19, 1.0, seed, constants)
    return graph(nodes, {"input": (1, 3, 512, 512)}, {"output": (1, 19, 512, 512)}, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "occluder": partial(smp, "occluder", ("input", "output"), 160, 1),
        "skin_hair": partial(smp, "skin_hair", ("x.1", "y"), 512, 3),
        **{name: partial(xseg, name) for name in ("xseg_1", "xseg_2", "xseg_3")},
        **{name: partial(bisenet, name) for name in ("bisenet_resnet_18", "bisenet_resnet_34")},
    }
)
