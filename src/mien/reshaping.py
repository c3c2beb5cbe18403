"""Moving a target's features to where the source has them, before the source's texture is drawn there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from mien.chart import Chart, chart_in, charted_in, resize
from mien.identity_data import IdentityData
from mien.mesh import SURFACE
from mien.shape import neutral, reshape
from mien.types import Face, FloatArray

NEAR = 0.02
"""How near to what covers a face it is not reshaped, as a share of its extent."""
STRENGTH = 1.15
"""Of the change of shape: a little more than all, since small and outer differences are held back."""


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """A target with the source's shape."""

    crop: FloatArray
    """(H, W, 3) 0–1."""
    mesh: FloatArray
    """(478, 3)."""
    chart: Chart
    """Of the mesh, on the usual grid over the crop."""
    masks: Mapping[str, FloatArray] | None
    moved: npt.NDArray[np.bool_] | None
    """(H, W) which pixels moved; None where none did."""

    @property
    def extent(self) -> float:
        """Side of the face in the crop's pixels."""
        return float(np.ptp(self.mesh[:SURFACE, :2], axis=0).max())


def reshaped(
    crop: FloatArray, face: Face, masks: Mapping[str, FloatArray] | None, identity: IdentityData, strength: float
) -> Reshaped:
    """The target's crop with its features where the source has them; its pose, expression and outline stay.

    Args:
        crop: (H, W, 3) 0–1.
        face: in the crop's pixels.
        masks: class → (h, w) over the crop.
        strength: 0 keeps the target's shape, 1 takes the source's.
    """
    own = face.shape
    if own is None and face.blendshapes is not None:
        own = neutral(face.mesh, face.blendshapes)
    height, width = crop.shape[:2]
    if own is None or strength <= 0:
        return Reshaped(crop, face.mesh, chart_in(face.mesh, width, height), masks, None)
    mesh = reshape(face.mesh, own, identity.shape, STRENGTH * strength)
    chart, moves = charted_in(mesh, width, height, (face.mesh - mesh)[:SURFACE, :2])
    back = cv2.GaussianBlur(moves, (0, 0), 1.5)
    if masks is not None and "occluder" in masks:
        back = back * _bare(masks["occluder"], chart)[..., None]
    full = resize(np.asarray(back, np.float32), width, height)
    warped = _displace(crop, full)
    if masks is not None:
        masks = {name: _displace_mask(mask, full) for name, mask in masks.items()}
    return Reshaped(warped, mesh, chart, masks, np.maximum(np.abs(full[..., 0]), np.abs(full[..., 1])) > 1 / 64)


def _bare(occluder: FloatArray, chart: Chart) -> FloatArray:
    """(h, w) 1 on the face, falling to 0 at what lies in front of it: that has a shape of its own."""
    reach = max(1, round(NEAR * chart.extent))
    cover = cv2.dilate(resize(occluder, chart.width, chart.height), np.ones((2 * reach + 1,) * 2, np.uint8))
    return np.asarray(1 - np.clip(cv2.GaussianBlur(cover, (0, 0), reach), 0, 1), np.float32)


def _displace(image: FloatArray, offset: FloatArray) -> FloatArray:
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]].astype(np.float32)
    moved = cv2.remap(
        image, columns + offset[..., 0], rows + offset[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(np.clip(moved, 0, 1), np.float32)


def _displace_mask(mask: FloatArray, offset: FloatArray) -> FloatArray:
    scale = np.array([mask.shape[1] / offset.shape[1], mask.shape[0] / offset.shape[0]], np.float32)
    return _displace(mask, resize(offset, mask.shape[1], mask.shape[0]) * scale)
