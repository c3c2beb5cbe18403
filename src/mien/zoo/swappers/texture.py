"""The default swapper: the source's own texture, rendered on the target's mesh at the target's resolution.

No network. Mesh → UV map → texture → robust light transfer in CIELAB → soft alpha from the mesh, the
texture's trust and what lies in front of the target's face. Runs at any size, since everything but the
texture itself is a smooth map made on a small grid and scaled up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from mien.atlas import atlas
from mien.color import as_float, from_lab, robust_offset, smooth, to_lab
from mien.eyes import put_eyes
from mien.identity_data import IdentityData
from mien.mesh import MOUTH, SURFACE, interpolate, polygon_mask, rasterise, topology
from mien.runtime.session import Where
from mien.shape import neutral, reshape, transfer_strength
from mien.texture import sample, surface
from mien.types import ByteArray, Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import register

GRID = 256
"""Longest side of the grid on which the smooth maps are made."""
SIGMA = 0.22
"""Width of the light transfer, as a share of the face."""
FEATHER = (0.02, 0.05)
"""Width of the soft border along jaw and temples, and on the forehead, as a share of the face."""
STRENGTH = 1.15
"""Of the change of shape: a little more than all, since small and outer differences are held back."""
FOREHEAD = 0.4
"""v of the UV map above which the border begins to widen."""
LIGHT, TINT = 60.0, 30.0
"""Largest change of L and of a, b."""
REACH = 0.02
"""Largest correction of the alignment, as a share of the face."""
SHINE = (6.0, 24.0)
"""Detail brighter than this above its surroundings, in L, counts as shine: when brightening much, and not at all."""
OPEN = (0.04, 0.12)
"""Height over width of the mouth's inside at which the target's inside begins to show, and shows fully."""


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """A crop's small grid: what is smooth is made here."""

    width: int
    height: int
    extent: float
    """Side of the face in grid pixels."""
    inside: FloatArray
    """(h, w) 0/1 where the mesh is seen."""
    uv: FloatArray
    """(h, w, 2) 0–1, continued outside the mesh."""


@register(
    ModelCard("texture", "swapper", "Apache-2.0", True, "mien: mesh texture with classic fusion, no trained weights")
)
class TextureSwapper:
    """Swapper; see the module's text."""

    card: ModelCard
    template = None
    size = 0
    margin = 1.3
    needs_mask = True
    needs = SourceNeeds()

    def __init__(self, where: Where = "auto") -> None:
        pass  # no network, so no device

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, skin_tone: float,
    ) -> list[Patch]:  # fmt: skip
        """Render the identity on each crop."""
        return [
            _render(as_float(crop), face, mask, source.identity, skin_tone)
            for crop, face, mask in zip(crops, faces, masks, strict=True)
        ]


def _render(
    crop: FloatArray, face: Face, masks: Mapping[str, FloatArray] | None, identity: IdentityData, skin_tone: float
) -> Patch:
    strength = transfer_strength(identity.embedding, face.embedding)
    crop, mesh, masks, moved = _reshape(crop, face, masks, identity, strength)
    height, width = crop.shape[:2]
    grid = _grid(mesh, width, height)
    extent = float(np.ptp(mesh[:SURFACE, :2], axis=0).max())
    maps = atlas(256)
    trust, skin, *parts = (
        sample(m, grid.uv, grid.extent) for m in (identity.trust, maps.skin, maps.beard, maps.feature, maps.forehead)
    )
    seen = _soft(_visible(masks, parts, grid), grid)
    if strength < 1:
        grid = _settle(grid, crop, identity, trust * seen, REACH * (1 - strength))
    light, ground, contrast = _light(crop, identity, grid, trust * skin, masks, skin_tone)
    lab = to_lab(np.clip(sample(identity.texture, _resize(grid.uv, width, height), extent), 0, 1))
    lab -= _resize(ground, width, height)
    lab[..., 0] *= _resize(contrast, width, height)
    _matte(lab, _resize(light[..., 0] - ground[..., 0], width, height))
    lab += _resize(light, width, height)
    lab[..., 0] = np.clip(lab[..., 0], 0, 100)
    alpha = np.clip(_resize(_border(grid) * seen * np.clip(trust, 0, 1), width, height), 0, 1)
    mouth = _mouth(mesh, width, height, 0.006 * extent)
    rgb = crop + (alpha * (1 - mouth))[..., None] * (from_lab(lab) - crop)
    put_eyes(rgb, crop, mesh, identity, _resize(seen, width, height))
    changed = alpha > 1 / 512
    if moved is not None:
        changed |= moved
    return Patch(rgb.astype(np.float32), changed.astype(np.float32))


