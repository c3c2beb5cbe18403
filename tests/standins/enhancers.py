"""Stand-ins of enhancers: the crop with its channels mixed, in places beyond the range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from tests.standins.base import Constants, Dims, graph, node
from tests.standins.parts import mix


def enhancer(seed: str, size: int) -> bytes:
    """GFPGAN and its kin: images of −1–1."""
    constants: Constants = {}
    nodes = mix("input", "output", size, 1.2, 0.05, seed, constants)
    return graph(nodes, {"input": (1, 3, size, size)}, {"output": (1, 3, size, size)}, **constants)


def codeformer(seed: str) -> bytes:
    """With a float64 weight, which brightens."""
    constants: Constants = {"third": np.array(0.3, np.float32)}
    nodes = [
        *mix("input", "mixed", 512, 1.2, -0.1, seed, constants),
        node("Cast", ["weight"], "single", to=TensorProto.FLOAT),
        node("Mul", ["single", "third"], "more"),
        node("Add", ["mixed", "more"], "output"),
    ]
    inputs: dict[str, Dims] = {"input": (1, 3, 512, 512), "weight": (1,)}
    return graph(nodes, inputs, {"output": (1, 3, 512, 512)}, {"weight": TensorProto.DOUBLE}, **constants)


SIZES = {
    "gfpgan_1.2": 512, "gfpgan_1.3": 512, "gfpgan_1.4": 512, "restoreformer_plus_plus": 512,
    "gpen_bfr_256": 256, "gpen_bfr_512": 512, "gpen_bfr_1024": 1024, "gpen_bfr_2048": 2048,
}  # fmt: skip
STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        **{name: partial(enhancer, name, size) for name, size in SIZES.items()},
        "codeformer": partial(codeformer, "codeformer"),
    }
)
