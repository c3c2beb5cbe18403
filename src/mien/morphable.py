"""The morphable head: identity, expression, pose and camera of a face from its 478-point mesh.

ICT-FaceKit (Li et al., "Learning formation of physically-based face attributes", 2020; MIT), sampled at the places
that the points of the mesh have on it (`training/morphable.py` makes the binding and measures, on renders with known
truth, where the landmarker errs). A fit is a regularised least squares by Gauss–Newton over pose, camera and linear
shape together; the large normal matrix is made of seven that are computed once.

Head axes are those of an image when the head looks at the camera: x right, y down, z away; cm. The mesh gives shape
only up to size: a small head near the camera and a large one far away look the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mien.errors import GeometryError
from mien.mesh import SURFACE, topology
from mien.morphable_solver import POSE, State, aligned, equations, loaded, move, start, turn_terms
from mien.shape import pose, reshape
from mien.types import FloatArray

DoubleArray: TypeAlias = npt.NDArray[np.float64]

ROUNDS = (2, 3)
"""Gauss–Newton steps of the pose alone, then of everything."""
REPEATED = 0.2
"""Share of the landmarker's error that is the same in all frames of a track."""
FACING = 0.15
"""Cosine to the camera above which a piece of the face counts as seen."""
HIDDEN = 0.6
"""A side of which less than this share is seen is hidden."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A face explained: pixel = shift + scale · camera / (1 + nearness · z), where camera = rotation · head."""

    identity: FloatArray
    """(K,) in standard deviations."""
    expression: FloatArray
    """(E,) 0–1; names in `expression_names()`."""
    rotation: DoubleArray
    """(3, 3) head axes → camera axes."""
    scale: float
    """Pixels per cm at the depth of the head's origin."""
    shift: DoubleArray
    """(3,) pixels: the origin of the head, between the ears; z as the landmarker counts it."""
    nearness: float
    """1 / distance of the camera, per cm."""
    residual: float
    """Root mean square distance in the picture between the mesh and `landmarks`, cm: how far to trust the fit."""

    @property
    def yaw(self) -> float:
        """Degrees; positive: turned to the right of the picture."""
        return float(np.degrees(np.arctan2(self.rotation[2, 0], self.rotation[2, 2])))

    @property
    def pitch(self) -> float:
        """Degrees; positive: looking up."""
        return float(np.degrees(np.arcsin(np.clip(-self.rotation[2, 1], -1, 1))))

    @property
    def roll(self) -> float:
        """Degrees; positive: tilted clockwise in the picture."""
        return float(np.degrees(np.arctan2(-self.rotation[0, 1], self.rotation[1, 1])))

    def head(self) -> FloatArray:
        """(468, 3) the mesh's points on the model, head axes, cm."""
        return np.asarray(loaded().shape(self.identity, self.expression), np.float32)

    def vertices(self) -> FloatArray:
        """(468, 3) the mesh's points on the model as the camera sees them, pixels; z on the same scale."""
        return self._seen(self.head().astype(np.float64))

    def landmarks(self) -> FloatArray:
        """(468, 3) where the landmarker would put the points: the vertices and its usual error in this pose, pixels."""
        usual = (turn_terms(self.rotation) @ loaded().bias).reshape(SURFACE, 3)
        return self._seen(self.head() + usual)

    def _seen(self, points: DoubleArray) -> FloatArray:
        camera = points @ self.rotation.T
        scale = self.scale / (1 + self.nearness * camera[:, 2:])
        return np.asarray(self.shift + np.c_[camera[:, :2] * scale, camera[:, 2] * self.scale], np.float32)

    def normals(self) -> FloatArray:
        """(468, 3) outward unit normals in camera axes; z < 0 looks at the camera."""
        return np.asarray(_normals(self.head().astype(np.float64)) @ self.rotation.T, np.float32)


@dataclass(frozen=True, slots=True)
class Sides:
    """What is seen of either half of a face; left and right as in the picture of an upright face."""

    left: float
    """Share of the left half's skin that faces the camera, 0–1."""
    right: float

    @property
    def hidden(self) -> str | None:
        """`left`, `right`, or None where both are seen."""
        if min(self.left, self.right) >= HIDDEN:
            return None
        return "left" if self.left < self.right else "right"


def expression_names() -> tuple[str, ...]:
    """Names of the expressions, in ARKit's spelling with `_L` and `_R`: the sides of the person."""
    return loaded().names


def fit(mesh: FloatArray, identity: FloatArray | None = None) -> Fit:
    """Explain a (≥468, 3) mesh in pixels; with a known `identity` (K,) only the rest is sought.

    A few milliseconds on one core. The angles are those seen from the camera: to its line of sight to the head.

    Raises:
        GeometryError: points that coincide or are not finite.
    """
    return _solve(mesh, identity)[0]


