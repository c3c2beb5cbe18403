"""Microphones, cups, phones, sticks and shapes of anything."""

from __future__ import annotations

import numpy as np

from training.occluder.canvas import Layer, blur, capsule, filled, lit, noise, rounded, smooth, stroked, tile
from training.occluder.cloth import fabric
from training.occluder.crops import SIZE, Array
from training.occluder.textures import Textures

Rng = np.random.Generator


def _near_mouth(rng: Rng, mesh: Array) -> tuple[Array, float]:
    span = float(np.ptp(mesh[:468, 0]))
    return mesh[14, :2] + rng.normal(0, 0.12, 2) * span + np.array([0, 0.1 * span]), span


def microphone(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A round head with a grid or foam and a handle downwards."""
    at, span = _near_mouth(rng, mesh)
    radius, angle = span * rng.uniform(0.07, 0.2), rng.uniform(0.1, np.pi - 0.1)
    away = np.array([np.cos(angle), np.sin(angle)])
    head = filled(capsule(at, at + away * radius * rng.uniform(0.1, 1), radius, radius * 0.85))
    handle = filled(capsule(at + away * radius, at + away * span * 1.6, radius * 0.62, radius * 0.5))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    grid = 1 + rng.uniform(0, 0.4) * np.sin(columns * rng.uniform(1, 3)) * np.sin(rows * rng.uniform(1, 3))
    base = rng.uniform(0, 0.35) if rng.random() < 0.7 else rng.uniform(0.4, 0.8)
    ball = np.clip(base * grid * lit(rounded(head, radius), rng, 0.8), 0, 1)[..., None] * rng.uniform(0.85, 1.15, 3)
    stick = np.clip(rng.uniform(0, 0.3) * lit(rounded(handle, radius * 0.5), rng, 0.8), 0, 1)[..., None] * np.ones(3)
    rgb = np.where(head[..., None] > 0.5, ball, stick)
    return [
        Layer(
            np.clip(rgb, 0, 1).astype(np.float32),
            np.maximum(head, handle),
            None,
            rng.uniform(0, 0.5),
            rng.uniform(2, 8),
        )
    ]


def box(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A cup, phone, card, book or camera: four corners, softened."""
    at, span = _near_mouth(rng, mesh)
    if rng.random() < 0.5:
        at = mesh[rng.integers(468), :2] + rng.normal(0, 0.15, 2) * span
    angle = rng.normal(0, 0.4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    size = span * rng.uniform(0.12, 0.45, 2)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * (1 + rng.normal(0, 0.08, (4, 2)))
    alpha = filled(smooth((corners * size) @ turn.T + at, int(rng.integers(0, 4))))
    rgb = (
        fabric(rng, textures, 0.6)
        if rng.random() < 0.7
        else tile(textures.pick(rng, "scene"), rng, rng.uniform(0.6, 2))
    )
    rgb = np.clip(rgb * lit(rounded(alpha, span * 0.2), rng, rng.uniform(0, 0.8))[..., None], 0, 1).astype(np.float32)
    return [Layer(rgb, alpha, None, rng.uniform(0, 0.5), rng.uniform(2, 8))]


def stick(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A pen, cigarette, straw, spoon, cable, branch or headset microphone."""
    at, span = _near_mouth(rng, mesh)
    if rng.random() < 0.4:
        at = mesh[rng.integers(468), :2]
    angle = rng.uniform(0, 2 * np.pi)
    end = at + np.array([np.cos(angle), np.sin(angle)]) * span * rng.uniform(0.4, 1.5)
    radius = rng.uniform(0.6, 4)
    alpha = filled(capsule(at, end, radius, radius * rng.uniform(0.6, 1.2)))
    base = (
        rng.uniform(0, 1, 3) * lit(rounded(alpha, radius), rng, 0.6)[..., None] * (1 + 0.1 * noise(rng, 6))[..., None]
    )
    return [Layer(np.clip(base, 0, 1).astype(np.float32), alpha, None, rng.uniform(0, 0.4), rng.uniform(1, 5), 2.0)]


def blob(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A shape of nothing in particular, of any material."""
    span = float(np.ptp(mesh[:468, 0]))
    at = mesh[rng.integers(468), :2]
    turn = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(5, 12))))
    radius = span * rng.uniform(0.06, 0.35) * rng.uniform(0.5, 1.3, len(turn))
    alpha = filled(smooth(at + np.c_[np.cos(turn), np.sin(turn) * rng.uniform(0.4, 1.4)] * radius[:, None]))
    material = rng.choice(["cloth", "scene", "hair", "skin"], p=[0.4, 0.35, 0.15, 0.1])
    rgb = tile(textures.pick(rng, material), rng, rng.uniform(0.6, 2.5))
    rgb = np.clip(rgb * lit(rounded(alpha, span * 0.1), rng, rng.uniform(0, 0.8))[..., None], 0, 1).astype(np.float32)
    if rng.random() < 0.2:
        alpha = blur(alpha, rng.uniform(0.5, 3))
    return [Layer(rgb, alpha, None, rng.uniform(0, 0.5), rng.uniform(1, 8))]


def jewellery(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A chain, ribbon or cord across the face."""
    points = mesh[rng.choice(468, 2, replace=False), :2]
    away = (points[1] - points[0]) * rng.uniform(0.2, 1.0)
    line = np.stack([points[0] - away, points.mean(0) + rng.normal(0, 6, 2), points[1] + away])
    alpha = stroked([smooth_line(line)], [rng.uniform(0.6, 4)])
    rgb = np.clip(rng.uniform(0, 1, 3) * (1 + 0.3 * noise(rng, 3))[..., None], 0, 1).astype(np.float32)
    return [Layer(rgb, alpha, None, rng.uniform(0, 0.4), rng.uniform(1, 4), 2.0)]


def smooth_line(line: Array) -> Array:
    """An open three-point line as a curve."""
    t = np.linspace(0, 1, 14)[:, None]
    return np.asarray((1 - t) ** 2 * line[0] + 2 * t * (1 - t) * line[1] + t * t * line[2], np.float32)
