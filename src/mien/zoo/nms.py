"""Non-maximum suppression, for detectors and for merging their results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mien.types import FloatArray


def iou(box: FloatArray, boxes: FloatArray) -> FloatArray:
    """(N,) intersection over union of one (4,) box with (N, 4) boxes, x0, y0, x1, y1."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.clip(high - low, 0, None).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (box[2:] - box[:2]).prod() - shared
    return np.asarray(shared / np.maximum(areas, 1e-9), np.float32)


def nms(boxes: FloatArray, scores: FloatArray, threshold: float = 0.4) -> npt.NDArray[np.intp]:
    """Indices of the boxes to keep, best score first: none overlaps a better one by more than `threshold`."""
    order = np.argsort(-scores, kind="stable")
    keep: list[int] = []
    while order.size:
        best, order = int(order[0]), order[1:]
        keep.append(best)
        order = order[iou(boxes[best], boxes[order]) <= threshold]
    return np.array(keep, np.intp)
