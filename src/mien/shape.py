"""Identity shape: how a face differs from others when pose and expression are taken away.

A mesh is brought into the canonical frame by Procrustes, and the expected effect of its expression
(blendshape scores × a linear basis, fitted by `training/shape_basis.py`) is subtracted. The difference
between two people's neutral shapes is what a swap moves; differences as small as the landmarker's own
noise are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from mien.mesh import EYES, IRISES, OVAL, SURFACE, constants, topology
from mien.types import FloatArray

DoubleArray = npt.NDArray[np.float64]

NOISE = 0.08
"""cm; canonical-frame differences of this size are the landmarker's, not the person's."""
BORDER = 1.5
"""cm from the face outline over which the change of shape fades in."""
LIMIT = 1.0
"""cm; no point moves further."""
SAME, OTHER = 0.68, 0.45
"""Cosines (MobileFaceNet) above which two faces are one person, and below which they are two."""


@dataclass(frozen=True, slots=True, eq=False)
class Pose:
    """mesh ≈ scale · canonical · rotationᵀ + shift."""

    scale: float
    """Pixels per cm."""
    rotation: DoubleArray
    """(3, 3)."""
    shift: DoubleArray
    """(3,) pixels."""


def pose(mesh: FloatArray) -> Pose:
    """Similarity from the canonical mesh to `mesh`, by the points that expressions move least.

    Umeyama, "Least-squares estimation of transformation parameters", 1991; weights from MediaPipe.
    """
    basis = _basis()
    seen, canonical, weight = mesh[basis.rigid].astype(np.float64), _canonical()[basis.rigid], basis.rigid_weight
    mean_a, mean_b = weight @ canonical, weight @ seen
    a, b = canonical - mean_a, seen - mean_b
    u, s, vt = np.linalg.svd((a * weight[:, None]).T @ b)
    sign = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = (u @ np.diag(sign) @ vt).T
    scale = float((s * sign).sum() / (weight @ (a * a).sum(1)))
    return Pose(scale, rotation, mean_b - scale * rotation @ mean_a)


def pose_difference(a: FloatArray, b: FloatArray) -> float:
    """Degrees between the head poses of two meshes."""
    turn = pose(a).rotation.T @ pose(b).rotation
    return float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))


def neutral(mesh: FloatArray, blendshapes: FloatArray) -> FloatArray:
    """(468, 3) shape in the canonical frame, cm, without pose and expression."""
    placed = pose(mesh)
    flat = (mesh[:SURFACE].astype(np.float64) - placed.shift) @ placed.rotation / placed.scale
    return np.asarray(flat - np.tensordot(blendshapes, _basis().expression, 1), np.float32)


def reshape(mesh: FloatArray, own: FloatArray, wanted: FloatArray, strength: float) -> FloatArray:
    """The mesh (478, 3) with the neutral shape `wanted` in place of its `own`, pose and expression kept.

    The outline stays where it is, so nothing around the face has to move.
    """
    basis = _basis()
    change = (wanted - own).astype(np.float64)
    size = np.linalg.norm(change[:, :2], axis=1)
    sure = np.clip(1 - (NOISE / np.maximum(size, 1e-6)) ** 2, 0, 1)
    for _ in range(4):
        sure = (sure + basis.neighbours @ sure) / 2
    length = np.linalg.norm(change, axis=1)
    change *= (strength * sure * basis.fade * np.minimum(1, LIMIT / np.maximum(length, 1e-6)))[:, None]
    placed = pose(mesh)
    moved = placed.scale * change @ placed.rotation.T
    out = mesh.astype(np.float64)
    out[:SURFACE] += moved
    for lids, iris in zip(EYES, IRISES, strict=True):
        out[list(iris)] += moved[list(lids)].mean(0)
    return out.astype(np.float32)


def transfer_strength(source: FloatArray, target: FloatArray | None) -> float:
    """1 for two people, 0 where source and target are the same person, from their embeddings."""
    if target is None or target.shape != source.shape:
        return 1.0
    share = np.clip((float(source @ target) - OTHER) / (SAME - OTHER), 0, 1)
    return float(1 - share * share * (3 - 2 * share))


@dataclass(frozen=True, slots=True, eq=False)
class _Basis:
    expression: FloatArray
    """(52, 468, 3) cm per unit of blendshape score."""
    rigid: npt.NDArray[np.int32]
    rigid_weight: DoubleArray
    neighbours: DoubleArray
    """(468, 468) mean over each vertex's neighbours."""
    fade: DoubleArray
    """(468,) 0 on the outline, 1 inside."""


def _canonical() -> DoubleArray:
    """The canonical mesh with y down and z away, as in images."""
    return topology().vertices.astype(np.float64) * [1, -1, -1]


@cache
def _basis() -> _Basis:
    rigid, rigid_weight = constants("face_mesh_478.npz", "procrustes_index", "procrustes_weight")
    rigid_weight = rigid_weight.astype(np.float64)
    (expression,) = constants("expression_basis.npz", "expression")
    neighbours = np.zeros((SURFACE, SURFACE))
    for corner in range(3):
        a, b = topology().triangles[:, corner], topology().triangles[:, (corner + 1) % 3]
        neighbours[a, b] = neighbours[b, a] = 1
    canonical = _canonical()
    away = np.linalg.norm(canonical[:, None] - canonical[list(OVAL)][None], axis=2).min(1)
    fade = np.clip(away / BORDER, 0, 1)
    return _Basis(
        expression.astype(np.float32),
        rigid,
        rigid_weight / rigid_weight.sum(),
        neighbours / neighbours.sum(1, keepdims=True),
        fade * fade * (3 - 2 * fade),
    )
