"""Hands, fingers and arms: tapered capsules with round shading, nails, knuckles and skin texture."""

from __future__ import annotations

import numpy as np

from training.occluder.canvas import Layer, blur, capsule, filled, lit, noise, rounded, smooth, stroked, tile
from training.occluder.crops import SIZE, Array
from training.occluder.textures import Textures

Rng = np.random.Generator
TARGETS = (13, 152, 50, 280, 10, 1, 61, 291, 172, 397, 33, 263, 9, 127, 356, 17, 58, 288)
"""Mesh points that hands like to touch: mouth, chin, cheeks, forehead, nose, jaws, eyes, temples."""


def _ray(angle: float) -> Array:
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


def skin_field(rng: Rng, image: Array, mesh: Array, textures: Textures) -> Array:
    """SIZE×SIZE×3 skin, mostly of the face's own colour."""
    patch = textures.pick(rng, "skin")
    field = tile(patch, rng, rng.uniform(0.8, 2.0))
    if rng.random() < 0.8:
        at = np.clip(np.round(mesh[[50, 280, 151, 4, 205, 425], :2]), 0, SIZE - 1).astype(int)
        own = np.median(image[at[:, 1], at[:, 0]], axis=0)
        own = own * rng.uniform(0.7, 1.25) * rng.uniform(0.93, 1.07, 3)
        field = field / np.maximum(field.mean((0, 1)), 0.02) * own
    mottled = 1 + 0.05 * noise(rng, 12) + 0.03 * noise(rng, 3)
    return np.clip(field * mottled[..., None], 0, 1).astype(np.float32)


def _finger(
    rng: Rng, root: Array, angle: float, length: float, radius: float, bend: float
) -> tuple[Array, Array, Array]:
    """Coverage of a finger, its tip and its last direction."""
    parts, at, direction, left = [], root, angle, radius
    for share in (0.42, 0.32, 0.26):
        end = at + _ray(direction) * length * share
        tapered = left * 0.93
        parts.append(capsule(at, end, left, tapered))
        at, left, direction = end, tapered, direction + bend
    return filled(*parts), at, _ray(direction - bend)


def _details(rng: Rng, tip: Array, along: Array, radius: float, root: Array, back: bool) -> tuple[Array, Array]:
    """Coverage of the nail and of the knuckle lines."""
    across = np.array([-along[1], along[0]])
    turn = np.linspace(0, 2 * np.pi, 14)[:-1]
    nail = tip + np.cos(turn)[:, None] * along * radius * 0.65 + np.sin(turn)[:, None] * across * radius * 0.55
    lines = []
    for share in (0.42, 0.72):
        middle = root + (tip - root) * (share + rng.normal(0, 0.02))
        for step in (-0.16, 0.0, 0.16):
            wiggle = along * radius * (step + 0.1 * rng.normal())
            lines.append(
                np.stack(
                    [
                        middle + across * radius * 0.55 + wiggle,
                        middle + wiggle * 1.3,
                        middle - across * radius * 0.55 + wiggle,
                    ]
                )
            )
    return (filled(nail) if back else np.zeros((SIZE, SIZE), np.float32)), stroked(lines, [0.5] * len(lines))


