"""A face in UV space: unwrapped from a photo, fused over photos, its hidden parts filled from the other side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mien.atlas import Atlas, atlas
from mien.color import as_bytes, as_float, from_lab, robust_offset, smooth, to_lab
from mien.mesh import SURFACE, interpolate, rasterise, vertex_normals
from mien.pyramid import blend, reduce_to
from mien.types import ByteArray, FloatArray, Image

FACING = (0.02, 0.2)
"""Cosine to the viewer from which a texel begins to count, and from which it counts fully."""
DOUBT = 0.65
"""Probability of an occluder from which nothing of the face is seen."""
EDGE = 0.01
"""Softness of the border between what is trusted and what is not, as a share of the texture."""
SURER = 0.75
"""Like the doubt of `surface`, for the occluder's word alone on a forehead."""
OFF_TONE = (18.0, 30.0)
"""Distance in Lab from the skin around it at which skin begins to be doubted, and is not used."""
GAP = 0.07
"""Width of gaps that are filled from the skin around them, as a share of the texture."""
COARSE, FINE = 256, 512
"""Most pixels a side at which what is slow, and what is fine but not sharp, is made."""
WHOLE = 0.75
"""Mean trust around an eye below which all of it, brow included, is taken from the other side."""
SEEN = 0.9
"""Mean trust between the lids from which an eye is kept where its surroundings are mirrored."""
MIRROR = 0.7
"""How far a mirrored texel is trusted, compared with one that was seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Texture:
    """One photo's face, unwrapped."""

    rgb: FloatArray
    """(T, T, 3) 0–1."""
    trust: FloatArray
    """(T, T) 0–1: seen, facing the camera and not covered."""


def texture_size(mesh: FloatArray) -> int:
    """Texels per side that keep the photo's own resolution: 256, 512 or 1024."""
    extent = float(np.ptp(mesh[:SURFACE, :2], axis=0).max())
    return 256 if extent <= 220 else 512 if extent <= 560 else 1024


def unwrap(image: Image, mesh: FloatArray, masks: Mapping[str, FloatArray], size: int) -> Texture:
    """Unwrap the face of a crop.

    Args:
        image: crop that holds the face, RGB.
        mesh: (478, 3) in the crop's pixels.
        masks: class → (h, w) probabilities over the crop, at any resolution; see `surface`.
        size: texels per side of the result.
    """
    maps = atlas(size)
    extent = float(np.ptp(mesh[:SURFACE, :2], axis=0).max())
    scale = min(1.0, 1.1 * size / extent)
    if scale < 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    height, width = image.shape[:2]
    points = mesh[:SURFACE].astype(np.float32) * np.float32(scale)
    points[:, :2] += (scale - 1) / 2
    at = interpolate(maps.ids, maps.points, points)
    x, y = np.ascontiguousarray(at[..., 0]), np.ascontiguousarray(at[..., 1])
    rgb = np.asarray(cv2.remap(as_float(image), x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), np.float32)
    facing = interpolate(maps.ids, maps.points, -vertex_normals(points)[:, 2:])[..., 0]
    trust = np.clip((facing - FACING[0]) / (FACING[1] - FACING[0]), 0, 1) * maps.inside
    trust *= (x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)
    trust *= 1 - _hidden(at, points, (height, width), 0.06 * extent * scale)
    trust = np.asarray(cv2.erode(np.asarray(trust, np.float32), np.ones((5, 5), np.uint8)), np.float32)
    seen = _seen_surface(masks, maps, x / width, y / height)
    trust = trust * seen
    rgb = np.asarray(np.clip(rgb, 0, 1), np.float32)
    return _healed(rgb, np.asarray(trust * _plain(to_lab(rgb), trust, maps), np.float32), seen, maps)


