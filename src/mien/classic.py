"""The blend without a network: robust light transfer in CIELAB, and a soft border.

It is the baseline that the network is measured against, and what explains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from mien.atlas import atlas
from mien.chart import Chart, border, resize, shifted, visible
from mien.color import from_lab, robust_offset, smooth, to_lab
from mien.identity_data import IdentityData
from mien.reshaping import Reshaped
from mien.texture import sample
from mien.types import ByteArray, FloatArray

SIGMA = 0.22
"""Width of the light transfer, as a share of the face."""
LIGHT, TINT = 60.0, 30.0
"""Largest change of L and of a, b."""
REACH = 0.02
"""Largest correction of the alignment, as a share of the face."""
SHINE = (6.0, 24.0)
"""Detail brighter than this above its surroundings, in L, counts as shine: when brightening much, and not at all."""


@dataclass(frozen=True, slots=True, eq=False)
class Blended:
    """A face with the source's texture on it; eyes and an open mouth come after."""

    rgb: FloatArray
    """(H, W, 3) 0–1 of the texture in the target's light."""
    alpha: FloatArray
    """(H, W) 0–1: its share."""
    seen: FloatArray
    """(H, W) 0–1 where nothing is in front of the face."""


def blend(target: Reshaped, identity: IdentityData, strength: float, skin_tone: float) -> Blended:
    """Put the identity's texture into the target's light.

    Args:
        strength: 1 for two people, 0 for one: then the texture is aligned by what both pictures show.
        skin_tone: 0 keeps the target's, 1 takes the source's.
    """
    crop, masks = target.crop, target.masks
    height, width = crop.shape[:2]
    chart = target.chart
    maps = atlas(256)
    trust, skin = (sample(m, chart.uv, chart.extent) for m in (identity.trust, maps.skin))
    seen = _soft(visible(masks, chart), chart)
    if strength < 1:
        chart = _settle(chart, crop, identity, trust * seen, REACH * (1 - strength))
    light, ground, contrast = _light(crop, identity, chart, trust * skin, masks, skin_tone)
    lab = to_lab(np.clip(sample(identity.texture, resize(chart.uv, width, height), target.extent), 0, 1))
    lab -= resize(ground, width, height)
    lab[..., 0] *= resize(contrast, width, height)
    _matte(lab, resize(light[..., 0] - ground[..., 0], width, height))
    lab += resize(light, width, height)
    lab[..., 0] = np.clip(lab[..., 0], 0, 100)
    alpha = np.clip(resize(border(chart) * seen * np.clip(trust, 0, 1), width, height), 0, 1)
    return Blended(from_lab(lab), alpha, resize(seen, width, height))


def _settle(chart: Chart, crop: FloatArray, identity: IdentityData, weight: FloatArray, reach: float) -> Chart:
    """Take out what is left of the landmarker's error: a smooth shift of at most `reach` of the face.

    Only for two pictures of one person, whose features do correspond; a stranger's would be pulled to
    where the target has its own. Dense inverse search optical flow (Kroeger et al. 2016) between the two
    faces, their light evened out.
    """
    target = _small_lab(crop, chart)[..., 0]
    source = to_lab(np.clip(sample(identity.texture, chart.uv, chart.extent), 0, 1))[..., 0]
    weight = np.asarray(weight * chart.inside, np.float32)
    a, b = (_evened(x, weight, 0.06 * chart.extent) for x in (target, source))
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    moved = np.asarray(flow.calc(a, b, np.zeros((*a.shape, 2), np.float32)), np.float32)
    shift = smooth(moved, weight, 0.015 * chart.extent)
    length = np.linalg.norm(shift, axis=2, keepdims=True)
    shift *= (
        np.minimum(1, reach * chart.extent / np.maximum(length, 1e-6))
        * cv2.GaussianBlur(chart.inside, (0, 0), 3)[..., None]
    )
    return shifted(chart, shift)


def _evened(lightness: FloatArray, weight: FloatArray, sigma: float) -> ByteArray:
    """Lightness without slow changes, at equal contrast, as flow wants it."""
    flat = (lightness - smooth(lightness[..., None], weight, sigma)[..., 0]) * weight
    spread = np.sqrt(float((flat * flat).sum()) / max(float(weight.sum()), 1.0))
    return np.asarray(np.clip(128 + 40 * flat / max(spread, 1e-3), 0, 255), np.uint8)


def _soft(seen: FloatArray, chart: Chart) -> FloatArray:
    """Drawn a little inward and softened, never beyond what is seen."""
    inner = cv2.GaussianBlur(cv2.erode(seen, np.ones((3, 3), np.uint8)), (0, 0), max(0.8, 0.008 * chart.extent))
    return np.minimum(seen, np.asarray(inner, np.float32))


def _light(
    crop: FloatArray, identity: IdentityData, chart: Chart, weight: FloatArray,
    masks: Mapping[str, FloatArray] | None, skin_tone: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Smooth Lab maps: the light to put on, the source's own to take off, and the contrast of L between them.

    Only plain skin that both faces show is compared, so neither brows, lips and beard nor what hides a
    face colour the result; outliers such as highlights are ignored.
    """
    if masks is not None:
        bare = np.ones_like(weight)
        if "skin" in masks:
            bare = np.clip((resize(masks["skin"], chart.width, chart.height) - 0.5) * 4, 0, 1)
        if "occluder" in masks:
            bare *= np.clip(1 - 2 * resize(masks["occluder"], chart.width, chart.height), 0, 1)
        weight = weight * bare
    weight = np.asarray(cv2.erode(weight * chart.inside, np.ones((3, 3), np.uint8)), np.float32)
    target = _small_lab(crop, chart)
    source = to_lab(np.clip(sample(identity.texture, chart.uv, chart.extent), 0, 1))
    sigma = SIGMA * chart.extent
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


def _small_lab(crop: FloatArray, chart: Chart) -> FloatArray:
    """The crop on the chart, in Lab."""
    return to_lab(np.asarray(cv2.resize(crop, (chart.width, chart.height), interpolation=cv2.INTER_AREA), np.float32))


def _matte(detail: FloatArray, brightening: FloatArray) -> None:
    """Soften highlights of (H, W, 3) Lab detail in place: shine belongs to the source's light, not to its skin.

    The more a face is brightened (dark skin in pale light), the less shine it can carry without glaring.
    """
    limit = np.clip(SHINE[1] - 0.4 * brightening, *SHINE)
    excess = detail[..., 0] > limit
    ratio = (limit[excess] + 0.3 * (detail[excess, 0] - limit[excess])) / detail[excess, 0]
    detail[excess] *= ratio[:, None]
