"""The light on a face: nine spherical harmonics per channel, in linear light, fitted to plain skin.

Ramamoorthi & Hanrahan, "An efficient representation for irradiance environment maps", 2001. Directions are camera
axes as everywhere: x right, y down, z away, so a light behind the camera has z < 0. Skin is taken to have one albedo,
which the coefficients contain: they are the light times the skin's colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.color import as_float
from mien.errors import GeometryError
from mien.mesh import BROWS, EYES, LIPS, MOUTH, SURFACE, topology
from mien.morphable import Fit
from mien.types import FloatArray, Image

DoubleArray: TypeAlias = npt.NDArray[np.float64]

LUMA = np.array([0.2126, 0.7152, 0.0722])
"""Luminance of linear sRGB (BT.709)."""
TOLERANCE = 0.12
"""Share of the mean brightness by which skin may differ before it counts as something else, or as a shadow or shine."""
STIFF = (0.03, 0.1, 0.3)
"""Precision per sample of the prior, the best single lamp and even light, by band: other light may add to it."""
ROUNDS = 4
DIRECTIONS = 200
"""Lamps that are tried first, evenly spread over all directions."""
BEHIND = 0.3
"""z of the furthest lamp behind the head that is believed; its light would hardly reach what the camera sees."""
SIDE = 160
"""Pixels of the face's longer side at which it is looked at."""
GAIN = (0.25, 4.0)
"""Limits of a relighting gain."""
FLOOR = 0.05
"""Share of the mean light below which no shading falls: negative lobes are the expansion's error."""
FEATURE = 0.7
"""cm around eyes, brows and lips that are no plain skin."""


@dataclass(frozen=True, slots=True, eq=False)
class Light:
    """Irradiance by direction, times the skin's albedo; linear."""

    coefficients: FloatArray
    """(9, 3) of `basis`, by R, G, B."""

    @property
    def direction(self) -> FloatArray:
        """(3,) unit vector towards the main light, from the linear band; zeros where the light has no direction."""
        vector = self.coefficients[1:4].astype(np.float64) @ LUMA
        length = float(np.linalg.norm(vector))
        if length < 1e-6 * max(1e-6, float(abs(self.coefficients[0] @ LUMA))):
            return np.zeros(3, np.float32)
        return np.asarray(vector / length, np.float32)

    @property
    def ambient(self) -> float:
        """Share, 0–1, of the even light in what skin that faces the main light gets."""
        constant = float(self.coefficients[0] @ LUMA)
        power = 2 * float(np.linalg.norm(self.coefficients[1:4].astype(np.float64) @ LUMA))
        even = max(constant - power / 4, 0.0)
        return even / max(even + power, 1e-9)


def basis(normals: FloatArray) -> FloatArray:
    """(..., 9) of (..., 3) unit normals: 1; x, y, z; xy, yz, xz, x² − y², 3z² − 1. Not normalised."""
    x, y, z = normals[..., 0], normals[..., 1], normals[..., 2]
    return np.stack([np.ones_like(x), x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], axis=-1)


def shading(normals: FloatArray, coefficients: FloatArray) -> FloatArray:
    """(..., 3) linear brightness of skin with these (..., 3) normals; at least `FLOOR` of the even light."""
    light = basis(normals) @ coefficients
    return np.asarray(np.maximum(light, FLOOR * np.maximum(coefficients[0], 1e-4)), np.float32)


def relight(normals: FloatArray, source: Light, target: Light, keep_tone: float = 0.0) -> FloatArray:
    """(..., 3) gain on linear light that takes skin under `source` to how it would look under `target`.

    Within `GAIN`. The lights contain the albedos, so the gain also takes the source's skin tone to the target's;
    `keep_tone` 0–1 takes that share of the even light's ratio, in brightness and colour, back out.
    """
    gain = shading(normals, target.coefficients) / shading(normals, source.coefficients)
    even = np.maximum(target.coefficients[0], 1e-4) / np.maximum(source.coefficients[0], 1e-4)
    return np.asarray(np.clip(gain / even**keep_tone, *GAIN), np.float32)


