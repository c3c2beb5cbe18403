"""Stand-ins of embedding converters: a random matrix and an offset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from tests.standins.base import Constants, graph
from tests.standins.parts import linear


def crossface(seed: str) -> bytes:
    """1×512 → 1×512, whose length tells that of what went in."""
    constants: Constants = {}
    nodes = linear("input", "output", (512, 512), 1.3, seed, constants, bias=0.2)
    return graph(nodes, {"input": (1, 512)}, {"output": (1, 512)}, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {name: partial(crossface, name) for name in ("crossface_ghost", "crossface_simswap", "crossface_hififace")}
)
