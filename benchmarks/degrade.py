"""Generated scenes of one degraded face each, with its place known, and the same degradations without a face.

A scene is a photo turned, scaled and put somewhere into a frame of 480 × 360 by one matrix, then degraded. Everything
is seeded by the person, the kind and the strength.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mien.geometry import transform
from mien.types import ByteArray, Face, FloatArray

WIDTH, HEIGHT = 480, 360
FACE = 100.0
"""Height in pixels of a face's mesh, but for small and tilted ones."""

STRENGTHS: dict[str, tuple[float, ...]] = {
    "blur": (0.07, 0.11, 0.15),
    "dark": (0.06, 0.035, 0.02),
    "noise": (50.0, 80.0, 110.0),
    "small": (16.0, 12.0, 9.0),
    "tilted": (40.0, 20.0, 14.0),
    "covered": (0.4, 0.5, 0.6),
}
"""blur: sigma over the face's height; dark: gain, before noise of 2 and rounding; noise: sigma of 255; small and
tilted: height in pixels; covered: share of the face's box that something lies over, from a side of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A photo with its one face."""

    name: str
    image: ByteArray
    face: Face


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A degraded picture; `keypoints` (5, 2) and `box` (4,) of its face's mesh, None where it has no face."""

    name: str
    kind: str
    strength: float
    image: ByteArray
    keypoints: FloatArray | None
    box: FloatArray | None


def read(path: Path, side: int = 640) -> ByteArray:
    """An RGB picture whose longest side is at most `side`."""
    image = cv2.imread(str(path))
    assert image is not None, path
    scale = min(1.0, side / max(image.shape[:2]))
    image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)


def scenes(person: Person) -> Iterator[Scene]:
    """Every kind and strength of one person."""
    for kind, strengths in STRENGTHS.items():
        for strength in strengths:
            random = _random(person.name, kind, strength)
            matrix = _placed(person.image, person.face.mesh[:, :2], kind, strength, random)
            mesh = transform(person.face.mesh[:, :2], matrix)
            box = np.concatenate([mesh.min(0), mesh.max(0)])
            image = _warped(person.image, matrix, _without_face(person, random, tiles=False))
            image = _degraded(image, box, kind, strength, random)
            yield Scene(person.name, kind, strength, image, transform(person.face.keypoints, matrix), box)


def empty_scenes(person: Person) -> Iterator[Scene]:
    """As `scenes`, of the photo's clothes, of its background, and of the photo in scrambled tiles."""
    for kind, strengths in STRENGTHS.items():
        for strength in strengths:
            random = _random(person.name + " empty", kind, strength)
            image = _without_face(person, random)
            square = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.float32) * np.array(image.shape[1::-1], np.float32)
            # As large as a face's photo would be: about three faces high.
            matrix = _placed(image, square, kind, 3 * strength if kind in ("small", "tilted") else strength, random, 3)
            places = transform(square, matrix)
            box = np.concatenate([places.min(0), places.max(0)])
            shown = _warped(image, matrix, _without_face(person, random, tiles=False))
            yield Scene(person.name, kind, strength, _degraded(shown, box, kind, strength, random), None, None)


def _random(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(" ".join(map(str, parts)).encode()))


def _placed(
    image: ByteArray, points: FloatArray, kind: str, strength: float, random: np.random.Generator, times: float = 1
) -> FloatArray:
    """(2, 3) from the photo to the frame: the points get their height and lie inside."""
    height = strength if kind in ("small", "tilted") else times * FACE
    low, high = points.min(0), points.max(0)
    scale = height / float(high[1] - low[1])
    angle = math.radians(random.uniform(30, 330)) if kind == "tilted" else 0.0
    cos, sin = scale * math.cos(angle), scale * math.sin(angle)
    linear = np.array([[cos, -sin], [sin, cos]])
    reach = min(0.75 * height, HEIGHT / 2)
    target = random.uniform((reach, reach), (WIDTH - reach, HEIGHT - reach))
    return np.asarray(np.c_[linear, target - linear @ ((low + high) / 2)], np.float32)


