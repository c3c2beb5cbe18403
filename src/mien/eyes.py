"""Eyes for a swap: the source's iris and white, looking where the target looks, inside the target's lids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from mien.atlas import atlas
from mien.chart import chart_of
from mien.color import from_lab, to_lab
from mien.geometry import transform
from mien.identity_data import IdentityData
from mien.mesh import EYES, IRISES, POINTS, SURFACE, polygon_mask
from mien.texture import sample
from mien.types import Box, FloatArray

STRETCH = 1.35
"""A source's eye is stretched at most this much to fill a wider open one; beyond it, the target's eye stays."""
SURE = 0.6
"""Mean trust below the lids from which a source's eye is used."""
WHOLE, INNER = (1.0, 0.006), (0.7, 0.007)
"""How far up and down between the lids an eye is drawn, and the softness of its border over the face's extent: the
whole of a target's that stays, less of a source's, since lashes and edges of lids are the texture's."""
CHART, AROUND = 128, 1.8
"""Side of the grid on which a source's eye is unwrapped, and of its square over the eye's width."""
SHIFT = np.array([12, 6, 6], np.float32)
"""Largest change of L, a, b; eyes in deep shade would glow otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class EyeMap:
    """From a target's pixels to the source's for one eye."""

    to_source: FloatArray
    """(2, 3) to the pixels of the source's mesh."""
    fit: float
    """1 where the source's eye can stand in for the target's, 0 where the target's must stay."""


def eye_map(source: FloatArray, target: FloatArray, eye: int, of: int | None = None) -> EyeMap:
    """Align irises, not lids, so that gaze and roundness are the target's.

    Args:
        source, target: (478, 3) meshes in the pixels of their own pictures.
        eye: 0 image left, 1 image right.
        of: the source's eye that is put there, mirrored if it is the other one.
    """
    of = eye if of is None else of
    mirror = np.diag([1.0 if of == eye else -1.0, 1.0])
    s, t = _measure(source[:, :2] @ mirror, eye, of), _measure(target, eye, eye)
    # Iris radii agree between people within a few percent, but the landmarker's are noisy; lids' width is not.
    scale = s.width / max(t.width, 1e-3)
    stretch = max(1.0, (t.height / max(t.width, 1e-3)) / max(s.height / max(s.width, 1e-3), 1e-3))
    squeeze = s.axes.T @ np.diag([scale, scale / min(stretch, STRETCH)]) @ t.axes
    linear, shift = mirror @ squeeze, mirror @ (s.iris - squeeze @ t.iris)
    fit = np.clip((STRETCH + 0.3 - stretch) / 0.3, 0, 1) * np.clip((s.height / max(s.width, 1e-3) - 0.08) / 0.08, 0, 1)
    return EyeMap(np.c_[linear, shift].astype(np.float32), float(fit))


def uv_of(source: FloatArray, eye: int, at: FloatArray) -> FloatArray:
    """(H, W, 2) UV of (H, W, 2) pixels in and around one eye of a (478, 3) mesh."""
    matrix, uv = _eye_chart(np.ascontiguousarray(source, np.float32).tobytes(), eye)
    x, y = np.moveaxis(transform(at, matrix), 2, 0)
    found = cv2.remap(
        uv, np.ascontiguousarray(x), np.ascontiguousarray(y), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(found, np.float32)


@lru_cache(maxsize=64)
def _eye_chart(mesh: bytes, eye: int) -> tuple[FloatArray, FloatArray]:
    """(2, 3) from pixels of a mesh to a grid around one eye, and the grid's (CHART, CHART, 2) UV."""
    points = np.frombuffer(mesh, np.float32).reshape(POINTS, 3)
    lids = points[list(EYES[eye]), :2]
    scale = CHART / (AROUND * max(float(np.linalg.norm(lids[0] - lids[8])), 1e-3))
    shift = CHART / 2 - scale * lids.mean(0)
    matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], np.float32)
    chart = chart_of(transform(points[:SURFACE, :2], matrix), points[:SURFACE, 2], CHART, CHART)
    return matrix, chart.uv


