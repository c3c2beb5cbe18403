"""The helpers of `tests.standins`, by their short name."""

from tests.standins.base import detector, embedder, expression, graph, landmarker, masker, node

__all__ = ["detector", "embedder", "expression", "graph", "landmarker", "masker", "node"]
