"""Fringes, locks, strands and stray hairs over the face."""

from __future__ import annotations

import numpy as np

from training.occluder.canvas import Layer, curve, filled, noise, strands, tile
from training.occluder.crops import SIZE, Array
from training.occluder.textures import Textures

Rng = np.random.Generator


def _lock(rng: Rng, root: Array, end: Array, width: float, count: int, wave: float) -> list[Array]:
    """Lines that run together from root to end and narrow towards it."""
    along = end - root
    across = np.array([-along[1], along[0]]) / max(np.linalg.norm(along), 1)
    bulge = across * np.linalg.norm(along) * rng.normal(0, 0.15)
    first, second = root + along * 0.35 + bulge, root + along * 0.7 + bulge * rng.uniform(-0.5, 1.5)
    t = np.linspace(0, 1, 16)
    swing = wave * np.sin(t * rng.uniform(4, 12) + rng.uniform(0, 6))[:, None] * across
    lines = []
    for _ in range(count):
        place = rng.uniform(-0.5, 0.5) * width
        own = rng.normal(0, 0.05 * width + 0.3, (4, 2))
        length = rng.uniform(0.8, 1.03)
        ends = [
            root + across * place,
            first + across * place,
            second + across * place * 0.8,
            root + along * length + across * place * rng.uniform(0.1, 0.7),
        ]
        lines.append(curve([p + o for p, o in zip(ends, own, strict=True)], 16) + swing)
    return lines


def _colour(rng: Rng, textures: Textures, shade: Array) -> Array:
    field = tile(textures.pick(rng, "hair"), rng, rng.uniform(0.7, 1.6))
    if rng.random() < 0.15:
        field = field.mean((0, 1)) * np.ones_like(field) * rng.uniform(0.8, 1.6, 3)
    light = 0.55 + 0.9 * shade + 0.12 * noise(rng, 18)
    return np.clip(field * light[..., None], 0, 1).astype(np.float32)


def _layer(rng: Rng, textures: Textures, lines: list[Array], thick: tuple[float, float], weight: float) -> Layer:
    widths = rng.uniform(*thick, len(lines)).tolist()
    alpha, shade = strands(lines, widths, rng.uniform(0, 1, len(lines)).tolist())
    alpha = alpha * rng.uniform(0.8, 1.0)
    return Layer(_colour(rng, textures, shade), alpha, None, rng.uniform(0, 0.35), rng.uniform(1, 4), weight)


def fringe(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Hair that falls from above over the forehead, sometimes over an eye or cheek."""
    points = mesh[:, :2]
    span, high = np.ptp(points[:, 0]), np.ptp(points[:, 1])
    part = rng.uniform(-0.6, 0.6)
    full, long = rng.random() < 0.45, rng.uniform(0.05, 0.4) if rng.random() < 0.75 else rng.uniform(0.4, 0.9)
    lines: list[Array] = []
    for x in np.linspace(-0.52, 0.52, 14) if full else rng.uniform(-0.55, 0.55, int(rng.integers(1, 8))):
        root = points[10] + np.array([(x * 0.7 + part * 0.3) * span, -rng.uniform(0.05, 0.35) * high])
        end = points[10] + np.array([(x + 0.15 * np.sign(x - part)) * span, long * high * rng.uniform(0.75, 1.1)])
        width = span * (rng.uniform(0.08, 0.16) if full else rng.uniform(0.02, 0.14))
        lines += _lock(
            rng, root, end, width, int(rng.integers(18, 40) if full else rng.integers(6, 36)), rng.exponential(0.8)
        )
    return [_layer(rng, textures, lines, (0.4, 1.3), 1.6)]


def sides(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Long hair that hangs over one or both sides of the face."""
    points = mesh[:, :2]
    span, high = np.ptp(points[:, 0]), np.ptp(points[:, 1])
    lines: list[Array] = []
    for edge, inward in ((points[234], 1), (points[454], -1)):
        if rng.random() < 0.35:
            continue
        reach = rng.uniform(-0.1, 0.25) if rng.random() < 0.8 else rng.uniform(0.25, 0.5)
        for _ in range(int(rng.integers(4, 10))):
            x = inward * span * rng.uniform(-0.2, max(reach, 0.0))
            root = np.array(
                [edge[0] + x * 0.8 + inward * span * rng.uniform(0, 0.2), points[10, 1] - high * rng.uniform(0.05, 0.3)]
            )
            end = np.array([edge[0] + x + rng.normal(0, 4), points[152, 1] + high * rng.uniform(-0.4, 0.5)])
            lines += _lock(
                rng, root, end, span * rng.uniform(0.04, 0.14), int(rng.integers(12, 30)), rng.exponential(1.5)
            )
    return [_layer(rng, textures, lines, (0.4, 1.4), 1.3)] if lines else fringe(rng, mesh, textures)


def strays(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Single hairs and thin wisps that cross the face."""
    points = mesh[:, :2]
    span, high = np.ptp(points[:, 0]), np.ptp(points[:, 1])
    lines: list[Array] = []
    for _ in range(int(rng.integers(1, 7))):
        root = points[10] + np.array([rng.uniform(-0.6, 0.6) * span, -rng.uniform(0, 0.3) * high])
        end = points[10] + np.array([rng.uniform(-0.6, 0.6) * span, rng.uniform(0.2, 1.0) * high])
        lines += _lock(rng, root, end, rng.uniform(0.5, 5), int(rng.integers(2, 9)), rng.exponential(2))
    return [_layer(rng, textures, lines, (0.25, 0.7), 2.0)]


def braid(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Thick dreadlocks or a plait across the face."""
    points = mesh[:, :2]
    span, high = np.ptp(points[:, 0]), np.ptp(points[:, 1])
    layers = []
    for _ in range(int(rng.integers(1, 4))):
        root = points[10] + np.array([rng.uniform(-0.5, 0.5) * span, -0.3 * high])
        end = root + np.array([rng.normal(0, 0.15) * span, rng.uniform(0.5, 1.6) * high])
        spine = _lock(rng, root, end, 1, 1, rng.exponential(2))[0]
        radius = rng.uniform(1.5, 4.5) * (1 + 0.15 * np.sin(np.arange(16) * rng.uniform(1, 2.5)))
        step = np.gradient(spine, axis=0)
        side = (
            np.c_[-step[:, 1], step[:, 0]]
            / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-3)
            * radius[:, None]
        )
        alpha = filled(np.concatenate([spine + side, (spine - side)[::-1]]))
        shade = np.clip(0.4 + 0.35 * noise(rng, 2.5), 0, 1) * np.ones((SIZE, SIZE), np.float32)
        layers.append(Layer(_colour(rng, textures, shade), alpha, None, rng.uniform(0.1, 0.4), rng.uniform(1, 4)))
    return layers