def fit_light(linear: FloatArray, normals: FloatArray, weight: FloatArray | None = None) -> Light:
    """The light that explains (N, 3) linear colours of skin with (N, 3) normals, `weight` (N,) 0–1.

    Faces show hardly half of all directions, too few for nine coefficients. So the best even light with one lamp
    (Lambert) is found first, and the coefficients, by least squares, stay near what it would give. Cauchy weights:
    features, shadows and shine count little.

    Raises:
        GeometryError: fewer than nine usable samples.
    """
    values, directions = np.asarray(linear, np.float64), np.asarray(normals, np.float64)
    base = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
    if (base > 0.01).sum() < 9:
        raise GeometryError("too little plain skin to see the light; give a face that is less covered")
    terms, luma = basis(normals).astype(np.float64), values @ LUMA
    level = max(float(np.median(luma[base > 0.01])), 1e-4)
    trust, vector = base, _first_lamp(luma, directions, base)
    for _ in range(ROUNDS):
        vector = _better_lamp(luma, directions, trust, vector)
        lit = np.maximum(directions @ vector, 0) / max(float(np.linalg.norm(vector)), 1e-9)
        plain = np.c_[np.ones(len(lit)), lit]
        even, power = np.linalg.solve(
            (plain * trust[:, None]).T @ plain + 1e-9 * np.eye(2), plain.T @ (trust[:, None] * values)
        )
        away = np.abs((values - plain @ [even, power]) @ LUMA) / (TOLERANCE * level)
        trust = base / (1 + away * away)
    expected = _lamp_coefficients(even, power, vector)
    hold = np.repeat(STIFF, (1, 3, 5)) * trust.sum()
    matrix = (terms * trust[:, None]).T @ terms + np.diag(hold)
    change = np.linalg.solve(matrix, (terms * trust[:, None]).T @ (values - terms @ expected))
    return Light((expected + change).astype(np.float32))


def light_of(image: Image, mesh: FloatArray, found: Fit, mask: FloatArray | None = None) -> Light:
    """The light on a face of an sRGB picture, from its (478, 3) mesh, its fit and a (H, W) mask of plain skin.

    Raises:
        GeometryError: as for `fit_light`.
    """
    points, pixels = mesh[:SURFACE, :2].astype(np.float64), as_float(image)
    low, high = np.floor(points.min(0)) - 1, np.ceil(points.max(0)) + 2
    x0, y0, x1, y1 = np.clip([*low, *high], 0, [image.shape[1], image.shape[0]] * 2).astype(int)
    if x1 - x0 < 2 or y1 - y0 < 2:
        raise GeometryError("the face lies outside of the picture; give one that shows it")
    scale = min(1.0, SIDE / max(x1 - x0, y1 - y0))
    size = (max(2, round((x1 - x0) * scale)), max(2, round((y1 - y0) * scale)))
    small = to_linear(np.asarray(cv2.resize(pixels[y0:y1, x0:x1], size, interpolation=cv2.INTER_AREA), np.float32))
    plain = np.ones(size[::-1], np.float32)
    if mask is not None:
        plain = np.asarray(cv2.resize(mask[y0:y1, x0:x1], size, interpolation=cv2.INTER_AREA), np.float32)
    triangles = topology().triangles
    normals, where = found.normals(), ((points + 0.5 - [x0, y0]) * np.array(size) / [x1 - x0, y1 - y0] - 0.5)
    middle = where[triangles].mean(1)
    normal = normals[triangles].mean(1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    column, row = (middle[:, i].astype(np.float32) for i in (0, 1))
    inside = (column >= 0) & (row >= 0) & (column <= size[0] - 1) & (row <= size[1] - 1)
    colours = _at(cv2.GaussianBlur(small, (0, 0), 1.0), column, row)
    u, v = where[triangles[:, 1]] - where[triangles[:, 0]], where[triangles[:, 2]] - where[triangles[:, 0]]
    seen = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] > 0
    weight = _skin() * _at(plain[..., None], column, row)[:, 0] * np.clip((-normal[:, 2] - 0.1) / 0.3, 0, 1)
    return fit_light(colours, normal, np.asarray(weight * inside * seen, np.float32))


def to_linear(srgb: FloatArray) -> FloatArray:
    """sRGB 0–1 → linear light (IEC 61966-2-1)."""
    low = srgb / 12.92
    return np.where(srgb <= 0.04045, low, ((np.maximum(srgb, 0.04045) + 0.055) / 1.055) ** 2.4).astype(np.float32)