def surface(
    masks: Mapping[str, FloatArray],
    beard: FloatArray,
    feature: FloatArray,
    forehead: FloatArray,
    doubt: float | FloatArray = DOUBT,
) -> FloatArray:
    """0–1: where the face itself is seen; hair in front, cloth, hands and glasses are 0, beard and brows 1.

    Args:
        masks: `skin`, `hair` and `clothes`, or `occluder`, or all four, each (H, W).
        beard, feature, forehead: the atlas's maps at the same pixels.
        doubt: probability of an occluder from which nothing of the face is seen.
    """
    seen = np.ones_like(beard)
    if "skin" in masks:
        skin, hair, clothes = masks["skin"], masks["hair"], masks["clothes"]
        seen = np.clip((np.clip(skin + hair * (1 - clothes) * beard, 0, 1) - 0.3) / 0.4, 0, 1)
        covered = np.clip(clothes + hair * (1 - beard), 0, 1)
        seen = np.maximum(seen, feature * (covered < 0.5))  # dark brows, lips and eyes are not called skin
    if "occluder" in masks:
        # Shine and wrinkles on a forehead are at times taken for hair: there the occluder needs a second
        # opinion or, where there is none, must be surer of itself.
        covered = masks["occluder"]
        if "skin" in masks:
            hidden = np.clip(np.maximum(masks["hair"] + masks["clothes"], 1 - masks["skin"]), 0, 1)
            covered = covered + forehead * (np.minimum(covered, hidden) - covered)
        else:
            doubt = np.asarray(doubt + forehead * (SURER - doubt), np.float32)
        seen = seen * np.clip((doubt - covered) / (0.5 * doubt), 0, 1)
    return np.asarray(seen, np.float32)


def sample(texture: FloatArray, uv: FloatArray, extent: float) -> FloatArray:
    """Read a (T, T[, C]) UV map at (H, W, 2) coordinates, without aliasing on a face of `extent` pixels."""
    level = reduce_to(texture, extent)
    at = uv * np.float32(level.shape[0] - 1)
    x, y = np.ascontiguousarray(at[..., 0]), np.ascontiguousarray(at[..., 1])
    how = cv2.INTER_CUBIC if texture.ndim == 3 else cv2.INTER_LINEAR
    return np.asarray(cv2.remap(level, x, y, how, borderMode=cv2.BORDER_REPLICATE), np.float32)


def fuse(textures: Sequence[Texture]) -> Texture:
    """One texture of several of the same size: each part from the photos that show it best.

    The others' light is brought to that of the photo that shows most; then what no photo shows is filled
    from the mirrored side, where that was seen.
    """
    size = textures[0].rgb.shape[0]
    maps, levels = atlas(size), int(np.log2(size)) - 4
    order = sorted(textures, key=lambda t: -float(t.trust.sum()))
    best = order[0]
    images = [best.rgb, *(_lit_like(t, best, maps) for t in order[1:])]
    weights = [t.trust**3 for t in order]
    rgb = np.clip(blend(images, weights, levels), 0, 1) if len(order) > 1 else best.rgb
    trust = np.max([t.trust for t in order], axis=0)
    return _mirrored(Texture(rgb, trust), maps, levels)


