"""A tiny ONNX graph for every registered name, with the true contract of its file.

Names, order, types and fixed sizes of inputs and outputs are those of the files that users have; the numbers that
come out are made of every part of what went in, so that a slip before or after the network changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from mien.zoo.cards import Task
from tests.standins import (
    attributes,
    converters,
    detectors,
    embedders,
    enhancers,
    expressions,
    landmarkers,
    maskers,
    swappers,
)

STANDINS: Mapping[str, Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "detector": detectors.STANDINS,
        "landmarker": landmarkers.STANDINS,
        "embedder": embedders.STANDINS,
        "converter": converters.STANDINS,
        "swapper": swappers.STANDINS,
        "enhancer": enhancers.STANDINS,
        "masker": maskers.STANDINS,
        "expression": expressions.STANDINS,
        "attribute": attributes.STANDINS,
    }
)


@cache
def standin(task: Task, name: str) -> bytes:
    """The ONNX file that stands in for a registered name."""
    return STANDINS[task][name]()
