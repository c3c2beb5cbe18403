"""The equations of a morphable fit: the model's constants, their normal matrices and Gauss–Newton steps.

Part of `mien.morphable`, which says what the unknowns mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mien.mesh import SURFACE, constants
from mien.types import FloatArray

DoubleArray: TypeAlias = npt.NDArray[np.float64]

NEARNESS, NEARNESS_SPREAD = 1 / 100, 0.004
"""Expected 1 / distance of camera and head, per cm, and its standard deviation."""
EXPRESSION_SPREAD = 0.3
"""Standard deviation of an expression's strength; identity's is 1."""
CORRELATED = 10.0
"""How many points of the mesh err together; their joint weight is divided by it."""
MOST = 1e4
"""Precision that holds an expression at the end of its range, 0–1."""
POSE = 8
"""Unknowns of pose and camera: turn (3), log scale, shift (3), nearness."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Constants of the fit."""

    mean: DoubleArray
    """(468, 3)."""
    modes: DoubleArray
    """(K + E + J, 468 · 3): identity, expression, errors of the landmarker."""
    people: int
    faces: int
    names: tuple[str, ...]
    bias: DoubleArray
    """(6, 468 · 3) mean error of the landmarker by pose; see `turn_terms`."""
    weight: DoubleArray
    """(468,) per cm²."""
    depth: float
    """Weight of z over that of x and y."""
    normal: DoubleArray
    """(7, M, M): weighted products of the modes, all axes together, then xx, yy, zz, 2xy, 2xz, 2yz."""
    precision: DoubleArray
    """(M,) of the coefficients."""

    def shape(self, identity: FloatArray, expression: FloatArray) -> DoubleArray:
        """(468, 3) head axes."""
        weights = np.concatenate([identity, expression])
        return self.mean + (weights @ self.modes[: len(weights)]).reshape(SURFACE, 3)


