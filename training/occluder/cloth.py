"""Medical and cloth masks, scarves, veils, hats and hoods."""

from __future__ import annotations

import numpy as np

from mien.mesh import OVAL
from training.occluder.canvas import Layer, blur, curve, filled, lit, noise, rounded, smooth, stroked, tile
from training.occluder.crops import SIZE, Array
from training.occluder.textures import Textures

Rng = np.random.Generator
LOWER = OVAL[8:29]
"""Outline from ear to ear, over the chin, beginning at the greater x."""
PLAIN = ((0.55, 0.75, 0.85), (0.93, 0.94, 0.95), (0.06, 0.06, 0.07), (0.35, 0.4, 0.5), (0.85, 0.7, 0.72))


def fabric(rng: Rng, textures: Textures, plain: float = 0.5) -> Array:
    """SIZE×SIZE×3 of cloth."""
    if rng.random() < plain:
        base = np.array(PLAIN[rng.integers(len(PLAIN))]) if rng.random() < 0.6 else rng.uniform(0, 1, 3)
        grain = 1 + rng.uniform(0, 0.06) * noise(rng, 1.5) + rng.uniform(0, 0.08) * noise(rng, 20)
        return np.clip(base * grain[..., None], 0, 1).astype(np.float32)
    field = tile(textures.pick(rng, "cloth"), rng, rng.uniform(0.5, 2.5))
    if rng.random() < 0.3:
        field = field[..., rng.permutation(3)]
    if rng.random() < 0.2:
        rows, columns = np.mgrid[:SIZE, :SIZE]
        wave = np.sin((columns * rng.normal() + rows * rng.normal()) * rng.uniform(0.2, 1.2))
        field = np.clip(field * (1 + 0.3 * (wave[..., None] > 0)), 0, 1)
    return np.asarray(field, np.float32)


def folded(rng: Rng, field: Array, alpha: Array, depth: float, flat: float) -> Array:
    """Cloth with round edges and soft folds; `flat` > 1 makes the folds run across."""
    folds = noise(rng, rng.uniform(5, 16), flat) * rng.uniform(0.03, 0.16)
    shade = lit(rounded(alpha, 14), rng, depth) + folds
    return np.clip(field * shade[..., None], 0, 1).astype(np.float32)


