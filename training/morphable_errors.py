"""How the landmarker errs on heads of known truth: part of `python -m training.morphable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mien.mesh import SURFACE, topology
from mien.types import FloatArray
from tests.rendered_heads import Rendered

DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

MODES = 16
"""Ways to err that are kept; 80 % of what the pose does not explain."""
RIDGE = 4.0
"""Renders' worth of doubt that errors depend on the pose at all."""
LARGEST = 1.2
"""cm; larger errors are mistakes, not the landmarker's habit."""
LEAST = 0.05
"""cm; no point is trusted more."""
FLIP = np.array([-1.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Points on the model's surface."""

    corners: IntArray
    """(468, 3) vertices of the triangle that each lies on."""
    weights: DoubleArray
    """(468, 3) barycentric."""

    def on(self, values: npt.NDArray[np.floating]) -> DoubleArray:
        """(..., 468, C) of (..., V, C) values at the vertices."""
        taken = values[..., self.corners, :].astype(np.float64)
        return np.asarray(np.einsum("...nkc,nk->...nc", taken, self.weights), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the landmarker saw of a render."""

    seed: int
    mesh: FloatArray
    """(478, 3)."""
    truth: Rendered


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Head axes, cm."""

    bias: DoubleArray
    """(6, 468, 3) by 1, the sines of yaw and pitch, their squares and their product."""
    modes: DoubleArray
    """(J, 468, 3) at one standard deviation."""
    noise: DoubleArray
    """(468,) what is left in the picture, per axis."""


def measure(places: Places, seen: Sequence[Look]) -> Errors:
    """Mean error by pose, its principal ways to vary, and the rest; every look counts mirrored too."""
    mirror = topology().mirror
    errors = np.array([error(places, look) for look in seen])
    turns = np.array([look.truth.rotation for look in seen])
    errors = np.concatenate([errors, errors[:, mirror] * FLIP])
    turns = np.concatenate([turns, turns * FLIP[:, None] * FLIP])
    terms = np.array([turn_terms(turn) for turn in turns])
    flat, weight = errors.reshape(len(errors), -1), np.ones(len(errors))
    doubt = RIDGE * np.diag([0.0, *[1.0] * 5])
    for _ in range(4):  # looks that went astray count little
        bias = np.linalg.solve((terms * weight[:, None]).T @ terms + doubt, (terms * weight[:, None]).T @ flat)
        left = flat - terms @ bias
        size = np.sqrt((left**2).mean(1))
        weight = 1 / (1 + (size / np.median(size)) ** 2)
    left = np.clip(left, -LARGEST, LARGEST)
    _, lengths, axes = np.linalg.svd(left * np.sqrt(weight / weight.mean())[:, None], full_matrices=False)
    modes = axes[:MODES] * (lengths[:MODES] / np.sqrt(len(left)))[:, None]
    rest = (left - (left @ axes[:MODES].T) @ axes[:MODES]).reshape(-1, SURFACE, 3)
    picture = np.einsum("nvc,ndc->nvd", rest, turns)[..., :2]
    noise = np.sqrt((np.minimum(np.abs(picture), LARGEST / 2) ** 2).mean((0, 2)))
    return Errors(bias.reshape(-1, SURFACE, 3), modes.reshape(-1, SURFACE, 3), np.maximum(noise, LEAST))


def error(places: Places, look: Look) -> DoubleArray:
    """(468, 3) cm in head axes from where the points are to where the landmarker says that they are."""
    truth = look.truth
    camera = places.on(truth.vertices) @ truth.rotation.T
    away = (look.mesh[:SURFACE, :2] - places.on(truth.points)) / truth.scale
    away = away * (1 + camera[:, 2:] / truth.distance)
    depth = look.mesh[:SURFACE, 2] / truth.scale - camera[:, 2]
    return np.asarray(np.c_[away, depth - np.median(depth)] @ truth.rotation, np.float64)


def turn_terms(rotation: DoubleArray) -> DoubleArray:
    """(6,) as `mien.morphable` has them."""
    across = -rotation[2, 0] / max(float(np.hypot(rotation[2, 0], rotation[2, 2])), 1e-9)
    up = rotation[2, 1]
    return np.array([1.0, across, up, across * across, up * up, across * up])
