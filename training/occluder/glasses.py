"""Glasses and sunglasses, built in three dimensions on the head and projected with its pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mien.mesh import EYES, SURFACE, topology
from training.occluder.canvas import Layer, blur, filled, noise, stroked, tile
from training.occluder.crops import SIZE, Array
from training.occluder.textures import Textures

Rng = np.random.Generator
COUNT = 56
"""Points of a rim."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Similarity from the canonical head (cm; x right, y down, z away) to the crop."""

    linear: Array
    """(3, 3) rotation times scale."""
    shift: Array
    scale: float
    """Pixels per cm."""

    def __call__(self, points: Array) -> Array:
        """(N, 3) cm → (N, 2) crop pixels."""
        return (points @ self.linear.T + self.shift)[:, :2].astype(np.float32)


def canonical() -> Array:
    """(468, 3) vertices in the axes of a photo."""
    return topology().vertices * np.array([1, -1, -1], np.float32)


def head_of(mesh: Array) -> Head:
    """Least-squares fit (Umeyama 1991) to a (≥468, 3) mesh."""
    a, b = canonical().astype(np.float64), mesh[:SURFACE].astype(np.float64)
    u, v = a - a.mean(0), b - b.mean(0)
    left, values, right = np.linalg.svd(v.T @ u)
    sign = np.array([1, 1, np.sign(np.linalg.det(left @ right))])
    scale = float((values * sign).sum() / (u * u).sum())
    linear = scale * (left * sign) @ right
    return Head(linear.astype(np.float32), (b.mean(0) - linear @ a.mean(0)).astype(np.float32), scale)


@dataclass(slots=True)
class Frame:
    """Shape of a pair of glasses, cm."""

    width: float
    height: float
    power: float
    """2 ellipse … 6 box."""
    taper: float
    """How much narrower the bottom is."""
    drop: float
    """How far the lower outer part hangs (aviator)."""
    lift: float
    """How far the upper outer corner rises (cat-eye)."""
    top: float
    bottom: float
    """Thickness of the frame."""
    rim: str
    """full, half, none."""


def _frame(rng: Rng) -> Frame:
    metal = rng.random() < 0.45
    thin = rng.uniform(0.1, 0.22) if metal else rng.uniform(0.25, 0.75)
    kind = rng.choice(["round", "box", "aviator", "cat", "plain"])
    rim = rng.choice(["full", "half", "none"], p=[0.76, 0.14, 0.10])
    width = rng.uniform(4.3, 6.2) * (0.92 if kind == "round" else 1)
    height = {"round": width * rng.uniform(0.85, 1.05), "box": width * rng.uniform(0.5, 0.8)}.get(
        kind, width * rng.uniform(0.6, 0.9)
    )
    return Frame(
        width, height,
        power={"round": 2.0, "box": rng.uniform(3, 7), "aviator": 2.4}.get(kind, rng.uniform(2.2, 3.5)),
        taper=rng.uniform(0, 0.15) if kind in ("plain", "cat") else rng.uniform(0, 0.06),
        drop=rng.uniform(0.15, 0.3) if kind == "aviator" else 0.0,
        lift=rng.uniform(0.1, 0.3) if kind == "cat" else rng.uniform(0, 0.06),
        top=thin * rng.uniform(1, 1.6), bottom=thin, rim=str(rim),
    )  # fmt: skip


def _rim(frame: Frame, side: int, grow: float) -> Array:
    """(COUNT, 2) outline around one lens' centre; `grow` 1 is outside of the frame, 0 its inside."""
    turn = np.linspace(0, 2 * np.pi, COUNT, endpoint=False)
    cos, sin = np.cos(turn), np.sin(turn)
    x, y = (np.sign(v) * np.abs(v) ** (2 / frame.power) for v in (cos, sin))
    out, low = side * x, y
    thick = np.where(low < 0, frame.top, frame.bottom) * grow
    x = x * (frame.width / 2 * (1 - frame.taper * low) + thick)
    y = y * (frame.height / 2 + thick)
    y = y + frame.height * frame.drop * np.clip(low, 0, 1) * (0.5 + 0.5 * out)
    y = y - frame.height * frame.lift * np.clip(-low, 0, 1) * np.clip(out, 0, 1) ** 2
    return np.stack([x, y], 1)


def _place(head: Head, flat: Array, centre: Array, wrap: float, tilt: float) -> Array:
    """Project points that lie flat around a centre, bent around the head by `wrap` (1/cm)."""
    x, y = centre[0] + flat[:, 0], centre[1] + flat[:, 1] + tilt * (centre[0] + flat[:, 0])
    z = centre[2] + wrap * np.maximum(np.abs(x) - 2.0, 0) ** 2 + 0.08 * flat[:, 1]
    return head(np.c_[x, y, z])


