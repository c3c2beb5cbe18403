"""Groups of pairs that are told apart: who they are of, and how the target's face is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mien.evaluate.people import Person
from mien.facemask import face_masks
from mien.geometry import transform, warp
from mien.mesh import OVAL, SURFACE, polygon_mask, upright_matrix
from mien.shape import pose
from mien.types import ByteArray, Face, FloatArray
from mien.zoo.contracts import Masker

AGES = ((35, "under 35"), (55, "35–54"), (1000, "55+"))
"""Ages below which a person belongs to a band."""
TURNED = 15.0
"""Degrees of yaw from which a face counts as turned."""
COVERED = 0.03
"""Share of a face that is covered from which something counts as in front of it."""
SIZES = ((200, "under 200 px"), (400, "200–399 px"), (100_000, "400+ px"))
"""Extents of the mesh below which a face belongs to a band."""
TRAITS = ("skin_tone", "sex", "age")
"""What is told of people; the others are told of a photo."""
GRID = 256


def traits_of(person: Person) -> dict[str, str]:
    """`skin_tone`, `sex` and `age` (as a band) as far as they are known."""
    found = {name: person.traits[name] for name in ("skin_tone", "sex") if name in person.traits}
    if age := person.traits.get("age"):
        found["age"] = next(name for least, name in AGES if int(age) < least)
    return found


def slices_of(source: Person, target: Person, face: Face, covered: float) -> dict[str, str]:
    """Slice → value of one pair, such as `target skin_tone` → `dark`.

    Args:
        face: the target's.
        covered: share of it that something covers, 0–1.
    """
    sides = (("source", traits_of(source)), ("target", traits_of(target)))
    found = {f"{side} {name}": value for side, traits in sides for name, value in traits.items()}
    extent = float(np.ptp(face.mesh[:SURFACE, :2], axis=0).max())
    return {
        **found,
        "target pose": "frontal" if abs(yaw(face.mesh)) < TURNED else "turned",
        "target occlusion": "none" if covered < COVERED else "some",
        "target size": next(name for least, name in SIZES if extent < least),
    }


def yaw(mesh: FloatArray) -> float:
    """Degrees by which a (478, 3) mesh is turned to a side; positive where the nose points right in the image."""
    rotation = pose(mesh).rotation
    return float(np.degrees(np.arctan2(-rotation[0, 2], rotation[2, 2])))


def covered_share(image: ByteArray, mesh: FloatArray, maskers: Sequence[Masker]) -> float:
    """Share of the mesh's outline, 0–1, that a masker's class `occluder` covers."""
    matrix = upright_matrix(mesh, 1.2, GRID)
    moved = np.c_[transform(mesh[:, :2], matrix), mesh[:, 2]].astype(np.float32)
    (masks,) = face_masks([np.asarray(warp(image, matrix, GRID, GRID), np.uint8)], [moved], maskers)
    inside = polygon_mask(moved[list(OVAL), :2], GRID, GRID)
    return _share(masks, inside)


def _share(masks: Mapping[str, FloatArray], inside: FloatArray) -> float:
    return float((masks["occluder"] * inside).sum() / max(float(inside.sum()), 1.0))
