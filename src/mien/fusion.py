"""What the blending network (SwapGAN) is given of a face, and what its maps do to the full-size picture.

It sees an upright crop of `SIDE` pixels: the target, the source's texture drawn on the target's mesh, and where each
can be relied on. It answers with smooth maps, which are scaled up and applied to the texture at the target's own size.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from mien.atlas import atlas
from mien.chart import Chart, border, chart_in, chart_of, mouth, resize, visible
from mien.classic import Blended
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
    target: Reshaped, identity: IdentityData, extent: float, view: View, maps: tuple[FloatArray, ...], skin_tone: float
) -> Blended:
    """Apply the network's maps at the crop's size.

    Args:
        extent: side of the face in the crop's pixels.
        maps: in the order of `OUTPUTS`: log-gain (3, SIDE, SIDE) of the texture, bias (3, …), the texture's share (1, …)
            and flow (2, …), pixels of the network's crop from a place to where the texture was drawn that belongs there.
        skin_tone: 0 keeps the target's, 1 takes the source's.
    """
    gain, bias, share, flow = (np.ascontiguousarray(values.transpose(1, 2, 0)) for values in maps)
    height, width = target.crop.shape[:2]
    if skin_tone > 0:
        weight = (view.mask * view.seen * view.trust * view.skin) > 0.3
        if weight.any():
            gain = gain - np.float32(skin_tone) * np.median(gain[weight], axis=0)
    chart = chart_in(target.mesh, width, height)
    uv = _displaced(chart, flow, view.matrix, width)
    drawn = np.clip(sample(identity.texture, resize(uv, width, height), extent), 0, 1)
    rgb = np.clip(
        drawn * _back(np.exp(gain), view.matrix, width, height) + _back(bias, view.matrix, width, height), 0, 1
    )
    alpha = np.clip(_back(share[..., 0], view.matrix, width, height), 0, 1)
    alpha *= resize(border(chart), width, height) > 0  # the mesh's outline is finer than the maps
    shown = share[..., 0] / np.maximum(view.mask, 1e-2)
    seen = _back(np.minimum(view.seen, np.clip(2 * shown, 0, 1)), view.matrix, width, height)
    return Blended(np.asarray(rgb, np.float32), np.asarray(alpha, np.float32), np.clip(seen, 0, 1))


def _displaced(chart: Chart, flow: FloatArray, matrix: FloatArray, width: int) -> FloatArray:
    """The chart's UV coordinates, each from where the flow says."""
    step = chart.width / width
    # From the network's crop to the chart's pixels.
    turn = np.linalg.inv(matrix[:, :2].astype(np.float64)) * step
    small = np.c_[matrix[:, :2] / step, matrix @ np.array([0.5 / step - 0.5, 0.5 / step - 0.5, 1])].astype(np.float32)
    shift = _back(np.asarray(flow @ turn.T.astype(np.float32), np.float32), small, chart.width, chart.height)
    rows, columns = np.mgrid[: chart.height, : chart.width].astype(np.float32)
    uv = cv2.remap(
        chart.uv, columns + shift[..., 0], rows + shift[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(uv, np.float32)


def _back(values: FloatArray, matrix: FloatArray, width: int, height: int) -> FloatArray:
    """Maps of the network's crop, over the whole crop: cubic, since they are scaled up by much."""
    how = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    found = cv2.warpAffine(values, matrix, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, np.float32)


def _onto(mask: FloatArray, shape: tuple[int, ...], matrix: FloatArray) -> FloatArray:
    """A mask of any size over a crop of `shape`, in the network's crop."""
    fx, fy = shape[1] / mask.shape[1], shape[0] / mask.shape[0]
    up = np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2], [0, 0, 1]], np.float32)
    return np.asarray(warp(mask, np.asarray(matrix @ up, np.float32), SIDE, SIDE), np.float32)