def _reshape(
    crop: FloatArray,
    face: Face,
    masks: Mapping[str, FloatArray] | None,
    identity: IdentityData,
    strength: float,
) -> tuple[FloatArray, FloatArray, Mapping[str, FloatArray] | None, npt.NDArray[np.bool_] | None]:
    """Move the target's features to where the source has them; crop, mesh, masks and which pixels moved."""
    own = face.shape
    if own is None and face.blendshapes is not None:
        own = neutral(face.mesh, face.blendshapes)
    if own is None or strength <= 0:
        return crop, face.mesh, masks, None
    mesh = reshape(face.mesh, own, identity.shape, STRENGTH * strength)
    height, width = crop.shape[:2]
    small = _small(width, height)
    points = _to_grid(mesh, small, width, height)
    ids = rasterise(points, mesh[:SURFACE, 2], *small)
    back = cv2.GaussianBlur(interpolate(ids, points, (face.mesh - mesh)[:SURFACE, :2]), (0, 0), 1.5)
    full = _resize(np.asarray(back, np.float32), width, height)
    warped = _displace(crop, full)
    if masks is not None:
        masks = {name: _displace_mask(mask, full) for name, mask in masks.items()}
    return warped, mesh, masks, np.maximum(np.abs(full[..., 0]), np.abs(full[..., 1])) > 1 / 64


