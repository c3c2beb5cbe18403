"""Landmarks against the 189 hand-placed points of the Face Research Lab London Set, by region of the face.

DeBruine & Jones, CC BY 4.0. How errors are measured is told in `mien.evaluate.landmarks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mien.evaluate.landmarks import (
    LAYOUTS,
    REGIONS,
    IntArray,
    Places,
    fit,
    inter_ocular,
    off_outline,
    scored,
)
from mien.types import FloatArray

__all__ = ["CORNERS", "REGIONS", "SOFT", "Places", "fit", "inter_ocular", "off_outline", "report", "scored"]

CORNERS = LAYOUTS[189].corners
SOFT: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "irises": tuple(range(2, 18)),
        "folds of the eyes": tuple(range(34, 50)),
        "cheeks": tuple(range(158, 170)),
        "sides of the face": (*range(109, 115), *range(185, 189)),
    }
)
"""Further points of the face, most of them without an edge to lie on. The mesh has no hair, ears and neck."""


def report(ids: IntArray, meshes: FloatArray, truth: FloatArray) -> list[str]:
    """Lines that tell the errors by region, for people of odd ids after a fit on the even ones, and the reverse."""
    even = ids % 2 == 0
    usual, soft = (tuple(point for points in regions.values() for point in points) for regions in (REGIONS, SOFT))
    groups = {**REGIONS, "these": usual, **SOFT, "all": usual + soft}
    odd, bare = (scored(meshes, truth, even, offsets=offsets) for offsets in (True, False))
    reverse = scored(meshes, truth, ~even)
    lines = [
        "london landmarks, NME over the outer eye corners in %: odd ids by places of even ids (± 1.96 standard errors "
        "over people), the same without offsets, even ids by places of odd ids:"
    ]
    for name, points in groups.items():
        people = odd[:, points].mean(1) * 100
        spread = 1.96 * float(people.std(ddof=1)) / len(people) ** 0.5
        others = "  ".join(f"{float(each[:, points].mean()) * 100:.2f}" for each in (bare, reverse))
        lines.append(f"  {name:17} {len(points):3} points  {people.mean():.2f} ± {spread:.2f}  {others}")
    away = off_outline(meshes[~even], truth[~even][:, REGIONS["jaw"]], inter_ocular(truth[~even]))
    return [*lines, f"  off the mesh's outline, wherever along it: jaw {float(away.mean()) * 100:.2f}"]
