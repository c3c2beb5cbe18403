"""Eyes for a swap: the source's iris and white, looking where the target looks, inside the target's lids."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from mien.atlas import atlas
from mien.color import from_lab, to_lab
from mien.geometry import transform
from mien.identity_data import IdentityData
from mien.mesh import EYES, IRISES, SURFACE, polygon_mask, topology
from mien.texture import sample
from mien.types import Box, FloatArray

STRETCH = 1.35
"""A source's eye is stretched at most this much to fill a wider open one; beyond it, the target's eye stays."""
SURE = 0.6
"""Mean trust below the lids from which the source's eyes are used."""
SHIFT = np.array([12, 6, 6], np.float32)
"""Largest change of L, a, b; eyes in deep shade would glow otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class EyeMap:
    """From target pixels to the source's UV for one eye."""

    to_uv: FloatArray
    """(2, 3)."""
    fit: float
    """1 where the source's eye can stand in for the target's, 0 where the target's must stay."""


def eye_map(source: FloatArray, target: FloatArray, eye: int) -> EyeMap:
    """Align irises, not lids, so that gaze and roundness are the target's.

    Args:
        source, target: (478, 3) meshes in the pixels of their own pictures.
        eye: 0 image left, 1 image right.
    """
    s, t = _measure(source, eye), _measure(target, eye)
    # Iris radii agree between people within a few percent, but the landmarker's are noisy; lids' width is not.
    scale = s.width / max(t.width, 1e-3)
    stretch = max(1.0, (t.height / max(t.width, 1e-3)) / max(s.height / max(s.width, 1e-3), 1e-3))
    squeeze = s.axes.T @ np.diag([scale, scale / min(stretch, STRETCH)]) @ t.axes
    uv = topology().uv[list(EYES[eye])]
    lids = np.c_[source[list(EYES[eye]), :2], np.ones(len(uv))]
    affine = np.linalg.lstsq(lids, uv, rcond=None)[0].T
    linear = affine[:, :2] @ squeeze
    shift = affine[:, :2] @ (s.iris - squeeze @ t.iris) + affine[:, 2]
    fit = np.clip((STRETCH + 0.3 - stretch) / 0.3, 0, 1) * np.clip((s.height / max(s.width, 1e-3) - 0.08) / 0.08, 0, 1)
    return EyeMap(np.c_[linear, shift].astype(np.float32), float(fit))


def put_eyes(rgb: FloatArray, crop: FloatArray, mesh: FloatArray, identity: IdentityData, seen: FloatArray) -> None:
    """Put both eyes into `rgb` (H, W, 3), in place; where the source's will not do, the target's own.

    Args:
        crop: the target, (H, W, 3) 0–1.
        mesh: (478, 3) of the target, in the crop's pixels.
        seen: (H, W) 0–1, where nothing is in front of the target's face.
    """
    extent = float(np.ptp(mesh[:SURFACE, :2], axis=0).max())
    usable = _sees_both(identity)
    eyes = [eye for eye in (_look(crop, mesh, number, identity, extent, usable) for number in (0, 1)) if eye]
    # One light for both, steadier than each its own.
    shifts = [eye.shift for eye in eyes if eye.shift is not None]
    fit = min((eye.fit for eye in eyes if eye.shift is not None), default=0.0)
    for eye in eyes:
        drawn = crop[eye.part]
        if eye.shift is not None:
            lab = eye.source + np.mean(shifts, axis=0, dtype=np.float32)
            lab[..., 0] = np.clip(lab[..., 0], 0, 100)
            drawn = drawn + (fit * seen[eye.part])[..., None] * (from_lab(lab) - drawn)
        rgb[eye.part] += eye.opening[..., None] * (drawn - rgb[eye.part])


def _sees_both(identity: IdentityData) -> bool:
    """Whether the source shows both eyes; one of each person would be worse than the target's two."""
    lids = atlas(identity.trust.shape[0]).eyes
    shares = np.tensordot(identity.trust, lids, 2) / lids.sum((0, 1))
    return bool(shares.min() > SURE)


@dataclass(frozen=True, slots=True, eq=False)
class _Opening:
    """One eye of the target, and the source's to put into it."""

    part: tuple[slice, slice]
    """Of the crop."""
    opening: FloatArray
    """(h, w) 0–1 inside the lids."""
    source: FloatArray
    """(h, w, 3) Lab."""
    fit: float
    shift: FloatArray | None
    """(3,) Lab from the source's light to the target's; None where the target's own eye stays."""


def _look(
    crop: FloatArray, mesh: FloatArray, number: int, identity: IdentityData, extent: float, usable: bool
) -> _Opening | None:
    points = mesh[list(EYES[number]), :2]
    pad = 3 + 0.03 * extent
    low, high = np.floor(points.min(0) - pad).astype(int), np.ceil(points.max(0) + pad).astype(int) + 1
    box = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(crop.shape[1], crop.shape[0])
    if box.empty:
        return None
    part = np.s_[box.y0 : box.y1, box.x0 : box.x1]
    opening = _opening(points - np.array([box.x0, box.y0], np.float32), box, 0.006 * extent)
    chart, inside = eye_map(identity.mesh, mesh, number), opening > 0.5
    rows, columns = np.mgrid[box.y0 : box.y1, box.x0 : box.x1].astype(np.float32)
    uv = transform(np.stack([columns, rows], axis=2), chart.to_uv)
    source = to_lab(np.clip(sample(identity.texture, uv, extent), 0, 1))
    shift = None
    if usable and chart.fit > 0 and inside.sum() >= 12:
        shift = np.clip(_white(to_lab(crop[part]), inside) - _white(source, inside), -SHIFT, SHIFT)
    return _Opening(part, opening, source, chart.fit, shift)


def _white(lab: FloatArray, inside: npt.NDArray[np.bool_]) -> FloatArray:
    """Lab of the white, which tells the light: irises differ by person."""
    pixels = lab[inside]
    bright = pixels[pixels[:, 0] >= np.percentile(pixels[:, 0], 75)]
    return np.asarray(np.median(bright, axis=0), np.float32)


def _opening(points: FloatArray, box: Box, softness: float) -> FloatArray:
    """0–1 inside the lids; empty for a closed eye."""
    mask = polygon_mask(points, box.width, box.height)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), max(0.6, softness)), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class _Eye:
    iris: FloatArray
    axes: FloatArray
    """(2, 2) rows: along the eye, down."""
    width: float
    height: float


def _measure(mesh: FloatArray, eye: int) -> _Eye:
    lids = mesh[list(EYES[eye]), :2].astype(np.float64)
    outer, inner = lids[0], lids[8]
    along = inner - outer if eye == 0 else outer - inner
    width = float(np.linalg.norm(along))
    along = along / max(width, 1e-6)
    axes = np.array([along, [-along[1], along[0]]])
    height = float(np.ptp((lids - outer) @ axes[1]))
    return _Eye(mesh[IRISES[eye][0], :2].astype(np.float64), axes, width, height)
