"""How well a swap shows at its border: edges added, edges lost, and the colour of the rim.

The border is found where the output begins to differ from the target; what a swapper says of its own mask is not
asked. Both pictures are then compared along it in short pieces: within each, colours are averaged along the border
at each depth, so that skin and hair average out while a seam, which runs along the border, stays. An output that
equals its target scores 0 everywhere, and so does one whose colours all changed alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from mien.color import as_float, to_lab
from mien.evaluate.images import delta_e
from mien.geometry import invert, transform, warp
from mien.mesh import OVAL, polygon_mask, upright_matrix
from mien.types import ByteArray, FloatArray

DoubleArray = npt.NDArray[np.float64]
MaskArray = npt.NDArray[np.bool_]

SIZE, MARGIN = 512, 2.2
"""The upright square that is looked at: its side, and that over the mesh's extent."""
UNIT = SIZE / MARGIN / 100
"""Pixels of the square in 1 % of the mesh's extent, in which depths are told."""
THRESHOLD = 2.0
"""Change of a colour channel, of 255, from which a pixel counts as changed."""
SMALLEST = 0.005
"""Share of the face's area below which nothing was changed."""
WHOLE = 0.9
"""Share of the square from which all of it was changed, so that the mesh's outline takes the border's place."""
PIECE = 5
"""Length of a piece of the border."""
OUTSIDE, INSIDE = 3, 7
"""Depths over which edges are looked for."""
RIM_OUTSIDE, RIM_INSIDE = (-4, -1), (3, 8)
"""Depths over which the colours beside the border are averaged."""
FLOOR = 0.1
"""Edge energy that nobody sees, (Lab per 1 % of the extent)²."""
FEWEST = 3
"""Pixels that a mean needs."""


@dataclass(frozen=True, slots=True)
class Border:
    """What one swap's border looks like against the untouched picture."""

    seam: float
    """Edges added: mean over the border of ln(edge energy / the target's) where that is above 0."""
    softened: float
    """Edges lost: the same where it is below 0, as a positive number."""
    cast: float
    """CIEDE2000 between the rim's colour and what it would be had it changed as the surroundings did."""
    place: tuple[float, float] | None
    """x, y of the most visible piece in the picture's pixels; None where nothing was changed."""


def border(target: ByteArray, output: ByteArray, mesh: FloatArray) -> Border:
    """Compare the surroundings of a swap's border before and after.

    Args:
        target, output: (H, W, 3) RGB pictures of one size.
        mesh: (478, 3) of the target's face, in pixels.
    """
    matrix = upright_matrix(mesh, MARGIN, SIZE)
    before, after = (np.asarray(warp(image, matrix, SIZE, SIZE), np.uint8) for image in (target, output))
    seen = cv2.warpAffine(np.ones(target.shape[:2], np.float32), matrix, (SIZE, SIZE)) > 0.99
    outline = polygon_mask(transform(mesh[list(OVAL), :2], matrix), SIZE, SIZE) > 0
    region = changed_region(before, after, outline, np.asarray(seen, np.bool_))
    if region is None:
        return Border(0.0, 0.0, 0.0, None)
    pieces, depth, places = _along(region)
    usable = seen & ~_frame_edge()
    tables = [_profiles(to_lab(as_float(image)), pieces, depth, usable, len(places)) for image in (before, after)]
    ratio = _edges(*tables)
    known = np.isfinite(ratio)
    if not known.any():
        return Border(0.0, 0.0, 0.0, None)
    worst = places[int(np.where(known, ratio, -np.inf).argmax())]
    x, y = (float(v) for v in transform(worst[None], invert(matrix))[0])
    gain = ratio[known]
    return Border(float(np.maximum(gain, 0).mean()), float(np.maximum(-gain, 0).mean()), _cast(*tables), (x, y))


