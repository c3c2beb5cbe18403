"""What detectors share: a picture as their input, the grids their outputs lie on, and hits in the picture's pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mien.errors import ModelError
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.nms import nms
from mien.zoo.tensors import Network, require_finite

CAFFE_MEAN = (104.0, 117.0, 123.0)
"""Blue, green and red that nets trained from Caffe's VGG and ResNet weights take off."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A picture as a detector's input: shrunk or enlarged to fit, at the top left, black beyond it."""

    image: ByteArray
    """(H, W, 3) RGB."""
    scale: FloatArray
    """(2,) x and y of the picture over those of the input."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the input."""
        return self.image.shape[1], self.image.shape[0]


def fit(image: ByteArray, network: Network, multiple: int = 32) -> Fitted:
    """The H×W×3 RGB picture at the size that the network's one input N×3×H×W is fixed to.

    An input that is free gets the picture at its own size, its sides rounded up to the next `multiple`.
    """
    height, width = image.shape[:2]
    tall, wide = (-(-side // multiple) * multiple for side in (height, width))
    rows, columns = height, width
    fixed = network.inputs[0].shape[2:4]
    if isinstance(fixed[0], int) and isinstance(fixed[1], int):
        tall, wide = fixed[0], fixed[1]
        ratio = min(tall / height, wide / width)
        rows, columns = (max(1, min(room, round(side * ratio))) for room, side in ((tall, height), (wide, width)))
        method = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
        image = np.asarray(cv2.resize(image, (columns, rows), interpolation=method), np.uint8)
    canvas = np.zeros((tall, wide, 3), np.uint8)
    canvas[:rows, :columns] = image
    return Fitted(canvas, np.array([width / columns, height / rows], np.float32))


def minus_mean(image: ByteArray) -> FloatArray:
    """H×W×3 RGB → 1×3×H×W BGR minus 104, 117, 123."""
    return np.ascontiguousarray((image[:, :, ::-1] - np.array(CAFFE_MEAN, np.float32)).transpose(2, 0, 1)[None])


def corners(size: tuple[int, int], stride: int, per_cell: int = 1) -> FloatArray:
    """(cells · per_cell, 2) x and y of the top left of each cell in input pixels, row by row."""
    columns, rows = (-(-side // stride) for side in size)
    x, y = np.meshgrid(np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32))
    return np.asarray(np.repeat(np.stack([x, y], 2).reshape(-1, 2), per_cell, 0) * np.float32(stride), np.float32)


def check_cells(name: str, found: Sequence[int], wanted: Sequence[int]) -> None:
    """Refuse outputs that are of another input size than was given.

    Raises:
        ModelError: names the model.
    """
    if list(found) != list(wanted):
        text = ", ".join(map(str, found))
        raise ModelError(f"{name}: gave {text} cells, not {list(wanted)}; this file is not the model it is named after")


def face_of_two(pairs: FloatArray) -> FloatArray:
    """(N,) probability of *face* from (N, 2) background and face, which some exports give as logits and some do not.

    Rows that all lie in 0–1 and sum to 1 are probabilities; thousands of logits never do.
    """
    if ((pairs >= 0) & (pairs <= 1)).all() and (np.abs(pairs.sum(1) - 1) < 1e-3).all():
        return pairs[:, 1]
    return np.asarray(0.5 * (1 + np.tanh(0.5 * (pairs[:, 1] - pairs[:, 0]))), np.float32)


def from_priors(
    offsets: FloatArray, points: FloatArray, centres: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(K, 4) boxes and (K, 5, 2) points of (K, 4) and (K, 10) offsets from square priors, variances 0.1 and 0.2.

    `centres`: (K, 2), `sizes`: (K, 1), in pixels. Boxes become infinite where a network gave nonsense.
    """
    middle = centres + 0.1 * offsets[:, :2] * sizes
    with np.errstate(over="ignore"):
        half = sizes * np.exp(0.2 * offsets[:, 2:]) / 2
    places = centres[:, None] + 0.1 * points.reshape(len(points), 5, 2) * sizes[:, None]
    return np.concatenate([middle - half, middle + half], 1).astype(np.float32), places.astype(np.float32)


def centred(boxes: FloatArray) -> FloatArray:
    """Rows that begin with centre and size → (K, 4) x0, y0, x1, y1."""
    half = boxes[:, 2:4] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def detections(
    name: str, boxes: FloatArray, scores: FloatArray, points: FloatArray, scale: FloatArray, *, guessed: bool = False
) -> list[Detection]:
    """Hits in the picture's pixels, best first, each face once.

    Raises:
        ModelError: a box or point that is not finite; names the model.
    """
    require_finite(name, boxes, scores, points)
    boxes = np.asarray(boxes * np.tile(scale, 2), np.float32)
    points = np.asarray(points * scale, np.float32)
    return [Detection(boxes[i], float(scores[i]), points[i], guessed) for i in nms(boxes, scores)]
