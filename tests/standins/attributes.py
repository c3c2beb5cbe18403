"""Stand-in of InsightFace's sex and age model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.standins.base import Constants, graph, node
from tests.standins.parts import features, linear


def genderage() -> bytes:
    """Two logits, female first, and the age over 100; normalises its raw pixels itself."""
    constants: Constants = {"mean": np.array(127.5, np.float32), "scale": np.array(1 / 128, np.float32)}
    nodes = [
        node("Sub", ["data", "mean"], "centred"),
        node("Mul", ["centred", "scale"], "unit"),
        *features("unit", "seen", 96, 4, constants),
        *linear("seen", "fc1", (48, 3), 1.5, "genderage", constants, bias=0.4),
    ]
    return graph(nodes, {"data": ("None", 3, 96, 96)}, {"fc1": (1, 3)}, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType({"genderage": genderage})