def changed_region(before: ByteArray, after: ByteArray, outline: MaskArray, seen: MaskArray) -> MaskArray | None:
    """The part of a picture that was changed, without holes; None where nothing was.

    Args:
        outline: where the face is: of several parts the one that covers most of it counts, and it stands for the
            region where the whole picture was changed.
        seen: pixels that the picture has.
    """
    change = np.abs(before.astype(np.float32) - after).max(2)
    change = np.where(seen, cv2.GaussianBlur(change, (0, 0), 1.0), 0)
    side = 2 * round(2 * UNIT) + 1
    round_kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    marked = cv2.morphologyEx((change > THRESHOLD).astype(np.uint8), cv2.MORPH_CLOSE, round_kernel)
    count, labels = cv2.connectedComponents(marked, connectivity=8)
    if count < 2:
        return None
    shares = np.bincount(labels[outline], minlength=count)
    shares[0] = 0
    chosen = int(shares.argmax())
    if shares[chosen] < SMALLEST * max(int(outline.sum()), 1):
        return None
    region = np.zeros(marked.shape, np.uint8)
    contours, _ = cv2.findContours((labels == chosen).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(region, contours, -1, 1, cv2.FILLED)
    if region[seen].mean() > WHOLE:
        return outline
    return np.asarray(region > 0, np.bool_)


def _along(region: MaskArray) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Each pixel's piece of the border, its depth (in % of the extent, positive inside), and the pieces' middles."""
    contours, _ = cv2.findContours(region.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    line = max(contours, key=len)[:, 0].astype(np.int64)
    count = max(1, round(len(line) / (PIECE * UNIT)))
    number = np.minimum(np.arange(len(line)) * count // len(line), count - 1)
    away = np.ones(region.shape, np.uint8)
    away[line[:, 1], line[:, 0]] = 0
    distance, nearest = cv2.distanceTransformWithLabels(away, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(int(nearest.max()) + 1, np.int64)
    table[nearest[line[:, 1], line[:, 0]]] = number
    places = np.stack([line[number == piece].mean(0) for piece in range(count)]).astype(np.float32)
    depth = np.where(region, distance, -distance) / UNIT
    return table[nearest], np.asarray(depth, np.float32), places


def _profiles(
    lab: FloatArray, pieces: npt.NDArray[np.int64], depth: FloatArray, usable: MaskArray, count: int
) -> DoubleArray:
    """(count, depths, 3) mean colour of each piece at each whole depth from `RIM_OUTSIDE` to `RIM_INSIDE`; NaN where
    too few pixels are."""
    first, depths = RIM_OUTSIDE[0], RIM_INSIDE[1] - RIM_OUTSIDE[0]
    level = np.floor(depth).astype(np.int64) - first
    chosen = usable & (level >= 0) & (level < depths)
    cell = pieces[chosen] * depths + level[chosen]
    pixels = np.bincount(cell, minlength=count * depths)
    sums = np.stack([np.bincount(cell, lab[..., c][chosen], count * depths) for c in range(3)], 1)
    means = np.where(pixels[:, None] >= FEWEST, sums / np.maximum(pixels[:, None], 1), np.nan)
    return np.asarray(means.reshape(count, depths, 3), np.float64)


def _edges(before: DoubleArray, after: DoubleArray) -> DoubleArray:
    """(count,) ln of the edge energy after over before; NaN for pieces that are not seen whole."""
    window = slice(-OUTSIDE - RIM_OUTSIDE[0], INSIDE - RIM_OUTSIDE[0])
    energy = [(np.diff(table[:, window], axis=1) ** 2).sum(2).mean(1) for table in (before, after)]
    return np.asarray(np.log((energy[1] + FLOOR) / (energy[0] + FLOOR)), np.float64)


def _cast(before: DoubleArray, after: DoubleArray) -> float:
    first = RIM_OUTSIDE[0]
    outer, inner = (slice(low - first, high - first) for low, high in (RIM_OUTSIDE, RIM_INSIDE))
    seen = np.isfinite(before).all((1, 2))
    if not seen.any():
        return 0.0
    expected = before[seen][:, inner].mean(1) + after[seen][:, outer].mean(1) - before[seen][:, outer].mean(1)
    return float(delta_e(after[seen][:, inner].mean(1), expected).mean())


def _frame_edge() -> MaskArray:
    """The square's outermost pixels."""
    edge = np.ones((SIZE, SIZE), np.bool_)
    edge[2:-2, 2:-2] = False
    return edge