def _warped(image: ByteArray, matrix: FloatArray, backdrop: ByteArray) -> ByteArray:
    """The frame, with the backdrop where the photo does not reach."""
    frame = np.asarray(cv2.resize(backdrop, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR), np.uint8)
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    smooth = image if scale >= 1 else cv2.GaussianBlur(image, (0, 0), max(0.01, 0.45 * math.sqrt(scale**-2 - 1)))
    cv2.warpAffine(smooth, matrix, (WIDTH, HEIGHT), frame, cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT)
    return frame


def _degraded(image: ByteArray, box: FloatArray, kind: str, strength: float, random: np.random.Generator) -> ByteArray:
    if kind == "blur":
        return np.asarray(cv2.GaussianBlur(image, (0, 0), strength * FACE), np.uint8)
    if kind == "covered":
        return _covered(image, box, strength, random)
    gain, sigma = {"dark": (strength, 2.0), "noise": (1.0, strength)}.get(kind, (1.0, 4.0))
    noisy = image * gain + random.normal(0, sigma, image.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def _covered(image: ByteArray, box: FloatArray, share: float, random: np.random.Generator) -> ByteArray:
    """Something flat or striped over the face, from one side of its box."""
    x0, y0, x1, y1 = (float(v) for v in box)
    width, height = x1 - x0, y1 - y0
    side = int(random.integers(4))
    if side < 2:
        x0, x1 = (x0 - 0.2 * width, x0 + share * width) if side else (x1 - share * width, x1 + 0.2 * width)
        y0, y1 = y0 - 0.2 * height, y1 + 0.2 * height
    else:
        y0, y1 = (y0 - 0.3 * height, y0 + share * height) if side == 2 else (y1 - share * height, y1 + 0.3 * height)
        x0, x1 = x0 - 0.2 * width, x1 + 0.2 * width
    out = image.copy()
    place = out[max(0, round(y0)) : max(0, round(y1)), max(0, round(x0)) : max(0, round(x1))]
    place[:] = random.integers(0, 256, 3)
    if random.random() < 0.5:
        place[:: int(random.integers(3, 12))] = random.integers(0, 256, 3)
    return out


def _without_face(person: Person, random: np.random.Generator, *, tiles: bool = True) -> ByteArray:
    """A part of the photo that shows no face, or the photo in tiles that show no more than one eye, shuffled."""
    image, box = person.image, person.face.bbox
    tall, wide = image.shape[:2]
    kind = int(random.integers(0 if tiles else 1, 3))
    if kind == 0:
        side = max(8, int((box[3] - box[1]) * 0.18))
        rows, columns = tall // side, wide // side
        pieces = [image[r * side :, c * side :][:side, :side] for r in range(rows) for c in range(columns)]
        order = random.permutation(len(pieces))
        return np.concatenate(
            [np.concatenate([pieces[i] for i in order[r * columns : (r + 1) * columns]], 1) for r in range(rows)]
        )
    below = min(tall - 40, int(box[3] + 0.25 * (box[3] - box[1])))
    if kind == 1:
        return np.ascontiguousarray(image[below:])
    left, right = int(box[0] - 0.4 * (box[2] - box[0])), int(box[2] + 0.4 * (box[2] - box[0]))
    parts = [part for part in (image[:, : max(0, left)], image[:, right:]) if part.shape[1] >= 40]
    return np.ascontiguousarray(parts[int(random.integers(len(parts)))] if parts else image[below:])


def people(folder: Path, names: Sequence[str]) -> list[Path]:
    """One photo of each person, sorted."""
    found = [path for name in names for path in sorted((folder / name).glob("*.jpg"))]
    return [path for path in found if "smiling" not in path.stem]