def _mirrored(seen: Texture, maps: Atlas, levels: int) -> Texture:
    size = maps.size
    other = Texture(np.ascontiguousarray(seen.rgb[:, ::-1]), np.ascontiguousarray(seen.trust[:, ::-1]))
    need = np.clip((0.5 - seen.trust) / 0.35, 0, 1) * np.clip(other.trust / 0.3, 0, 1)
    need = cv2.GaussianBlur(need.astype(np.float32), (0, 0), 0.015 * size) * np.clip(other.trust / 0.3, 0, 1)
    for socket, eye in zip(np.moveaxis(maps.sockets, 2, 0), np.moveaxis(maps.eyes, 2, 0), strict=True):
        # An eye with its brow comes from one side as a whole; two halves do not meet. What is seen of the eye itself
        # stays: it is cut out along the lids.
        own, mirrored = (float((t.trust * socket).sum() / socket.sum()) for t in (seen, other))
        whole = own < WHOLE and mirrored > own
        need = need + socket * (float(whole) - need)
        need = need * (1 - eye * float((seen.trust * eye).sum() > SEEN * eye.sum()))
    rgb = seen.rgb
    if need.max() > 0.05:
        rgb = blend([rgb, _lit_like(other, seen, maps)], [1 - need, need], levels)
    # A mirrored eye would look the wrong way: what is drawn between the lids is turned for that (see `eyes`).
    filled = MIRROR * other.trust * np.clip(2 * need, 0, 1) * (1 - maps.eyes.max(2))
    trust = np.maximum(seen.trust * (1 - need * (need > 0.9)), filled)
    trust = cv2.GaussianBlur(np.clip(trust / 0.5, 0, 1).astype(np.float32), (0, 0), EDGE * size)
    return Texture(np.clip(rgb, 0, 1).astype(np.float32), trust)


def _lit_like(texture: Texture, best: Texture, maps: Atlas) -> FloatArray:
    lab, side = to_lab(texture.rgb), min(maps.size, COARSE)
    # The light changes slowly: it is compared on a small picture.
    both = (lab, to_lab(best.rgb), texture.trust * best.trust * maps.skin)
    own, wanted, weight = (_scaled(part, side) for part in both)
    return from_lab(lab + _scaled(robust_offset(own, wanted, weight, 0.08 * side), maps.size))