@cache
def loaded() -> Model:
    """The model that ships, read once."""
    mean, identity, expression, error, bias, noise, depth, names = constants(
        "morphable.npz", "mean", "identity", "expression", "error", "bias", "noise", "depth", "expression_names"
    )
    modes = np.concatenate([identity, expression, error]).astype(np.float64)
    weight = 1 / (CORRELATED * noise.astype(np.float64) ** 2)
    axes = [modes[:, :, i] for i in range(3)]
    products = [(axes[i] * weight) @ axes[j].T for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    products[3:] = [product + product.T for product in products[3:]]
    spread = np.r_[np.ones(len(identity)), np.full(len(expression), EXPRESSION_SPREAD), np.ones(len(error))]
    return Model(
        mean.astype(np.float64), modes.reshape(len(modes), -1), len(identity), len(expression),
        tuple(str(name) for name in names), bias.reshape(len(bias), -1).astype(np.float64), weight, float(depth),
        np.stack([products[0] + products[1] + products[2], *products]), 1 / spread**2,
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class State:
    """Where a fit is; see `morphable.Fit`."""

    rotation: DoubleArray
    scale: float
    shift: DoubleArray
    nearness: float
    coefficients: DoubleArray


def start(model: Model, seen: DoubleArray) -> State:
    """Similarity of the mean head (Umeyama, "Least-squares estimation of transformation parameters", 1991)."""
    rotation, scale, shift = similarity(model.mean, seen, model.weight)
    return State(rotation, max(scale, 1e-6), shift, NEARNESS, np.zeros(len(model.modes)))


def equations(
    model: Model, seen: DoubleArray, state: State, known: int, *, pose_only: bool
) -> tuple[DoubleArray, DoubleArray]:
    """Normal matrix and gradient at a state; the first `known` coefficients are fixed."""
    r, coefficients = state.rotation, state.coefficients
    flat = coefficients @ model.modes + turn_terms(r) @ model.bias
    shape = model.mean + flat.reshape(SURFACE, 3)
    away = seen - state.shift
    depth = shape @ r[2]
    flat_xy = away[:, :2] * (1 + state.nearness * depth)[:, None]
    place = np.c_[flat_xy, away[:, 2]] @ r / state.scale  # the mesh in head axes
    error = place - shape
    axis = r[2]
    metric = np.eye(3) - (1 - model.depth) * np.outer(axis, axis)
    jacobian = np.zeros((SURFACE, 3, POSE))
    x, y, z = place.T
    jacobian[:, 0, 1], jacobian[:, 0, 2] = -z, y
    jacobian[:, 1, 0], jacobian[:, 1, 2] = z, -x
    jacobian[:, 2, 0], jacobian[:, 2, 1] = -y, x
    jacobian[:, :, 3] = -place
    jacobian[:, :, 4:7] = -r.T / state.scale
    jacobian[:, :, 7] = (away[:, :2] * depth[:, None]) @ r[:2] / state.scale
    along = np.tensordot(jacobian, axis, (1, 0))
    weighted = jacobian - (1 - model.depth) * axis[None, :, None] * along[:, None]
    weighted = (weighted * model.weight[:, None, None]).reshape(-1, POSE)
    matrix = weighted.T @ jacobian.reshape(-1, POSE)
    vector = weighted.T @ error.ravel()
    matrix[7, 7] += 1 / NEARNESS_SPREAD**2
    vector[7] += (state.nearness - NEARNESS) / NEARNESS_SPREAD**2
    if pose_only:
        return matrix, vector
    modes, precision = model.modes[known:], model.precision[known:].copy()
    pull = precision * coefficients[known:]
    inner = -modes @ ((error @ metric) * model.weight[:, None]).ravel() + pull
    faces = slice(model.people - known, model.people - known + model.faces)
    strength = coefficients[known:][faces]
    low = (strength < 0) | ((strength <= 0) & (inner[faces] > 0))
    high = strength > 1
    held = np.where(low | high, MOST, 0.0)
    precision[faces] += held
    inner[faces] += held * (strength - high)
    a, b, c = axis
    products = np.array([1.0, *(-(1 - model.depth) * np.array([a * a, b * b, c * c, a * b, a * c, b * c]))])
    among = np.tensordot(products, model.normal[:, known:, known:], 1)
    among[np.diag_indices(len(among))] += precision
    across = -weighted.T @ modes.T
    return np.block([[matrix, across], [across.T, among]]), np.r_[vector, inner]


def move(state: State, step: DoubleArray, known: int) -> None:
    """Take a step: pose and camera, and if it goes on, the coefficients from `known` on."""
    state.rotation = state.rotation @ _turned(step[:3])
    state.scale *= float(np.exp(np.clip(step[3], -1, 1)))
    state.shift = state.shift + step[4:7]
    state.nearness = float(np.clip(state.nearness + step[7], 0, 1 / 30))
    if len(step) > POSE:
        state.coefficients[known:] += step[POSE:]


def turn_terms(rotation: DoubleArray) -> DoubleArray:
    """(6,) 1, sines of yaw and pitch, their squares and their product: what the landmarker's mean error depends on."""
    across, up = -rotation[2, 0] / max(float(np.hypot(rotation[2, 0], rotation[2, 2])), 1e-9), rotation[2, 1]
    return np.array([1.0, across, up, across * across, up * up, across * up])


def _turned(vector: DoubleArray) -> DoubleArray:
    """(3, 3) rotation about a vector by its length in radians (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross, np.float64)


def similarity(a: DoubleArray, b: DoubleArray, weight: DoubleArray) -> tuple[DoubleArray, float, DoubleArray]:
    """Rotation, scale and shift that take points `a` to `b`."""
    weight = weight / weight.sum()
    mean_a, mean_b = weight @ a, weight @ b
    left, right = a - mean_a, b - mean_b
    u, s, vt = np.linalg.svd((left * weight[:, None]).T @ right)
    sign = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = np.asarray((u @ np.diag(sign) @ vt).T, np.float64)
    scale = float((s * sign).sum() / (weight @ (left * left).sum(1)))
    return rotation, scale, mean_b - scale * rotation @ mean_a


def aligned(points: DoubleArray, onto: DoubleArray, weight: DoubleArray) -> DoubleArray:
    """`points` under the similarity that takes them nearest to `onto`."""
    rotation, scale, shift = similarity(points, onto, weight)
    return np.asarray(scale * points @ rotation.T + shift, np.float64)