def put_eyes(rgb: FloatArray, crop: FloatArray, mesh: FloatArray, identity: IdentityData, seen: FloatArray) -> None:
    """Put both eyes into `rgb` (H, W, 3), in place; where the source's will not do, the target's own.

    Args:
        crop: the target, (H, W, 3) 0–1.
        mesh: (478, 3) of the target, in the crop's pixels.
        seen: (H, W) 0–1, where nothing is in front of the target's face.
    """
    extent = float(np.ptp(mesh[:SURFACE, :2], axis=0).max())
    shown = _shown(identity)
    eyes = [eye for eye in (_look(crop, mesh, number, identity, extent, shown[number]) for number in (0, 1)) if eye]
    # One light for both, steadier than each its own.
    shifts = [eye.shift for eye in eyes if eye.shift is not None]
    fit = min((eye.fit for eye in eyes if eye.shift is not None), default=0.0)
    for eye in eyes:
        drawn, opening = crop[eye.part], eye.whole
        if eye.shift is not None:
            lab = eye.source + np.mean(shifts, axis=0, dtype=np.float32)
            lab[..., 0] = np.clip(lab[..., 0], 0, 100)
            share = fit * seen[eye.part]
            drawn = drawn + share[..., None] * (from_lab(lab) - drawn)
            opening = opening + share * (eye.inner - opening)
        rgb[eye.part] += opening[..., None] * (drawn - rgb[eye.part])


def _shown(identity: IdentityData) -> tuple[int | None, int | None]:
    """Which of the source's eyes stands in for either: its own, the other where hair or the pose hides it, or none."""
    lids = atlas(identity.trust.shape[0]).eyes
    each = lids.reshape(-1, 2)
    left, right = identity.trust.ravel() @ each > SURE * (np.ones(len(each), np.float32) @ each)
    return (0 if left else 1 if right else None), (1 if right else 0 if left else None)


@dataclass(frozen=True, slots=True, eq=False)
class _Opening:
    """One eye of the target, and the source's to put into it."""

    part: tuple[slice, slice]
    """Of the crop."""
    whole: FloatArray
    """(h, w) 0–1 where the target's eye is drawn if it stays."""
    inner: FloatArray
    """(h, w) 0–1 where the source's is."""
    source: FloatArray
    """(h, w, 3) Lab."""
    fit: float
    shift: FloatArray | None
    """(3,) Lab from the source's light to the target's; None where the target's own eye stays."""


def _look(
    crop: FloatArray, mesh: FloatArray, number: int, identity: IdentityData, extent: float, of: int | None
) -> _Opening | None:
    points = mesh[list(EYES[number]), :2]
    pad = 3 + 0.03 * extent
    low, high = np.floor(points.min(0) - pad).astype(int), np.ceil(points.max(0) + pad).astype(int) + 1
    box = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(crop.shape[1], crop.shape[0])
    if box.empty:
        return None
    part = np.s_[box.y0 : box.y1, box.x0 : box.x1]
    points = points - np.array([box.x0, box.y0], np.float32)
    whole, inner = (_opening(points, box, share, softness * extent) for share, softness in (WHOLE, INNER))
    chart, inside = eye_map(identity.mesh, mesh, number, of), whole > 0.5
    rows, columns = np.mgrid[box.y0 : box.y1, box.x0 : box.x1].astype(np.float32)
    at = transform(np.stack([columns, rows], axis=2), chart.to_source)
    uv = uv_of(identity.mesh, number if of is None else of, at)
    source = to_lab(np.clip(sample(identity.texture, uv, extent), 0, 1))
    shift = None
    if of is not None and chart.fit > 0 and inside.sum() >= 12:
        shift = np.clip(_white(to_lab(crop[part]), inside) - _white(source, inside), -SHIFT, SHIFT)
    return _Opening(part, whole, inner, source, chart.fit, shift)


def _white(lab: FloatArray, inside: npt.NDArray[np.bool_]) -> FloatArray:
    """Lab of the white, which tells the light: irises differ by person."""
    pixels = lab[inside]
    bright = pixels[pixels[:, 0] >= np.percentile(pixels[:, 0], 75)]
    return np.asarray(np.median(bright, axis=0), np.float32)


def _opening(points: FloatArray, box: Box, share: float, softness: float) -> FloatArray:
    """0–1 between the lids, or up to a share of the way to them; empty for a closed eye."""
    middle = (points + points[-np.arange(len(points))]) / 2
    nearer = np.asarray(middle + share * (points - middle), np.float32)
    mask = polygon_mask(nearer, box.width, box.height)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), max(0.6, softness)), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class _Eye:
    iris: FloatArray
    axes: FloatArray
    """(2, 2) rows: along the eye, down."""
    width: float
    height: float


def _measure(mesh: npt.NDArray[np.floating], eye: int, of: int) -> _Eye:
    """As the eye at `eye` in the picture, which is `of` of the mesh."""
    lids = mesh[list(EYES[of]), :2].astype(np.float64)
    outer, inner = lids[0], lids[8]
    along = inner - outer if eye == 0 else outer - inner
    width = float(np.linalg.norm(along))
    along = along / max(width, 1e-6)
    axes = np.array([along, [-along[1], along[0]]])
    height = float(np.ptp((lids - outer) @ axes[1]))
    return _Eye(mesh[IRISES[of][0], :2].astype(np.float64), axes, width, height)