class Person:
    """One person over many frames: `add` their meshes, ask for the `identity` of them all.

    The normal equations of the frames, pose, expression and the landmarker's error taken out of each, add up.
    The landmarker errs alike in all frames, so their weight grows slower than their number.
    """

    def __init__(self) -> None:
        self._matrix = np.zeros((loaded().people, loaded().people))
        self._vector = np.zeros(loaded().people)
        self._count = 0

    def add(self, mesh: FloatArray) -> Fit:
        """The fit of one frame by itself, which then counts.

        Raises:
            GeometryError: as for `fit`.
        """
        found, state = _solve(mesh, None)
        matrix, vector = _information(mesh, state)
        self._matrix += matrix
        self._vector += vector
        self._count += 1
        return found

    @property
    def identity(self) -> FloatArray:
        """(K,) the most likely identity; zeros, the mean face, before the first frame."""
        weight = 1 / (1 + REPEATED * max(self._count - 1, 0))
        return np.linalg.solve(weight * self._matrix + np.eye(len(self._vector)), weight * self._vector).astype(
            np.float32
        )


def transfer(mesh: FloatArray, own: Fit, identity: FloatArray, shape: float = 1.0) -> FloatArray:
    """The mesh (478, 3) with another person's identity, this frame's pose and expression; `shape` 0–1 is the strength.

    Only what differs beyond size and place is moved. The outline stays and changes of the size of the landmarker's
    noise are left alone, as in `shape.reshape`, which moves the points.
    """
    model = loaded()
    before = model.shape(own.identity, own.expression)
    after = model.shape(identity, own.expression)
    after = aligned(after, before, model.weight)
    placed = pose(mesh)
    change = own.scale * (after - before) @ own.rotation.T @ placed.rotation / placed.scale
    still = np.zeros((SURFACE, 3), np.float32)
    return reshape(mesh, still, change.astype(np.float32), float(np.clip(shape, 0, 1)))


def sides(found: Fit) -> Sides:
    """How much of each half of the face is seen; a half turned away stays hidden whatever a mesh says about it."""
    head = found.head().astype(np.float64)
    triangles = topology().triangles
    a, b, c = (head[triangles[:, i]] for i in range(3))
    normal = -np.cross(b - a, c - a)
    area = np.linalg.norm(normal, axis=1)
    towards = -(normal @ found.rotation.T)[:, 2] > FACING * area
    middle = ((a + b + c) / 3)[:, 0]
    shares = [float(area[half & towards].sum() / area[half].sum()) for half in (middle < 0, middle > 0)]
    return Sides(*shares)


def _solve(mesh: FloatArray, identity: FloatArray | None) -> tuple[Fit, State]:
    model = loaded()
    seen = np.asarray(mesh[:SURFACE], np.float64)
    if seen.shape != (SURFACE, 3) or not np.isfinite(seen).all() or np.ptp(seen[:, :2], axis=0).max() < 1e-3:
        raise GeometryError("the mesh is no face: its points coincide or are not numbers; find the face anew")
    state, known = start(model, seen), 0
    if identity is not None:
        known = model.people
        state.coefficients[:known] = identity
    for step in range(sum(ROUNDS)):
        matrix, vector = equations(model, seen, state, known, pose_only=step < ROUNDS[0])
        move(state, np.asarray(-np.linalg.solve(matrix, vector), np.float64), known)
    faces = slice(model.people, model.people + model.faces)
    state.coefficients[faces] = np.clip(state.coefficients[faces], 0, 1)
    found = Fit(
        state.coefficients[: model.people].astype(np.float32), state.coefficients[faces].astype(np.float32),
        state.rotation, state.scale, state.shift, state.nearness, 0.0,
    )  # fmt: skip
    away = (found.landmarks()[:, :2] - seen[:, :2]) / state.scale
    return replace(found, residual=float(np.sqrt((away**2).sum(1).mean()))), state


def _information(mesh: FloatArray, state: State) -> tuple[DoubleArray, DoubleArray]:
    """What a fitted frame says of the identity: (K, K) normal matrix and (K,) vector, the other unknowns taken out."""
    model = loaded()
    matrix, vector = equations(model, np.asarray(mesh[:SURFACE], np.float64), state, 0, pose_only=False)
    own = np.zeros(len(vector), bool)
    own[POSE : POSE + model.people] = True
    people = state.coefficients[: model.people]
    out = np.linalg.solve(matrix[np.ix_(~own, ~own)], np.c_[matrix[np.ix_(~own, own)], vector[~own]])
    information = matrix[np.ix_(own, own)] - matrix[np.ix_(own, ~own)] @ out[:, :-1] - np.eye(model.people)
    gradient = vector[own] - people - matrix[np.ix_(own, ~own)] @ out[:, -1]
    return information, information @ people - gradient


def _normals(points: DoubleArray) -> DoubleArray:
    """(468, 3) outward unit normals; as `mesh.vertex_normals`, without its slow scatter."""
    triangles = topology().triangles
    a, b, c = (points[triangles[:, i]] for i in range(3))
    normal = -np.cross(b - a, c - a)
    total = np.zeros_like(points)
    for axis in range(3):
        for corner in range(3):
            total[:, axis] += np.bincount(triangles[:, corner], normal[:, axis], len(points))
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12), np.float64)
