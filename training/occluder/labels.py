"""What is known of a photo before anything is put on it: real hair, and photos sorted by eye."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from mien.mesh import BROWS, SURFACE
from training.occluder.crops import MASKS, STORED, Array

LIST = Path(__file__).with_name("known.txt")
BORDER = 3
"""Pixels of a MASKS grid by which the mesh's hull is grown: the network is also right just outside of it."""


def known() -> dict[str, frozenset[str]]:
    """Names of photos by what covers the face."""
    names: dict[str, set[str]] = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, listed = line.split(":")
            names.setdefault(kind, set()).update(listed.split())
    return {kind: frozenset(listed) for kind, listed in names.items()}


def hull(mesh: Array, border: int = BORDER) -> Array:
    """MASKS×MASKS 0/1 of the mesh's silhouette in a stored crop, grown by `border`."""
    points = cv2.convexHull(np.round(mesh[:SURFACE, :2] * (MASKS / STORED)).astype(np.int32))
    mask = np.zeros((MASKS, MASKS), np.uint8)
    cv2.fillConvexPoly(mask, points, 1)
    return cv2.dilate(mask, np.ones((2 * border + 1, 2 * border + 1), np.uint8)) if border else mask


def hair_label(mesh: Array, masks: Array, hat: bool) -> tuple[Array, Array]:
    """MASKS×MASKS label and weight (0–255) of a photo without occluders other than hair (and a hat).

    Hair is what hangs together with the hair above the brows; below the base of the nose it is a beard
    unless it lies at the sides, where it may be either and is left out.
    """
    scale = MASKS / STORED
    points = mesh[:, :2] * scale
    inside, grown = hull(mesh, 0).astype(bool), hull(mesh).astype(bool)
    skin, cover = masks[..., 0] / 255, masks[..., 1:].max(2) / 255
    rows, columns = np.mgrid[:MASKS, :MASKS]
    brow = points[list(BROWS[0]) + list(BROWS[1]), 1].min()
    eyes, base = points[[33, 263], 1].mean(), points[2, 1]
    _, pieces = cv2.connectedComponents((cover > 0.5).astype(np.uint8))
    above = np.unique(pieces[(rows < brow) & ~hull(mesh, 1).astype(bool)])
    hair = np.isin(pieces, above[above > 0]) & (skin < 0.5)
    left, right = points[:SURFACE, 0].min(), points[:SURFACE, 0].max()
    side = np.abs(columns - (left + right) / 2) > 0.3 * (right - left)
    hair &= (rows < base) | side
    weight = grown.astype(np.float32)
    unsure = (rows < brow) & ~hair & (skin < 0.5)
    unsure |= ~inside & ~hair & (skin < 0.5)
    unsure |= (rows > base) & side & (skin < 0.5)
    edge = cv2.dilate(hair.astype(np.uint8), np.ones((5, 5), np.uint8)) - cv2.erode(
        hair.astype(np.uint8), np.ones((3, 3), np.uint8)
    )
    weight[edge > 0] *= 0.25
    weight[(rows > eyes) & hair] *= 0.4
    weight[unsure] = 0
    if hat:
        weight[rows < brow + 2] = 0
    return (hair * 255).astype(np.uint8), (weight * 255).astype(np.uint8)


def from_prediction(mesh: Array, masks: Array, said: Array, kinds: frozenset[str]) -> tuple[Array, Array]:
    """Label and weight of a photo with real occluders from a first network's probabilities (MASKS×MASKS).

    Where the known kinds of occluder may be, its finds count fully and its silence little, since it misses more
    than it invents; elsewhere the photo is bare but for hair.
    """
    label, weight = hair_label(mesh, masks, "hats" in kinds)
    rows = np.mgrid[:MASKS, :MASKS][0]
    points = mesh[:, :2] * (MASKS / STORED)
    brow = points[list(BROWS[0]) + list(BROWS[1]), 1].min()
    zones = [("hats", rows < brow + 2, 0.3)]
    eyes = (rows > brow - 4) & (rows < points[4, 1])
    zones += [("glasses", eyes, 0.3), ("sunglasses", eyes, 0.0), ("others", rows >= 0, 0.2)]
    grown = hull(mesh) > 0
    for kind, zone, silence in zones:
        if kind in kinds:
            found, free = zone & grown & (said > 0.6), zone & grown & (said < 0.1)
            label[zone] = np.where(found, 255, 0)[zone]
            weight[zone] = (np.where(found, 1.0, np.where(free, silence, 0.0)) * 255).astype(np.uint8)[zone]
    return label, weight
