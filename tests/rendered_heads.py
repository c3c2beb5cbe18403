"""Heads of ICT-FaceKit rendered to pixels, with known pose, shape, expression and light.

Image axes: x right, y down, z away from the camera; cm. A bald scan has no features that a landmarker could hold on
to, so lips, brows, eyes and hair are painted on, and the eyes, which the light model lacks, are spheres.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.types import ByteArray, FloatArray
from tests.heads import turn

DoubleArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int32]

IMAGE = np.array([1.0, -1.0, -1.0])
"""From the model's axes (y up, z towards the viewer) to those of images."""
MIDDLE = np.array([0.0, -1.0, -4.0])
"""Head axes, cm: what comes to the middle of a picture."""
EYE_RADIUS = 1.25
"""cm."""
SKIN, LIP, LID = (0.50, 0.27, 0.19), (0.36, 0.11, 0.10), (0.25, 0.13, 0.09)
BROW, HAIR, MOUTH = (0.05, 0.03, 0.02), (0.04, 0.025, 0.02), (0.05, 0.01, 0.01)
"""Linear albedo."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadModel:
    """The model's arrays, in image axes."""

    neutral: DoubleArray
    """(V, 3) cm."""
    triangles: IntArray
    """(T, 3); front-facing ones have positive signed area in an image."""
    identity: FloatArray
    """(K, V, 3) cm per standard deviation."""
    expression: FloatArray
    """(E, V, 3) cm at full strength."""
    names: tuple[str, ...]
    """(E,) of the expressions."""
    landmarks: IntArray
    """(68,) vertices in iBUG's order."""

    @classmethod
    def load(cls, path: Path) -> HeadModel:
        """Read an .npz in the layout of `ict_facekit_light.npz`."""
        with np.load(path, allow_pickle=False) as data:
            axes = IMAGE.astype(np.float32)
            scale = data["scale"] if "scale" in data else np.ones(len(data["identity"]) + len(data["expression"]))
            count = len(data["identity"])
            return cls(
                data["neutral"].astype(np.float64) * IMAGE,
                data["triangles"].astype(np.int32)[:, ::-1].copy(),
                data["identity"].astype(np.float32) * axes * scale[:count, None, None].astype(np.float32),
                data["expression"].astype(np.float32) * axes * scale[count:, None, None].astype(np.float32),
                tuple(str(name) for name in data["expression_names"]),
                data["landmarks_68"].astype(np.int32),
            )

    def shape(self, identity: DoubleArray | None = None, expression: DoubleArray | None = None) -> DoubleArray:
        """(V, 3) of the leading coefficients given; missing ones are 0."""
        out = self.neutral.copy()
        for basis, weight in ((self.identity, identity), (self.expression, expression)):
            if weight is not None:
                out += np.tensordot(weight, basis[: len(weight)], 1)
        return out


@dataclass(frozen=True, slots=True)
class Lamp:
    """A distant light and an ambient one, linear."""

    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Towards the light; unit length is not needed."""
    power: float = 0.7
    ambient: float = 0.5
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __call__(self, normals: FloatArray) -> FloatArray:
        """(..., 3) irradiance of unit normals: Lambert."""
        towards = np.array(self.direction) / np.linalg.norm(self.direction)
        lit = self.ambient + self.power * np.maximum(normals @ towards, 0)
        return np.asarray(lit[..., None] * np.array(self.colour), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Rendered:
    """A picture and what is true of it."""

    image: ByteArray
    """(H, W, 3) sRGB."""
    face: IntArray
    """(H, W) triangle of the head's model at each pixel, −1 elsewhere (eyes and mouth included)."""
    normals: FloatArray
    """(H, W, 3) unit; 0 outside the head."""
    points: FloatArray
    """(V, 2) pixels of the model's vertices."""
    rotation: DoubleArray
    """(3, 3) head to camera, image axes."""
    vertices: DoubleArray
    """(V, 3) cm, before the turn."""
    distance: float
    """cm from the camera to the head's origin."""
    scale: float
    """Pixels per cm at that distance."""


@dataclass(frozen=True, slots=True)
class View:
    """How a head is seen; signs as in `tests.heads.turn`."""

    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    distance: float = 90.0
    """cm from the camera to the head's origin, between the ears."""
    size: int = 384
    """Pixels of the square picture."""
    head: float = 0.62
    """Height of the head from the chin to the crown over that of the picture."""
    lamp: Lamp = field(default_factory=Lamp)
    skin: tuple[float, float, float] = SKIN


