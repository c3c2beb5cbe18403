"""Landmarks against the 189 hand-placed points of the Face Research Lab London Set (DeBruine & Jones, CC BY 4.0).

Each hand-placed point is given a place on the mesh: a vertex and an offset that is fixed in the frame of the mesh's
outer eye corners. Vertices and offsets are chosen on some people and scored on others. Errors are divided by the
distance of the hand-placed outer eye corners, as WFLW does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mien.mesh import EYE_CORNERS, OVAL
from mien.types import FloatArray

IntArray = npt.NDArray[np.intp]

CORNERS = (18, 27)
"""Hand-placed outer corners of the eyes: image left, image right."""
REGIONS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "pupils": (0, 1),
        "lids": tuple(range(18, 34)),
        "brows": tuple(range(71, 87)),
        "nose": (*range(50, 71), *range(170, 174), *range(179, 183)),
        "lips": tuple(range(87, 109)),
        "chin": tuple(range(174, 179)),
        "jaw": tuple(range(125, 134)),
    }
)
"""What the landmarks of faces usually are: 99 points."""
SOFT: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "irises": tuple(range(2, 18)),
        "folds of the eyes": tuple(range(34, 50)),
        "cheeks": tuple(range(158, 170)),
        "sides of the face": (*range(109, 115), *range(185, 189)),
    }
)
"""Further points of the face, most of them without an edge to lie on. The mesh has no hair, ears and neck."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where hand-placed points lie on the mesh."""

    vertices: IntArray
    """(K,) mesh indices."""
    offsets: FloatArray
    """(K, 2) from the vertex, along and across the line of the outer eye corners, over the distance of these."""

    def __call__(self, meshes: FloatArray) -> FloatArray:
        """(N, K, 2) pixels on (N, 478, 2+) meshes."""
        return np.asarray(meshes[:, self.vertices, :2] + np.einsum("nij,kj->nki", axes(meshes), self.offsets))


def axes(meshes: FloatArray) -> FloatArray:
    """(N, 2, 2): the columns lead along the eye corners of each (478, 2+) mesh, and a quarter turn from there."""
    along = meshes[:, EYE_CORNERS[1], :2] - meshes[:, EYE_CORNERS[0], :2]
    return np.stack([along, np.stack([-along[:, 1], along[:, 0]], 1)], 2)


def fit(meshes: FloatArray, truth: FloatArray, *, offsets: bool = True) -> Places:
    """The nearest vertex of each point over all people, and the mean way from it to the point; see `Places`.

    Args:
        meshes: (N, 478, 2+) pixels.
        truth: (N, K, 2) hand-placed points.
        offsets: false leaves the points on their vertices.
    """
    inverse = np.linalg.inv(axes(meshes))
    away = np.stack([
        np.einsum("nij,nkj->nki", inverse, truth[:, point, None] - meshes[:, :, :2]).mean(0)
        for point in range(truth.shape[1])
    ])  # fmt: skip
    vertices = np.linalg.norm(away, axis=2).argmin(1)
    chosen = away[np.arange(len(vertices)), vertices] * offsets
    return Places(vertices, np.asarray(chosen, np.float32))


def errors(predicted: FloatArray, truth: FloatArray, apart: FloatArray) -> FloatArray:
    """(N, K) distances of (N, K, 2) points over the (N,) inter-ocular distances."""
    return np.asarray(np.linalg.norm(predicted - truth, axis=2) / apart[:, None], np.float32)


def off_outline(meshes: FloatArray, truth: FloatArray, apart: FloatArray) -> FloatArray:
    """(N, K) distances of points to the outline of the mesh, wherever they lie along it, over the inter-ocular ones."""
    start, end = meshes[:, OVAL, :2], meshes[:, np.roll(OVAL, -1), :2]
    way = (end - start)[:, None]
    from_start = truth[:, :, None] - start[:, None]
    share = np.clip((from_start * way).sum(3) / np.maximum((way * way).sum(3), 1e-9), 0, 1)
    distance = np.linalg.norm(from_start - share[..., None] * way, axis=3).min(2)
    return np.asarray(distance / apart[:, None], np.float32)


def inter_ocular(truth: FloatArray) -> FloatArray:
    """(N,) distances of the hand-placed outer eye corners of (N, 189, 2) points, pixels."""
    return np.asarray(np.linalg.norm(truth[:, CORNERS[0]] - truth[:, CORNERS[1]], axis=1), np.float32)


def scored(meshes: FloatArray, truth: FloatArray, fitted: npt.NDArray[np.bool_], *, offsets: bool = True) -> FloatArray:
    """(people not fitted, 189) errors of all points, placed on the people that `fitted` (N,) tells."""
    places = fit(meshes[fitted], truth[fitted], offsets=offsets)
    rest = ~fitted
    return errors(places(meshes[rest]), truth[rest], inter_ocular(truth[rest]))


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