def _seen_surface(masks: Mapping[str, FloatArray], maps: Atlas, x: FloatArray, y: FloatArray) -> FloatArray:
    """`surface` in UV space; x and y are each texel's place in the crop, 0–1."""
    sampled: dict[str, FloatArray] = {}
    for name, mask in masks.items():
        height, width = mask.shape
        at_x, at_y = (x * width - 0.5).astype(np.float32), (y * height - 0.5).astype(np.float32)
        # In the photo, not in UV, where a pixel at the side of the face is stretched: rims of glasses and
        # strands of hair have soft sides that would print as thin dark lines.
        grow = cv2.erode if name == "skin" else cv2.dilate
        grown = grow(np.asarray(mask, np.float32), np.ones((5, 5), np.uint8))
        found = cv2.remap(grown, at_x, at_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        sampled[name] = np.asarray(found, np.float32)
    seen = surface(sampled, maps.beard, maps.feature, maps.forehead)
    # A little inward, since the masks' borders are soft and a dark rim would print.
    return np.asarray(cv2.erode(seen, np.ones((max(3, round(0.012 * maps.size)),) * 2, np.uint8)), np.float32)


def _plain(lab: FloatArray, trust: FloatArray, maps: Atlas) -> FloatArray:
    """0–1: 0 near the outline on what is far off the skin's tone: hair and its shadow.

    Fine lines stay, and so does the middle of the face, where shade and shine are the face's own.
    """
    if maps.size > FINE:
        small = _plain(_scaled(lab, FINE), _scaled(trust, FINE), atlas(FINE))
        return _scaled(small, maps.size)
    weight = trust * maps.skin * (1 - maps.beard)
    around = smooth(lab, weight, 0.2 * maps.size)
    for _ in range(2):
        distance = np.sqrt(((lab - around) ** 2).sum(2)) / 8
        around = smooth(lab, weight / (1 + distance * distance), 0.12 * maps.size)
    away = cv2.GaussianBlur(lab - around, (0, 0), 0.012 * maps.size)
    odd = np.sqrt(away[..., 0] ** 2 + 2 * away[..., 1] ** 2 + 2 * away[..., 2] ** 2)
    odd *= np.clip(1 - away[..., 0] / 6, 0, 1)  # shine is lighter than the skin and belongs to it
    plain = np.clip((OFF_TONE[1] - odd) / (OFF_TONE[1] - OFF_TONE[0]), 0, 1).astype(np.float32)
    plain = np.asarray(cv2.erode(plain, np.ones((max(3, round(0.012 * maps.size)),) * 2, np.uint8)), np.float32)
    return np.asarray(1 - maps.skin * maps.rim * (1 - plain), np.float32)


def _healed(rgb: FloatArray, trust: FloatArray, seen: FloatArray, maps: Atlas) -> Texture:
    """Fill narrow gaps (a strand of hair, the rim of glasses) and all that is not seen with the skin around.

    What is not trusted must not leak into its neighbours when scales are mixed later.
    """
    size = rgb.shape[0]
    side = min(size, COARSE)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (round(GAP * side),) * 2)
    gap = np.maximum(trust, _scaled(cv2.morphologyEx(_scaled(trust, side), cv2.MORPH_CLOSE, kernel), size))
    # The colours next to what is hidden are those of soft borders and shadows: look a little further away.
    sure = np.asarray(cv2.erode(trust, np.ones((round(0.03 * size),) * 2, np.uint8)), np.float32) ** 2
    skin = smooth(rgb, sure, 0.06 * size)
    kept = np.clip((trust - 0.2) / 0.4, 0, 1)
    hole = _grown((gap - trust > 0.3) & (maps.skin > 0.5), 0.008 * size)
    if hole.any():
        # Telea, "An image inpainting technique based on the fast marching method", 2004. Nothing doubted may
        # serve as its source, so all of it nearby is drawn anew, though only the hole is used.
        doubted = _grown(trust < 0.6, 0.008 * size) & _grown(hole > 0, GAP * size)
        side = min(size, FINE)
        small = (_scaled(doubted.astype(np.float32), side) > 0).astype(np.uint8)
        joined = cv2.inpaint(as_bytes(_scaled(rgb, side)), small, 0.012 * side, cv2.INPAINT_TELEA)
        share = np.asarray(cv2.GaussianBlur(hole.astype(np.float32), (0, 0), 0.003 * size), np.float32)
        rgb = rgb + share[..., None] * (_scaled(as_float(joined), size) - rgb)
        kept = np.maximum(kept, share)
        trust = np.maximum(trust, MIRROR * gap * maps.skin * share)
    # Eyes, lips and nostrils cannot be made of skin; but what is in front of them is not theirs.
    features = cv2.erode(maps.inside, np.ones((7, 7), np.uint8)) * (1 - maps.skin) * seen
    kept = np.maximum(kept, features)
    skin = skin + kept[..., None] * (rgb - skin)
    return Texture(np.asarray(skin, np.float32), np.asarray(trust, np.float32))


def _scaled(values: Any, side: int) -> FloatArray:
    """(side, side[, C]) of a square map."""
    if len(values) == side:
        return np.asarray(values, np.float32)
    how = cv2.INTER_AREA if len(values) > side else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(values, (side, side), interpolation=how), np.float32)


def _grown(mask: npt.NDArray[np.bool_], by: float) -> ByteArray:
    return np.asarray(cv2.dilate(mask.astype(np.uint8), np.ones((2 * round(by) + 1,) * 2, np.uint8)), np.uint8)


def _hidden(at: FloatArray, points: FloatArray, shape: tuple[int, int], tolerance: float) -> FloatArray:
    """Texels that lie behind another part of the face: the far cheek behind the nose."""
    scale = min(1.0, 256 / max(shape))
    height, width = max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))
    small = np.ascontiguousarray(points[:, :2] * scale)
    ids = rasterise(small, points[:, 2], width, height)
    depth = interpolate(ids, small, np.ascontiguousarray(points[:, 2:]))[..., 0]
    depth[ids < 0] = np.float32(1e6)
    depth = np.asarray(cv2.dilate(depth, np.ones((3, 3), np.uint8)), np.float32)
    front = cv2.remap(depth, at[..., 0] * scale, at[..., 1] * scale, cv2.INTER_NEAREST)
    return np.asarray(at[..., 2] - front > tolerance, np.float32)
