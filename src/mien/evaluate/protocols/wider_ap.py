"""Average precision as WIDER FACE's own evaluation code computes it (Yang et al., 2016; `eval_tools`).

Its ways, kept here: scores are stretched to 0–1 over the whole set and cut at 1000 levels; boxes have a pixel added to
their sides when overlaps are computed; each box goes to the face that it overlaps most; boxes of ignored faces count
neither for nor against; a second box of one face counts against; the curve is integrated under its upper envelope, as
PASCAL VOC does since 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int_]

LEVELS = 1000
OVERLAP = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What was found in one photo, the best first."""

    boxes: Array
    """(M, 4) x, y, width, height."""
    scores: Array
    """(M,) falling."""


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The faces of one photo."""

    boxes: Array
    """(N, 4) x, y, width, height."""
    counts: BoolArray
    """(N,) false for those that are ignored."""


def average_precision(found: Sequence[Found], truth: Sequence[Truth]) -> tuple[float, float]:
    """Average precision and the highest recall, both 0–1, over photos; NaN where no face counts."""
    faces = sum(int(each.counts.sum()) for each in truth)
    if not faces:
        return float("nan"), float("nan")
    precision, recall = curve(found, truth, faces)
    return area(precision, recall), float(recall.max())


def curve(found: Sequence[Found], truth: Sequence[Truth], faces: int) -> tuple[Array, Array]:
    """(LEVELS,) precision and recall, the strictest level first."""
    boxes, hits = np.zeros(LEVELS), np.zeros(LEVELS)
    levels = 1 - np.arange(1, LEVELS + 1) / LEVELS
    for photo, scores, known in zip(found, stretched(found), truth, strict=True):
        if not len(photo.boxes) or not len(known.boxes):
            continue
        counted, matched = match(photo.boxes, known)
        above = np.searchsorted(-scores, -levels, side="right")
        some = above > 0
        boxes[some] += counted[above[some] - 1]
        hits[some] += matched[above[some] - 1]
    return np.divide(hits, boxes, out=np.zeros(LEVELS), where=boxes > 0), hits / faces


def stretched(found: Sequence[Found]) -> list[Array]:
    """Scores of all photos from 0 to 1."""
    scores = np.concatenate([each.scores for each in found]) if found else np.zeros(0)
    if not len(scores):
        return [each.scores for each in found]
    low, span = scores.min(), np.ptp(scores)
    return [(each.scores - low) / span if span else np.ones_like(each.scores) for each in found]


def match(boxes: Array, truth: Truth) -> tuple[IntArray, IntArray]:
    """Of the first 1, 2, … boxes: how many count for or against, and how many faces they found; (M,) each.

    Args:
        boxes: (M, 4), the best first, M ≥ 1; `truth` has a face at least.
    """
    overlaps = overlap(boxes, truth.boxes)
    counted, new = np.ones(len(boxes), int), np.zeros(len(boxes), int)
    seen: set[int] = set()
    for place, face in enumerate(overlaps.argmax(1).tolist()):
        if overlaps[place, face] < OVERLAP:
            continue
        if not truth.counts[face]:
            counted[place] = 0
        elif face not in seen:
            seen.add(face)
            new[place] = 1
    return counted.cumsum(), new.cumsum()


def overlap(a: Array, b: Array) -> Array:
    """(M, N) intersection over union of (M, 4) and (N, 4) boxes, both ends of which are pixels."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    inside = np.maximum(high - low + 1, 0).prod(2)
    sizes = (a[:, 2:] + 1).prod(1)[:, None] + (b[:, 2:] + 1).prod(1)[None]
    return np.asarray(inside / (sizes - inside))


def area(precision: Array, recall: Array) -> float:
    """Under the upper envelope of a curve whose recall does not fall."""
    right = np.concatenate([[0], recall, [1]])
    height = np.concatenate([[0], precision, [0]])
    height = np.maximum.accumulate(height[::-1])[::-1]
    return float(((right[1:] - right[:-1]) * height[1:]).sum())
