"""Stand-in of the blendshape model: every score is another mixture of the 146 points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.standins.base import Constants, graph, node
from tests.standins.parts import linear


def blendshapes52() -> bytes:
    """One face at a time; scores 0–1."""
    constants: Constants = {"flat": np.array([1, 292]), "out": np.array([52]), "scale": np.array(1 / 256, np.float32)}
    nodes = [
        node("Reshape", ["points", "flat"], "row"),
        node("Mul", ["row", "scale"], "small"),
        *linear("small", "logits", (292, 52), 3, "blendshapes52", constants),
        node("Sigmoid", ["logits"], "units"),
        node("Reshape", ["units", "out"], "scores"),
    ]
    return graph(nodes, {"points": (1, 146, 2)}, {"scores": (52,)}, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType({"blendshapes52": blendshapes52})