def face_mask(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A medical or cloth mask over mouth and nose, or slipped to the chin or below the nose."""
    points = mesh[:, :2]
    lower = points[list(LOWER)]
    centre = points[13]
    over = rng.uniform(0.25, 1) if rng.random() < 0.75 else rng.uniform(-0.7, 0.1)
    nose = points[2] + (points[6] - points[2]) * over if over > 0 else points[2] + (points[17] - points[2]) * -over
    start = int(rng.integers(0, 5))
    sides = lower[start : len(lower) - start]
    a, b = sides[-1], sides[0]
    across = (b - a) * rng.uniform(0.0, 0.14)
    left, right = nose - across, nose + across
    upper = np.concatenate(
        [
            curve([a, (a + left) / 2 + rng.normal(0, 2.5, 2), left], 8),
            curve([right, (b + right) / 2 + rng.normal(0, 2.5, 2), b], 8)[:-1],
        ]
    )
    outline = np.concatenate([sides, upper])
    outline = centre + (outline - centre) * rng.uniform(1.0, 1.12) + rng.normal(0, 0.7, outline.shape)
    alpha = filled(smooth(outline))
    rgb = folded(rng, fabric(rng, textures, 0.65), alpha, rng.uniform(0.1, 0.6), rng.uniform(1, 5))
    pleats = int(rng.integers(0, 5))
    lines = []
    for k in range(pleats):
        share = (k + 1) / (pleats + 1)
        left, right = (end + (points[152] - nose) * (share - 0.3) * 0.8 for end in (a, b))
        bottom = nose + (points[152] - nose) * share
        lines.append(curve([left, bottom, right], 12))
    if lines:
        crease = blur(stroked(lines, [rng.uniform(0.6, 2)] * len(lines)), rng.uniform(0.3, 1.0))
        rgb = rgb * (1 - rng.uniform(0.1, 0.45) * crease[..., None]) + 0.15 * np.roll(crease, 2, 0)[..., None] * rgb
    straps = []
    for end, ear, low in ((a, points[234], sides[len(sides) * 3 // 4]), (b, points[454], sides[len(sides) // 4])):
        outward = ear + (ear - points[4]) * 0.15
        straps += [np.stack([end, outward]), np.stack([low, outward])]
    strap = stroked(straps, [rng.uniform(0.5, 1.6)] * 4) * (rng.random() < 0.7)
    both = np.maximum(alpha, strap).astype(np.float32)
    return [Layer(np.clip(rgb, 0, 1).astype(np.float32), both, None, rng.uniform(0, 0.4), rng.uniform(1, 4))]


def scarf(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Cloth from below, up to somewhere between chin and eyes."""
    points = mesh[:, :2]
    level = points[152] + (points[6] - points[152]) * rng.uniform(-0.05, 0.85)
    span = np.ptp(points[:, 0])
    columns = np.linspace(-0.9, 0.9, 9)
    arch = rng.uniform(-0.25, 0.35) * (np.abs(columns) - 0.4)
    edge = level + np.c_[columns * span, -arch * span + rng.normal(0, 2.5, 9)]
    outline = np.concatenate([edge, [[edge[-1, 0], SIZE * 1.3], [edge[0, 0], SIZE * 1.3]]])
    alpha = filled(smooth(outline))
    rgb = folded(rng, fabric(rng, textures, 0.25), alpha, rng.uniform(0.2, 0.7), rng.uniform(0.5, 5))
    return [Layer(rgb, alpha, None, rng.uniform(0.1, 0.5), rng.uniform(2, 6))]


def hat(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A brim, cap, headband, bandana or fringe of cloth over the forehead."""
    points = mesh[:, :2]
    brow = points[9] + (points[10] - points[9]) * rng.uniform(0.15, 1.0)
    up = (points[10] - points[152]) / max(np.linalg.norm(points[10] - points[152]), 1)
    right = np.array([-up[1], up[0]])
    half = np.ptp(points[:, 0]) * rng.uniform(0.55, 0.8)
    bow = half * rng.uniform(-0.3, 0.3)
    lower = curve(
        [brow - right * half - up * bow, brow + up * bow + rng.normal(0, 2, 2), brow + right * half - up * bow], 14
    )
    high = half * (rng.uniform(0.15, 0.5) if rng.random() < 0.25 else 4)
    alpha = filled(np.concatenate([lower, (lower + up * high)[::-1]]))
    rgb = folded(rng, fabric(rng, textures, 0.35), alpha, rng.uniform(0.2, 0.7), rng.uniform(1, 4))
    if rng.random() < 0.5:
        band = stroked([lower + up * half * rng.uniform(0.02, 0.1)], [rng.uniform(1, 6)])[..., None]
        rgb = rgb * (1 - band) + rgb * rng.uniform(0.3, 1.5) * band
    shadow = rng.uniform(0.2, 0.7), rng.uniform(2, 14)
    return [Layer(np.clip(rgb, 0, 1).astype(np.float32), alpha, None, *shadow)]


def hood(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """A hood, headscarf, veil or balaclava: cloth with a hole for the face or for the eyes alone."""
    points = mesh[:, :2]
    outline = points[list(OVAL)]
    centre = outline.mean(0)
    hole = (
        centre
        + (outline - centre) * rng.uniform(0.72, 1.0) * np.array([1, rng.uniform(0.9, 1.05)])
        + rng.normal(0, 3, 2)
    )
    if rng.random() < 0.25:
        eyes = points[[33, 263, 133, 362]].mean(0)
        turn = np.linspace(0, 2 * np.pi, 24)[:-1]
        hole = eyes + np.c_[np.cos(turn), np.sin(turn)] * np.ptp(points[:, 0]) * np.array(
            [rng.uniform(0.4, 0.5), rng.uniform(0.12, 0.24)]
        )
    alpha = (1 - filled(smooth(hole))).astype(np.float32)
    far = np.linalg.norm(np.mgrid[:SIZE, :SIZE][::-1].transpose(1, 2, 0) - centre, axis=2)
    alpha = alpha * (far < np.ptp(points[:, 1]) * rng.uniform(0.7, 1.2))
    rgb = folded(rng, fabric(rng, textures, 0.35), alpha, rng.uniform(0.2, 0.7), rng.uniform(0.3, 3))
    return [Layer(rgb, alpha.astype(np.float32), None, rng.uniform(0.2, 0.6), rng.uniform(2, 8))]