def _displace(image: FloatArray, offset: FloatArray) -> FloatArray:
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]].astype(np.float32)
    moved = cv2.remap(
        image, columns + offset[..., 0], rows + offset[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(np.clip(moved, 0, 1), np.float32)


def _displace_mask(mask: FloatArray, offset: FloatArray) -> FloatArray:
    scale = np.array([mask.shape[1] / offset.shape[1], mask.shape[0] / offset.shape[0]], np.float32)
    return _displace(mask, _resize(offset, mask.shape[1], mask.shape[0]) * scale)


def _small(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, GRID / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _to_grid(mesh: FloatArray, small: tuple[int, int], width: int, height: int) -> FloatArray:
    scale = np.array([small[0] / width, small[1] / height], np.float32)
    return np.asarray((mesh[:SURFACE, :2] + 0.5) * scale - 0.5, np.float32)


def _grid(mesh: FloatArray, width: int, height: int) -> _Grid:
    small = _small(width, height)
    points = _to_grid(mesh, small, width, height)
    ids = rasterise(points, mesh[:SURFACE, 2], *small)
    inside = (ids >= 0).astype(np.float32)
    uv = interpolate(ids, points, topology().uv)
    uv = np.where(inside[..., None] > 0, uv, smooth(uv, inside, 2.0))
    return _Grid(*small, float(np.ptp(points, axis=0).max()), inside, uv.astype(np.float32))


def _settle(grid: _Grid, crop: FloatArray, identity: IdentityData, weight: FloatArray, reach: float) -> _Grid:
    """Take out what is left of the landmarker's error: a smooth shift of at most `reach` of the face.

    Only for two pictures of one person, whose features do correspond; a stranger's would be pulled to
    where the target has its own. Dense inverse search optical flow (Kroeger et al. 2016) between the two
    faces, their light evened out.
    """
    target = _small_lab(crop, grid)[..., 0]
    source = to_lab(np.clip(sample(identity.texture, grid.uv, grid.extent), 0, 1))[..., 0]
    weight = np.asarray(weight * grid.inside, np.float32)
    a, b = (_evened(x, weight, 0.06 * grid.extent) for x in (target, source))
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    moved = np.asarray(flow.calc(a, b, np.zeros((*a.shape, 2), np.float32)), np.float32)
    shift = smooth(moved, weight, 0.015 * grid.extent)
    length = np.linalg.norm(shift, axis=2, keepdims=True)
    shift *= (
        np.minimum(1, reach * grid.extent / np.maximum(length, 1e-6))
        * cv2.GaussianBlur(grid.inside, (0, 0), 3)[..., None]
    )
    rows, columns = np.mgrid[: grid.height, : grid.width].astype(np.float32)
    uv = cv2.remap(
        grid.uv, columns + shift[..., 0], rows + shift[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return replace(grid, uv=np.asarray(uv, np.float32))


def _evened(lightness: FloatArray, weight: FloatArray, sigma: float) -> ByteArray:
    """Lightness without slow changes, at equal contrast, as flow wants it."""
    flat = (lightness - smooth(lightness[..., None], weight, sigma)[..., 0]) * weight
    spread = np.sqrt(float((flat * flat).sum()) / max(float(weight.sum()), 1.0))
    return np.asarray(np.clip(128 + 40 * flat / max(spread, 1e-3), 0, 255), np.uint8)


def _visible(masks: Mapping[str, FloatArray] | None, parts: Sequence[FloatArray], grid: _Grid) -> FloatArray:
    if masks is None:
        return np.ones((grid.height, grid.width), np.float32)
    return surface({n: _resize(m, grid.width, grid.height) for n, m in masks.items()}, *parts)


def _soft(seen: FloatArray, grid: _Grid) -> FloatArray:
    """Drawn a little inward and softened, never beyond what is seen."""
    inner = cv2.GaussianBlur(cv2.erode(seen, np.ones((3, 3), np.uint8)), (0, 0), max(0.8, 0.008 * grid.extent))
    return np.minimum(seen, np.asarray(inner, np.float32))


def _border(grid: _Grid) -> FloatArray:
    """Rises from 0 at the mesh's outline to 1; the frame's own edge is no outline."""
    padded = cv2.copyMakeBorder(grid.inside.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    distance = cv2.distanceTransform(padded, cv2.DIST_L2, 5)[1:-1, 1:-1]
    # On the forehead there is skin on both sides, and a wide border shows least; at the jaw there is not.
    top = np.clip((FOREHEAD - grid.uv[..., 1]) / (0.5 * FOREHEAD), 0, 1)
    width = np.maximum(1.0, (FEATHER[0] + (FEATHER[1] - FEATHER[0]) * top) * grid.extent)
    ramp = np.clip(distance / width, 0, 1)
    return np.asarray(ramp * ramp * (3 - 2 * ramp), np.float32)


def _light(
    crop: FloatArray, identity: IdentityData, grid: _Grid, weight: FloatArray,
    masks: Mapping[str, FloatArray] | None, skin_tone: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Smooth Lab maps: the light to put on, the source's own to take off, and the contrast of L between them.

    Only plain skin that both faces show is compared, so neither brows, lips and beard nor what hides a
    face colour the result; outliers such as highlights are ignored.
    """
    if masks is not None:
        bare = np.ones_like(weight)
        if "skin" in masks:
            bare = np.clip((_resize(masks["skin"], grid.width, grid.height) - 0.5) * 4, 0, 1)
        if "occluder" in masks:
            bare *= np.clip(1 - 2 * _resize(masks["occluder"], grid.width, grid.height), 0, 1)
        weight = weight * bare
    weight = np.asarray(cv2.erode(weight * grid.inside, np.ones((3, 3), np.uint8)), np.float32)
    target = _small_lab(crop, grid)
    source = to_lab(np.clip(sample(identity.texture, grid.uv, grid.extent), 0, 1))
    sigma = SIGMA * grid.extent
    ground = smooth(source, weight, sigma)
    offset = robust_offset(source, target, weight, sigma)
    offset[..., 0] = np.clip(offset[..., 0], -LIGHT, LIGHT)
    offset[..., 1:] = np.clip(offset[..., 1:], -TINT, TINT)
    if skin_tone > 0 and (weight > 0.3).any():
        offset -= np.float32(skin_tone) * np.median(offset[weight > 0.3], axis=0)
    light = ground + offset
    # Equal reflectance means equal ratios of L + 16 (the cube root of luminance); pale skin made dark would
    # then be too hard, dark skin made pale too shiny, so go a little of the way.
    contrast = np.clip(np.sqrt(np.maximum(light[..., 0] + 16, 4) / (ground[..., 0] + 16)), 0.8, 1.15)
    return light, ground, np.asarray(contrast, np.float32)


def _small_lab(crop: FloatArray, grid: _Grid) -> FloatArray:
    """The crop on the grid, in Lab."""
    return to_lab(np.asarray(cv2.resize(crop, (grid.width, grid.height), interpolation=cv2.INTER_AREA), np.float32))


def _matte(detail: FloatArray, brightening: FloatArray) -> None:
    """Soften highlights of (H, W, 3) Lab detail in place: shine belongs to the source's light, not to its skin.

    The more a face is brightened (dark skin in pale light), the less shine it can carry without glaring.
    """
    limit = np.clip(SHINE[1] - 0.4 * brightening, *SHINE)
    excess = detail[..., 0] > limit
    ratio = (limit[excess] + 0.3 * (detail[excess, 0] - limit[excess])) / detail[excess, 0]
    detail[excess] *= ratio[:, None]


def _mouth(mesh: FloatArray, width: int, height: int, softness: float) -> FloatArray:
    """1 inside an open mouth, where the target's teeth and tongue stay."""
    gap = np.linalg.norm(mesh[13, :2] - mesh[14, :2]) / max(float(np.linalg.norm(mesh[78, :2] - mesh[308, :2])), 1e-3)
    share = np.clip((gap - OPEN[0]) / (OPEN[1] - OPEN[0]), 0, 1)
    if share <= 0:
        return np.zeros((height, width), np.float32)
    inner = polygon_mask(mesh[list(MOUTH), :2], width, height)
    return np.asarray(share * cv2.GaussianBlur(inner, (0, 0), max(0.7, softness)), np.float32)


def _resize(values: FloatArray, width: int, height: int) -> FloatArray:
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