def _colour(rng: Rng, textures: Textures) -> Array:
    """SIZE×SIZE×3 of the frame's material."""
    kind = rng.choice(["dark", "metal", "tortoise", "colour", "clear", "cloth"], p=[0.4, 0.24, 0.12, 0.14, 0.05, 0.05])
    if kind == "dark":
        base = np.full(3, rng.uniform(0.01, 0.16)) * rng.uniform(0.85, 1.15, 3)
    elif kind == "metal":
        base = np.array([(0.8, 0.65, 0.35), (0.75, 0.75, 0.78), (0.55, 0.4, 0.35), (0.3, 0.3, 0.32)][rng.integers(4)])
    elif kind == "clear":
        base = rng.uniform(0.6, 0.95, 3)
    else:
        base = rng.uniform(0, 1, 3)
    shade: Array = np.ones((SIZE, SIZE), np.float32)
    if kind == "metal":
        shade = 0.85 + 0.35 * noise(rng, 10)
    elif kind == "tortoise":
        mix = np.clip(0.5 + 0.6 * noise(rng, 5), 0, 1)[..., None]
        return np.asarray(
            mix * np.array([0.45, 0.25, 0.1], np.float32) + (1 - mix) * np.array([0.1, 0.05, 0.03], np.float32),
            np.float32,
        )
    elif kind == "cloth":
        return tile(textures.pick(rng, "cloth"), rng, rng.uniform(0.6, 2))
    gloss = rng.uniform(0, 0.25) * np.clip(noise(rng, 14), 0, 2)
    return np.clip(base * shade[..., None] + gloss[..., None], 0, 1).astype(np.float32)


def _bridge(rng: Rng, head: Head, frame: Frame, centres: list[Array], wrap: float, tilt: float) -> list[Array]:
    heights = [-0.18] if rng.random() < 0.8 else [-0.1, -0.42]
    lines = []
    for part in heights:
        ends = [np.array([-side * frame.width / 2 * 0.98, part * frame.height]) for side in (-1, 1)]
        a, b = (_place(head, end[None], c, wrap, tilt)[0] for end, c in zip(ends, centres, strict=True))
        middle = (centres[0] + centres[1]) / 2 + np.array([0, part * frame.height - rng.uniform(0, 0.5), -0.5])
        t = np.linspace(0, 1, 12)[:, None]
        lines.append(((1 - t) ** 2 * a + 2 * t * (1 - t) * head(middle[None])[0] + t * t * b).astype(np.float32))
    return lines


def _temples(head: Head, frame: Frame, centres: list[Array], wrap: float, tilt: float) -> list[Array]:
    lines = []
    for side, centre in zip((-1, 1), centres, strict=True):
        if side * head.linear[2, 0] / head.scale > 0.22:
            continue  # on the far side of the head
        hinge = np.array([[side * frame.width / 2 * 1.02, -0.28 * frame.height]])
        start = _place(head, hinge, centre, wrap, tilt)[0]
        ear = head(np.array([[side * 7.6, centre[1] - 0.25 * frame.height, 5.5]], np.float32))[0]
        corner = head(np.array([[side * 7.5, centre[1] - 0.28 * frame.height, centre[2] + 1.5]], np.float32))[0]
        lines.append(np.stack([start, corner, ear]))
    return lines


def _reflections(rng: Rng, lens: Array, textures: Textures, head: Head) -> Layer | None:
    """A window, the sky or a screen mirrored in clear glass."""
    if rng.random() < 0.6:
        return None
    strength = rng.uniform(0.15, 0.95)
    if rng.random() < 0.5:
        angle, shift = rng.uniform(-1, 1), rng.uniform(-30, 30)
        rows, columns = np.mgrid[:SIZE, :SIZE].astype(np.float32)
        across = (columns * np.cos(angle) + rows * np.sin(angle) + shift) % (head.scale * rng.uniform(4, 9))
        band = blur((across < head.scale * rng.uniform(0.5, 2.5)).astype(np.float32), rng.uniform(0.4, 2))
    else:
        band = np.clip(0.5 + noise(rng, 18) * 1.5, 0, 1)
    rgb = np.ones((SIZE, SIZE, 3), np.float32) * rng.uniform(0.75, 1.0, 3).astype(np.float32)
    if rng.random() < 0.3:
        rgb = np.clip(tile(textures.pick(rng, "scene"), rng, 2) * 1.4 + 0.15, 0, 1)
    alpha = lens * band * strength
    return Layer(rgb, alpha, cover=np.clip((alpha - 0.35) / 0.3, 0, 1))