def to_srgb(linear: FloatArray) -> FloatArray:
    """Linear light → sRGB, clipped to 0–1."""
    linear = np.clip(linear, 0, 1)
    bent = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, bent).astype(np.float32)


def _first_lamp(luma: DoubleArray, normals: DoubleArray, trust: DoubleArray) -> DoubleArray:
    """(3,) unit vector of the lamp, of `DIRECTIONS`, that together with even light explains most."""
    height = np.linspace(-1, 1, DIRECTIONS)
    around = np.arange(DIRECTIONS) * np.pi * (3 - np.sqrt(5))  # Fibonacci's spiral
    ring = np.sqrt(1 - height * height)
    tried = np.stack([ring * np.cos(around), ring * np.sin(around), height], 1)
    tried = tried[tried[:, 2] <= BEHIND]
    lit = np.maximum(normals @ tried.T, 0)
    share = trust / max(float(trust.sum()), 1e-9)
    mean_lit, mean = share @ lit, float(share @ luma)
    both = (share * (luma - mean)) @ lit
    spread = np.maximum(share @ (lit * lit) - mean_lit**2, 1e-6)
    power = np.clip(both / spread, 0, mean / np.maximum(mean_lit, 1e-6))  # neither may be negative
    explained = 2 * power * both - power * power * spread
    return np.asarray(tried[int(explained.argmax())], np.float64)


def _better_lamp(luma: DoubleArray, normals: DoubleArray, trust: DoubleArray, vector: DoubleArray) -> DoubleArray:
    """(3,) a lamp's direction times its power, by least squares over what the given one lights."""
    lit = normals @ vector > 0
    terms = np.c_[np.ones(len(luma)), normals * lit[:, None]]
    weighted = terms * trust[:, None]
    found = np.linalg.solve(weighted.T @ terms + 1e-6 * np.eye(4) * trust.sum(), weighted.T @ luma)
    length = float(np.linalg.norm(found[1:]))
    return np.asarray(found[1:] if length > 1e-9 and found[3] <= BEHIND * length else vector, np.float64)


def _lamp_coefficients(even: DoubleArray, power: DoubleArray, vector: DoubleArray) -> DoubleArray:
    """(9, 3) of even light and one lamp: max(0, cos) ≈ 1/4 + cos / 2 + 5/32 (3 cos² − 1)."""
    x, y, z = vector / max(float(np.linalg.norm(vector)), 1e-12)
    # 3 (l·n)² − 1 in the terms of `basis`, whose last is 3 z² − 1.
    second = np.array([6 * x * y, 6 * y * z, 6 * x * z, 1.5 * (x * x - y * y), (3 * z * z - 1) / 2])
    shape = np.r_[1 / 4, np.array([x, y, z]) / 2, 5 / 32 * second]
    out = shape[:, None] * power
    out[0] += even
    return np.asarray(out, np.float64)


@cache
def _skin() -> FloatArray:
    """(898,) area of a triangle, in medians, where it is plain skin, falling to 0 at eyes, brows, lips and nostrils."""
    vertices = topology().vertices.astype(np.float64)
    features = sorted({i for ring in (*EYES, *BROWS, LIPS, MOUTH) for i in ring})
    away = np.linalg.norm(vertices[:, None] - vertices[features][None], axis=2).min(1)
    plain = np.clip((away - FEATURE / 2) / (FEATURE / 2), 0, 1)
    plain[[2, 98, 327, 97, 326, 20, 250, 60, 290, 75, 305, 238, 458, 79, 309]] = 0  # nostrils
    triangles = topology().triangles
    a, b, c = (vertices[triangles[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    weight = plain[triangles].min(1) * area / np.median(area)
    weight = np.minimum(weight, 4).astype(np.float32)
    weight.setflags(write=False)
    return np.asarray(weight, np.float32)


def _at(values: npt.NDArray[np.generic], column: FloatArray, row: FloatArray) -> FloatArray:
    """(N, C) of an (H, W, C) array at N places."""
    out = cv2.remap(
        np.asarray(values, np.float32), column[None], row[None], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(out, np.float32).reshape(len(column), -1)