def hand(rng: Rng, image: Array, mesh: Array, textures: Textures) -> list[Layer]:
    """A hand that touches or covers part of the face; the order of layers is back to front."""
    size = np.ptp(mesh[:468, :2], axis=0).max() * rng.uniform(0.34, 0.62)
    target = mesh[rng.choice(TARGETS), :2] + rng.normal(0, 6, 2)
    wrist = rng.uniform(-0.15, np.pi + 0.15) if rng.random() < 0.88 else rng.uniform(-np.pi, np.pi)
    middle = target + _ray(wrist) * size * rng.uniform(0.1, 1.5)
    angle = wrist + np.pi + rng.normal(0, 0.35)
    ahead, side = _ray(angle), _ray(angle + np.pi / 2)
    radius = size / 8.4
    field = skin_field(rng, image, mesh, textures)
    back, curl, spread = rng.random() < 0.6, rng.uniform(0.35, 1.05), rng.uniform(-0.02, 0.2)
    palm = np.stack(
        [
            middle + side * size * x + ahead * size * y
            for x, y in ((-0.45, 0.42), (0.45, 0.42), (0.5, 0), (0.36, -0.55), (-0.36, -0.55), (-0.5, 0))
        ]
    )
    arm = capsule(
        middle - ahead * size * 0.35,
        middle - ahead * size * 3.2 + side * rng.normal(0, size * 0.3),
        size * 0.33,
        size * 0.48,
    )
    parts: list[tuple[Array, float]] = [(filled(arm, smooth(palm)), size * 0.3)]
    marks: list[tuple[Array, Array]] = []
    fingers = sorted(rng.choice(4, rng.choice([1, 2, 3, 4], p=[0.1, 0.12, 0.13, 0.65]), replace=False).tolist())
    bend = rng.normal(0, 0.08)
    for k in fingers:
        offset = k - 1.5
        root = middle + side * offset * radius * 2.05 + ahead * size * (0.38 - 0.05 * abs(offset))
        length = size * (0.86 - 0.07 * abs(offset - 0.3) ** 1.5) * curl * rng.uniform(0.92, 1.06)
        turn = angle + offset * spread + rng.normal(0, 0.03)
        shape, tip, along = _finger(
            rng, root, turn, length, radius * rng.uniform(0.92, 1.05), bend + rng.normal(0, 0.05)
        )
        parts.append((shape, radius))
        marks.append(_details(rng, tip, along, radius, root, back))
    if rng.random() < 0.7:
        way = rng.choice([-1, 1])
        root = middle + side * way * size * 0.38 - ahead * size * 0.2
        shape, tip, along = _finger(
            rng, root, angle + way * rng.uniform(0.25, 1.2), size * rng.uniform(0.5, 0.75), radius * 1.15, -way * 0.15
        )
        parts.append((shape, radius * 1.15))
        marks.append(_details(rng, tip, along, radius, root, back))
    rgb, alpha = _painted(rng, field, parts, marks)
    layers = [Layer(rgb, alpha, None, rng.uniform(0.1, 0.5), rng.uniform(1.5, 6))]
    if rng.random() < 0.3:
        start = middle - ahead * size * rng.uniform(0.7, 1.6)
        sleeve = filled(capsule(start, start - ahead * size * 4, size * 0.46, size * 0.8))
        cloth = (
            tile(textures.pick(rng, "cloth"), rng, rng.uniform(0.8, 2))
            * lit(rounded(sleeve, size * 0.3), rng, 0.6)[..., None]
        )
        layers.append(Layer(np.clip(cloth, 0, 1).astype(np.float32), sleeve, None, 0.2, 2.0))
    return layers


def _painted(
    rng: Rng, field: Array, parts: list[tuple[Array, float]], marks: list[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Colour and coverage of all parts, each throwing a contact shadow on those beneath."""
    rgb, alpha = field.copy(), np.zeros((SIZE, SIZE), np.float32)
    depth, light = rng.uniform(0.25, 0.7), np.random.default_rng(rng.integers(1 << 31))
    state = light.bit_generator.state
    crease = rng.uniform(0.15, 0.5)
    for shape, radius in parts:
        light.bit_generator.state = state  # one light for all parts
        shade = lit(rounded(shape, radius), light, depth)[..., None]
        rgb = rgb * (1 - crease * blur(shape, 1.5)[..., None])
        rgb = rgb * (1 - shape[..., None]) + field * shade * shape[..., None]
        alpha = np.maximum(alpha, shape)
    tone, lines = rng.uniform(0.0, 0.5), rng.uniform(0.05, 0.35)
    colour = np.array([1.0, 0.85, 0.82], np.float32) if rng.random() < 0.7 else rng.uniform(0, 1, 3).astype(np.float32)
    for nail, knuckles in marks:
        rgb = rgb * (1 - lines * knuckles[..., None])
        rgb = rgb * (1 - tone * nail[..., None]) + tone * nail[..., None] * np.clip(colour * (rgb + 0.25), 0, 1)
    return np.clip(rgb, 0, 1).astype(np.float32), alpha