def render(model: HeadModel, shape: DoubleArray, view: View, supersample: int = 2) -> Rendered:
    """A picture of the model's (V, 3) shape."""
    size = view.size * supersample
    rotation = turn(view.yaw, view.pitch, view.roll)
    head, triangles, albedo = _assembled(model, shape, view.skin)
    placed = head @ rotation.T
    focal = size * view.head / 24.0 * view.distance
    pixels = placed[:, :2] * (focal / (view.distance + placed[:, 2:]))
    # The camera looks at the head's origin; the picture is cut out around its middle.
    pixels += (size - 1) / 2 - size * view.head / 24.0 * (rotation @ MIDDLE)[:2]
    ids = _painted(pixels, placed[:, 2], triangles, size)
    normals = _normals(placed, triangles)
    inside = ids >= 0
    weight = _barycentric(ids, pixels, triangles)
    corners = triangles[ids[inside]]
    normal = np.einsum("nk,nkc->nc", weight, normals[corners])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    colour = np.einsum("nk,nkc->nc", weight, albedo[corners]) * view.lamp(normal.astype(np.float32))
    linear = np.full((size, size, 3), 0.18, np.float32)
    linear[inside] = colour
    field_ = np.zeros((size, size, 3), np.float32)
    field_[inside] = normal
    small = (view.size, view.size)
    linear = np.asarray(cv2.resize(linear, small, interpolation=cv2.INTER_AREA), np.float32)
    field_ = np.asarray(cv2.resize(field_, small, interpolation=cv2.INTER_AREA), np.float32)
    field_ /= np.maximum(np.linalg.norm(field_, axis=2, keepdims=True), 1e-6)
    face = ids[supersample // 2 :: supersample, supersample // 2 :: supersample].copy()
    face[face >= len(model.triangles)] = -1
    points = (pixels[: len(model.neutral)] + 0.5) / supersample - 0.5
    return Rendered(
        encoded(linear),
        face,
        field_,
        points.astype(np.float32),
        rotation,
        shape,
        view.distance,
        view.size * view.head / 24.0,
    )


def encoded(linear: FloatArray) -> ByteArray:
    """Linear light → sRGB uint8 (IEC 61966-2-1)."""
    linear = np.clip(linear, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(srgb * 255), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Somebody with an expression, and how they are seen."""

    identity: DoubleArray
    expression: DoubleArray
    view: View


def scene(model: HeadModel, seed: int, size: int = 384) -> Scene:
    """A random person, expression, pose (yaw within 45°, pitch 25°, roll 15°), distance, skin and light."""
    chance = np.random.default_rng(seed)
    moving = [i for i, name in enumerate(model.names) if not name.startswith(("Pupil", "eyeLook", "tongue"))]
    expression = np.zeros(len(model.names))
    for index in chance.choice(moving, chance.integers(0, 6), replace=False):
        strength = chance.uniform(0.1, 0.7)
        name = model.names[index]
        pair = {"L": "R", "R": "L"}.get(name[-1]) if name[-2] == "_" else None
        expression[index] = strength
        if pair is not None:
            expression[model.names.index(name[:-1] + pair)] = strength * chance.uniform(0.7, 1)
    if "mouthClose" in model.names:  # closes what an open jaw opens; alone it pushes the lips through each other
        jaw, close = model.names.index("jawOpen"), model.names.index("mouthClose")
        expression[jaw] = max(expression[jaw], expression[close])
    yaw, pitch, roll = chance.uniform(-45, 45), chance.uniform(-25, 25), chance.uniform(-15, 15)
    towards = np.append(chance.uniform(-1, 1, 2) * [1.2, 0.9], -1.0)
    power = chance.uniform(0.35, 0.9)
    colour = np.append(1.0, 1 + chance.uniform(-0.2, 0.1, 2))
    lamp = Lamp(tuple(towards), power, chance.uniform(0.25, 0.6), tuple(colour))
    skin = tuple(np.array(SKIN) * chance.uniform(0.35, 1.2))
    view = View(yaw, pitch, roll, chance.uniform(55, 160), size, 0.75, lamp, skin)
    return Scene(chance.normal(0, 1, len(model.identity)), expression, view)


def person(model: HeadModel, seed: int, size: float = 1.0) -> DoubleArray:
    """(K,) identity coefficients of somebody, standard deviation `size`."""
    return np.random.default_rng(seed).normal(0, size, len(model.identity))


def _assembled(
    model: HeadModel, shape: DoubleArray, skin: tuple[float, float, float]
) -> tuple[DoubleArray, IntArray, DoubleArray]:
    """Vertices, triangles and (V, 3) linear albedo of the head, its eyes and the inside of its mouth."""
    marks = shape[model.landmarks]
    share, paint = _paint(model)
    albedo = share[:, None] * np.array(skin) + paint
    parts, faces, colours = [shape], [model.triangles], [albedo]
    for lids in (marks[36:42], marks[42:48]):
        ball, sides, tint = _eye(lids)
        faces.append(sides + sum(len(part) for part in parts))
        parts.append(ball)
        colours.append(tint)
    mouth = marks[60:68]
    corners = np.array([[-2.2, -1.0, 2.0], [2.2, -1.0, 2.0], [2.2, 3.0, 2.0], [-2.2, 3.0, 2.0]]) + mouth.mean(0)
    faces.append(np.array([[0, 1, 2], [0, 2, 3]], np.int32) + sum(len(part) for part in parts))
    parts.append(corners)
    colours.append(np.tile(MOUTH, (4, 1)))
    return np.concatenate(parts), np.concatenate(faces).astype(np.int32), np.concatenate(colours)


@cache
def _paint(model: HeadModel) -> tuple[DoubleArray, DoubleArray]:
    """(V,) share of plain skin, and the (V, 3) linear albedo of the rest, already weighed."""
    base, marks = model.neutral, model.neutral[model.landmarks]
    share, paint = np.ones(len(base)), np.zeros((len(base), 3))
    inner = [60, 61, 61, 62, 63, 63, 64, 65, 65, 66, 67, 67]
    lips = (marks[48:60] + marks[inner]) / 2
    strokes = [(line - np.array([0, 0.15, 0]), BROW, 0.45) for line in (marks[17:22], marks[22:27])]
    strokes += [(lips[:7], LIP, 0.35), (lips[[*range(6, 12), 0]], LIP, 0.35)]
    strokes += [(np.r_[lids, lids[:1]], LID, 0.12) for lids in (marks[36:42], marks[42:48])]
    for line, colour, width in strokes:
        dense = np.concatenate([np.linspace(a, b, 12) for a, b in pairwise(line)])
        away = np.sqrt(((base[:, None] - dense) ** 2).sum(2)).min(1)
        _cover(share, paint, np.clip((width - away) / 0.15 + 0.5, 0, 1), colour)
    # Hair: above a line that falls from the forehead to behind the ears.
    line = -9.2 + 0.95 * (base[:, 2] + 9.5).clip(0, 14)
    _cover(share, paint, np.clip((line - base[:, 1]) / 0.6, 0, 1), HAIR)
    return share, paint


def _cover(share: DoubleArray, paint: DoubleArray, by: DoubleArray, colour: tuple[float, ...]) -> None:
    share *= 1 - by
    paint *= (1 - by)[:, None]
    paint += by[:, None] * np.array(colour)


def _eye(lids: DoubleArray) -> tuple[DoubleArray, IntArray, DoubleArray]:
    """A sphere behind (6, 3) points of the lids that looks ahead, with iris and pupil."""
    rows, columns = 24, 48
    polar, around = np.meshgrid(
        np.linspace(0, np.pi, rows), np.linspace(0, 2 * np.pi, columns, endpoint=False), indexing="ij"
    )
    unit = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), -np.cos(polar)], 2).reshape(-1, 3)
    middle = (lids[0] + lids[3]) / 2
    middle[1] = lids[[1, 2, 4, 5], 1].mean()
    centre = middle + np.array([0, 0, 0.85])
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = index[:-1], np.roll(index[:-1], -1, 1), np.roll(index[1:], -1, 1), index[1:]
    faces = np.concatenate([np.stack([a, c, b], 2).reshape(-1, 3), np.stack([a, d, c], 2).reshape(-1, 3)]).astype(
        np.int32
    )
    off_axis = np.degrees(np.arccos(np.clip(-unit[:, 2], -1, 1)))[:, None]
    white, iris, pupil = np.array([0.6, 0.57, 0.55]), np.array([0.12, 0.07, 0.03]), np.array([0.01, 0.01, 0.01])
    tint = np.where(off_axis < 12, pupil, np.where(off_axis < 28, iris, white))
    return centre + EYE_RADIUS * unit, faces, tint


def _painted(pixels: DoubleArray, depth: DoubleArray, triangles: IntArray, size: int) -> IntArray:
    """(size, size) triangle seen at each pixel, −1 outside; far ones are painted first, those facing away never."""
    corners = pixels[triangles]
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    front = np.flatnonzero(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] > 0)
    order = front[np.argsort(-depth[triangles[front]].mean(1), kind="stable")]
    fixed = np.round(corners * 16).astype(np.int32)
    ids = np.full((size, size), -1, np.int32)
    for index in order.tolist():
        cv2.fillConvexPoly(ids, fixed[index], index, shift=4)
    return ids


def _barycentric(ids: IntArray, pixels: DoubleArray, triangles: IntArray) -> DoubleArray:
    """(N, 3) weights of the corners at each pixel that shows a triangle."""
    rows, columns = np.nonzero(ids >= 0)
    a, b, c = (pixels[triangles[ids[rows, columns]][:, i]] for i in range(3))
    u, v, w = b - a, c - a, np.stack([columns, rows], 1) - a
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    area = np.where(np.abs(area) < 1e-9, 1e-9, area)
    second = (w[:, 0] * v[:, 1] - w[:, 1] * v[:, 0]) / area
    third = (u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]) / area
    weight = np.clip(np.stack([1 - second - third, second, third], 1), 0, 1)
    return np.asarray(weight / weight.sum(1, keepdims=True), np.float64)


def _normals(points: DoubleArray, triangles: IntArray) -> DoubleArray:
    """(V, 3) unit normals that look outward; z < 0 looks at the camera."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    normal = -np.cross(b - a, c - a)
    total = np.zeros_like(points)
    for axis in range(3):
        for corner in range(3):
            total[:, axis] += np.bincount(triangles[:, corner], normal[:, axis], len(points))
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12), np.float64)
