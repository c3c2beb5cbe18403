"""Landmarks against points that were placed by hand.

Layouts: the 189 points of the Face Research Lab London Set (DeBruine & Jones, CC BY 4.0), iBUG's 68 and WFLW's 98. Each
hand-placed point is given a place on the mesh: a vertex, or a point of the layout's view of the mesh, and an offset
that is fixed in the frame of the mesh's outer eye corners, since every set marks by rules of its own. Offsets are
fitted on some people and scored on others. Errors are divided by the distance of the hand-placed outer eye corners, as
WFLW does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mien.evaluate.statistics import BoolArray
from mien.mesh import EYE_CORNERS, OVAL, view68, view98
from mien.types import FloatArray

IntArray = npt.NDArray[np.intp]
View = Callable[[FloatArray], FloatArray]
"""(478, D) mesh → (K, D) points of a layout."""

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
"""What the landmarks of faces usually are: 99 points of the 189."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What hand-placed points mean."""

    corners: tuple[int, int]
    """Outer corners of the eyes: image left, image right."""
    scored: tuple[int, ...]
    """Points that the error is the mean of."""
    jaw: tuple[int, ...]
    view: View | None = None
    """The layout's points of a mesh; None: each point belongs to the vertex that it is nearest to over all people."""


LAYOUTS: Mapping[int, Layout] = MappingProxyType(
    {
        68: Layout((36, 45), tuple(range(68)), tuple(range(17)), view68),
        98: Layout((60, 72), tuple(range(98)), tuple(range(33)), view98),
        189: Layout((18, 27), tuple(point for points in REGIONS.values() for point in points), REGIONS["jaw"]),
    }
)
"""By number of points. The other 90 of the 189 have no edge to lie on, or lie on hair, ears and neck."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where hand-placed points lie on the mesh."""

    vertices: IntArray
    """(K,) indices into the mesh, or into the view of it."""
    offsets: FloatArray
    """(K, 2) from there, along and across the line of the outer eye corners, over the distance of these."""
    view: View | None = None

    def __call__(self, meshes: FloatArray) -> FloatArray:
        """(N, K, 2) pixels on (N, 478, 2+) meshes."""
        points = _seen(meshes, self.view)[:, self.vertices]
        return np.asarray(points + np.einsum("nij,kj->nki", axes(meshes), self.offsets))


def axes(meshes: FloatArray) -> FloatArray:
    """(N, 2, 2): the columns lead along the eye corners of each (478, 2+) mesh, and a quarter turn from there."""
    along = meshes[:, EYE_CORNERS[1], :2] - meshes[:, EYE_CORNERS[0], :2]
    return np.stack([along, np.stack([-along[:, 1], along[:, 0]], 1)], 2)


def fit(meshes: FloatArray, truth: FloatArray, *, offsets: bool = True) -> Places:
    """The place of each point over all people, and the mean way from it to the point; see `Places`.

    Args:
        meshes: (N, 478, 2+) pixels.
        truth: (N, K, 2) hand-placed points of one of `LAYOUTS`.
        offsets: false leaves the points on their places.
    """
    view = LAYOUTS[truth.shape[1]].view
    points, inverse = _seen(meshes, view), np.linalg.inv(axes(meshes))
    away = np.stack([
        np.einsum("nij,nkj->nki", inverse, truth[:, point, None] - points).mean(0) for point in range(truth.shape[1])
    ])  # fmt: skip
    own = np.arange(len(away))
    vertices = np.linalg.norm(away, axis=2).argmin(1) if view is None else own
    return Places(vertices, np.asarray(away[own, vertices] * offsets, np.float32), view)


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
    """(N,) distances of the hand-placed outer eye corners of (N, K, 2) points of one of `LAYOUTS`, pixels."""
    left, right = LAYOUTS[truth.shape[1]].corners
    return np.asarray(np.maximum(np.linalg.norm(truth[:, left] - truth[:, right], axis=1), 1e-9), np.float32)


def scored(meshes: FloatArray, truth: FloatArray, fitted: BoolArray, *, offsets: bool = True) -> FloatArray:
    """(people not fitted, K) errors of all points, placed on the people that `fitted` (N,) tells."""
    places = fit(meshes[fitted], truth[fitted], offsets=offsets)
    rest = ~fitted
    return errors(places(meshes[rest]), truth[rest], inter_ocular(truth[rest]))


def _seen(meshes: FloatArray, view: View | None) -> FloatArray:
    """(N, V, 2) vertices of (N, 478, 2+) meshes, or their points in a layout."""
    return meshes[:, :, :2] if view is None else np.stack([view(mesh[:, :2]) for mesh in meshes])
