"""Stand-ins of embedders: every value is another mixture of the means of 49 squares of the crop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from tests.standins.base import Constants, Dims, graph
from tests.standins.parts import features, linear


def embedder(
    seed: str, names: tuple[str, str], size: int, dimensions: int, gain: float, cells: int = 7, batch: str | int = "n"
) -> bytes:
    """Crops of `size` → `dimensions` values of about `gain`, not normalised."""
    constants: Constants = {}
    source, output = names
    nodes = [
        *features(source, "seen", size, cells, constants),
        *linear("seen", output, (3 * cells * cells, dimensions), gain, seed, constants),
    ]
    shape: Dims = (batch, dimensions)
    return graph(nodes, {source: (batch, 3, size, size)}, {output: shape}, **constants)


INSIGHTFACE = ("input.1", "683")
STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "mobilefacenet": partial(embedder, "mobilefacenet", ("input0", "output0"), 112, 128, 0.5),
        "arcface_w600k_r50": partial(embedder, "arcface_w600k_r50", INSIGHTFACE, 112, 512, 2.0),
        "arcface_w600k_mbf": partial(embedder, "arcface_w600k_mbf", ("input.1", "516"), 112, 512, 2.0),
        "arcface_glint_r100": partial(embedder, "arcface_glint_r100", ("input.1", "1333"), 112, 512, 2.0, batch=1),
        "dlib_resnet": partial(embedder, "dlib_resnet", ("input", "embedding"), 150, 128, 0.004, 10),
    }
)
