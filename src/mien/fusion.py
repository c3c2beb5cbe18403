"""What the blending network (SwapGAN) is given of a face, and what its maps do to the full-size picture.

It sees an upright crop of `SIDE` pixels: the target, the source's texture drawn on the target's mesh, and where each
can be relied on. It answers with smooth maps, which are scaled up and applied to the texture at the target's own size.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from mien.atlas import atlas
from mien.chart import Chart, border, chart_of, mouth, resize, shifted, visible
from mien.classic import Blended
from mien.color import smooth
from mien.geometry import transform, warp
from mien.identity_data import IdentityData
from mien.mesh import SURFACE, upright_matrix
from mien.reshaping import Reshaped
from mien.texture import sample
from mien.types import FloatArray

SIDE = 128
"""Of the network's crop, in pixels."""
MARGIN = 1.35
"""Side of that crop over the extent of the mesh."""
SHINE = (0.06, 0.24)
"""Skin brighter than its surroundings by this counts as shine: where it is brightened much, and not at all."""
MATTE = 0.7
"""Share of the shine beyond that is taken off."""
AROUND = 6.0
"""Width of these surroundings, in pixels of the crop."""
INPUTS = ("target", "drawn", "mask", "seen", "trust", "skin")
OUTPUTS = ("gain", "bias", "share", "flow")


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One face as the network sees it."""

    matrix: FloatArray
    """(2, 3) from the crop's pixels to the network's."""
    target: FloatArray
    """(SIDE, SIDE, 3) 0–1."""
    drawn: FloatArray
    """(SIDE, SIDE, 3) 0–1: the source's texture on the target's mesh, in the source's light."""
    mask: FloatArray
    """(SIDE, SIDE) 0–1: rises from the mesh's outline; 0 in an open mouth."""
    seen: FloatArray
    """(SIDE, SIDE) 0–1: 0 where a masker found something in front of the face."""
    trust: FloatArray
    """(SIDE, SIDE) 0–1: how sure the texture is."""
    skin: FloatArray
    """(SIDE, SIDE) 0–1: plain skin, no features."""

    def planes(self) -> tuple[FloatArray, ...]:
        """(C, SIDE, SIDE) each, in the order of `INPUTS`."""
        images = (self.target, self.drawn)
        maps = (self.mask, self.seen, self.trust, self.skin)
        return (*(np.ascontiguousarray(i.transpose(2, 0, 1)) for i in images), *(m[None] for m in maps))


def view_of(target: Reshaped, identity: IdentityData) -> View:
    """What the network is given of one face."""
    matrix = upright_matrix(target.mesh, MARGIN, SIDE)
    points = np.concatenate([transform(target.mesh[:, :2], matrix), target.mesh[:, 2:]], axis=1)
    chart = chart_of(np.ascontiguousarray(points[:SURFACE, :2]), points[:SURFACE, 2], SIDE, SIDE)
    crop = np.asarray(warp(target.crop, matrix, SIDE, SIDE), np.float32)
    masks = target.masks
    if masks is not None:
        masks = {name: _onto(mask, target.crop.shape, matrix) for name, mask in masks.items()}
    inside = border(chart) * (1 - mouth(points, SIDE, SIDE, 0.006 * chart.extent))
    return View(
        matrix,
        crop,
        np.clip(sample(identity.texture, chart.uv, chart.extent), 0, 1),
        np.asarray(inside, np.float32),
        np.clip(visible(masks, chart), 0, 1),
        np.clip(sample(identity.trust, chart.uv, chart.extent), 0, 1),
        np.clip(sample(atlas(SIDE).skin, chart.uv, chart.extent), 0, 1),
    )