def _lens(rng: Rng, lens: Array, textures: Textures, head: Head, dark: bool) -> list[Layer]:
    rows = np.mgrid[:SIZE, :SIZE][0].astype(np.float32)
    inside = np.flatnonzero(lens.max(1) > 0.5)
    top, bottom = (inside[0], inside[-1]) if len(inside) else (0, SIZE)
    down = np.clip((rows - top) / max(bottom - top, 1), 0, 1)
    if not dark:
        tint = np.broadcast_to(rng.uniform(0.2, 1, 3).astype(np.float32), (SIZE, SIZE, 3)).copy()
        clear = Layer(tint, lens * rng.uniform(0, 0.14), cover=np.zeros_like(lens))
        mirrored = _reflections(rng, lens, textures, head)
        return [clear] if mirrored is None else [clear, mirrored]
    kind = rng.choice(["dark", "fade", "mirror", "colour"], p=[0.45, 0.2, 0.2, 0.15])
    base = rng.uniform(0, 0.18, 3) if kind in ("dark", "fade") else rng.uniform(0, 0.9, 3)
    rgb = np.broadcast_to(base.astype(np.float32), (SIZE, SIZE, 3)).copy()
    alpha = lens * rng.uniform(0.72, 1.0)
    if kind == "fade":
        alpha = alpha * (1 - rng.uniform(0.3, 0.8) * down)
    if kind == "mirror":
        other = rng.uniform(0, 1, 3).astype(np.float32)
        turn = np.clip(down + 0.3 * noise(rng, 30), 0, 1)[..., None]
        rgb = (1 - turn) * rgb + turn * other
        if rng.random() < 0.6:
            rgb = 0.5 * rgb + 0.6 * blur(tile(textures.pick(rng, "scene"), rng, 1.5), 1.0)
    sheen = rng.uniform(0, 0.35) * np.clip(noise(rng, 22), 0, 2)
    rgb = np.clip(rgb + sheen[..., None], 0, 1).astype(np.float32)
    layers = [Layer(rgb, alpha.astype(np.float32), cover=np.clip((alpha - 0.2) / 0.3, 0, 1).astype(np.float32))]
    mirrored = _reflections(rng, lens, textures, head)
    if mirrored is not None:
        mirrored.cover = np.zeros_like(lens)
        layers.append(mirrored)
    return layers


def glasses(rng: Rng, mesh: Array, textures: Textures) -> list[Layer]:
    """Layers of one pair of glasses on a (≥468, 3) mesh, back to front."""
    head, frame, points = head_of(mesh), _frame(rng), canonical()
    eyes = [points[list(eye)].mean(0) for eye in EYES]
    dark = rng.random() < 0.38
    slip, apart, front = rng.normal(0.25, 0.3), rng.normal(0, 0.12), rng.uniform(0.9, 1.9)
    if rng.random() < 0.06:
        slip += rng.uniform(0.8, 2)  # reading glasses low on the nose
    centres = [
        np.array([side * (abs(eye[0]) + 0.1 + apart), eye[1] + slip, eye[2] - front])
        for side, eye in zip((-1, 1), eyes, strict=True)
    ]
    frame.width = min(frame.width, 2 * (abs(centres[0][0]) - 0.55))
    wrap, tilt = rng.uniform(0.01, 0.07), rng.normal(0, 0.02)
    if dark and rng.random() < 0.15:  # a shield or goggles: one lens
        centres = [np.array([0, eyes[0][1] + slip, eyes[0][2] - front])] * 2
        frame.width, frame.height, frame.power = rng.uniform(12.5, 15), rng.uniform(4, 6.5), rng.uniform(3, 5)
        frame.rim, frame.drop, frame.lift = "full", 0.0, 0.0
    outer, inner = (
        [_place(head, _rim(frame, side, grow), c, wrap, tilt) for side, c in zip((-1, 1), centres, strict=True)]
        for grow in (1.0, 0.0)
    )
    lens = filled(*inner)
    rim = np.clip(filled(*outer) - lens, 0, 1)
    thin = max(frame.bottom * head.scale, 0.5)
    if frame.rim != "full":
        edge = stroked(inner, [0.12 * head.scale] * 2, closed=True) * rng.uniform(0.2, 0.7)
        above = np.mgrid[:SIZE, :SIZE][0] < np.mean([c[:, 1].mean() for c in inner]) + 0.1 * frame.height * head.scale
        rim = np.maximum(rim * above if frame.rim == "half" else rim * 0, edge)
    lines = _bridge(rng, head, frame, centres, wrap, tilt) if centres[0][0] != centres[1][0] else []
    temples = _temples(head, frame, centres, wrap, tilt)
    bars = stroked(
        [*lines, *temples], [thin * rng.uniform(0.9, 1.3)] * len(lines) + [thin * rng.uniform(1, 1.6)] * len(temples)
    )
    body = np.maximum(rim, bars)
    layers = _lens(rng, np.clip(lens - rim, 0, 1), textures, head, dark)
    layers[0].shadow, layers[0].lift = (rng.uniform(0, 0.3), rng.uniform(2, 5)) if dark else (0.0, 2.0)
    see = rng.uniform(0.5, 0.8) if rng.random() < 0.05 else 1.0
    layers.append(Layer(_colour(rng, textures), body * see, body, rng.uniform(0, 0.45), rng.uniform(1, 4), 2.5))
    return layers