def blend(
    target: Reshaped, identity: IdentityData, view: View, maps: tuple[FloatArray, ...], skin_tone: float
) -> Blended:
    """Apply the network's maps at the crop's size.

    Args:
        maps: in the order of `OUTPUTS`, C×SIDE×SIDE each: log-gain (3) of the texture, bias (3), the texture's share
            (1), and flow (2), from a place to where the texture that belongs there was drawn, in pixels of the view.
        skin_tone: 0 keeps the target's, 1 takes the source's.
    """
    gain, bias, share, flow = (np.ascontiguousarray(values.transpose(1, 2, 0)) for values in maps)
    height, width = target.crop.shape[:2]
    if skin_tone > 0:
        weight = (view.mask * view.seen * view.trust * view.skin) > 0.3
        if weight.any():
            change = (view.drawn * (np.exp(gain) - 1) + bias)[weight]
            bias = bias - np.float32(skin_tone) * np.median(change, axis=0)
    bias = bias - _glare(view, gain, bias)[..., None]
    chart = target.chart
    # By way of the chart's grid: cubic, since maps are scaled up by much, which at the crop's size would cost more.
    onto = _from_grid(target, view.matrix)
    shown = np.clip(2 * share[..., 0] / np.maximum(view.mask, 1e-2), 0, 1)
    # What either of the masker and the network takes for something in front of the face stays there.
    kept = share * view.seen[..., None]
    joined = np.concatenate([np.exp(gain), bias, kept, np.minimum(view.seen, shown)[..., None]], axis=2)
    there = np.concatenate([_laid(part, onto, chart) for part in np.split(joined, 2, axis=2)], axis=2)
    there[..., 6] *= border(chart) > 0  # the mesh's outline is finer than the view
    drift = _laid(np.asarray(flow @ np.linalg.inv(onto[:, :2]).T, np.float32), onto, chart)
    uv = resize(shifted(chart, drift).uv, width, height)
    gain, bias = resize(there[..., :3], width, height), resize(there[..., 3:6], width, height)
    drawn = np.clip(sample(identity.texture, uv, target.extent), 0, 1)
    alpha, seen = (np.clip(resize(there[..., k], width, height), 0, 1) for k in (6, 7))
    return Blended(np.clip(drawn * gain + bias, 0, 1), alpha, seen)


def _from_grid(target: Reshaped, matrix: FloatArray) -> FloatArray:
    """(2, 3) to the view from the pixels of the chart's grid, by the one from those of the crop."""
    step = target.chart.width / target.crop.shape[1]
    shift = matrix @ np.array([0.5 / step - 0.5, 0.5 / step - 0.5, 1])
    return np.asarray(np.c_[matrix[:, :2] / step, shift], np.float32)


def _glare(view: View, gain: FloatArray, bias: FloatArray) -> FloatArray:
    """(SIDE, SIDE) what to take off highlights: the more a face is brightened, the less shine its skin can carry."""
    before, after = view.drawn.mean(2), np.clip(view.drawn * np.exp(gain) + bias, 0, 1).mean(2)
    ground, around = np.moveaxis(smooth(np.dstack([before, after]), view.mask, AROUND), 2, 0)
    limit = np.clip(SHINE[1] - 0.4 * (around - ground), *SHINE)
    return np.asarray(MATTE * view.skin * np.maximum(after - around - limit, 0), np.float32)


def _laid(values: FloatArray, onto: FloatArray, chart: Chart) -> FloatArray:
    """Maps of the view (at most four) on the chart's grid, by the matrix from the grid's pixels to the view's."""
    how = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    found = cv2.warpAffine(values, onto, (chart.width, chart.height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, np.float32)


def _onto(mask: FloatArray, shape: tuple[int, ...], matrix: FloatArray) -> FloatArray:
    """A mask of any size over a crop of `shape`, in the network's crop."""
    fx, fy = shape[1] / mask.shape[1], shape[0] / mask.shape[0]
    up = np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2], [0, 0, 1]], np.float32)
    return np.asarray(warp(mask, np.asarray(matrix @ up, np.float32), SIDE, SIDE), np.float32)
