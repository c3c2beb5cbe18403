"""Detectors: a frame in, boxes, scores and five points in its pixels out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tests.references.base import Array, File

STRIDES = (8, 16, 32)
MEANS_BGR = (104.0, 117.0, 123.0)


class Hit(NamedTuple):
    """One face that a network tells of, in its input's pixels."""

    score: float
    box: tuple[float, float, float, float]
    points: tuple[tuple[float, float], ...]
    anchor: tuple[int, int]
    """Stride of its cell, and which anchor of the cell it is."""


class Facts(NamedTuple):
    """What a detector is fed with, and how it is read."""

    decode: str
    order: str
    mean: tuple[float, float, float]
    std: float


SCRFD = Facts("scrfd", "RGB", (127.5, 127.5, 127.5), 128)
RAW = (0.0, 0.0, 0.0)
FACTS = {
    "yunet": Facts("yunet", "BGR", RAW, 1),
    "yunet_2023mar": Facts("yunet", "BGR", RAW, 1),
    **dict.fromkeys(("scrfd_500m", "scrfd_2.5g", "scrfd_10g", "retinaface_10g"), SCRFD),
    "retinaface_mnet025": Facts("retinaface", "BGR", MEANS_BGR, 1),
    "retinaface_resnet50": Facts("retinaface", "BGR", MEANS_BGR, 1),
    "yolov8n_face": Facts("yolov8", "RGB", RAW, 255),
    "yolov5_face": Facts("yolov5", "RGB", RAW, 255),
    "s3fd": Facts("s3fd", "BGR", MEANS_BGR, 1),
}


def tensor(facts: Facts, canvas: Array) -> Array:
    """H×W×3 RGB uint8 → 1×3×H×W."""
    pixels = canvas.astype(np.float64)
    if facts.order == "BGR":
        pixels = pixels[:, :, ::-1]
    out = np.zeros((1, 3, *canvas.shape[:2]), np.float32)
    for channel in range(3):
        out[0, channel] = (pixels[:, :, channel] - facts.mean[channel]) / facts.std
    return out


def scrfd(outputs: Sequence[Array], width: int) -> Iterator[Hit]:
    """Distances in cells from the corner of the cell to the box's sides; two anchors in each cell."""
    for level, stride in enumerate(STRIDES):
        scores, boxes, points = (
            outputs[level + 3 * kind].reshape(-1, wide).tolist() for kind, wide in enumerate((1, 4, 10))
        )
        across = width // stride
        for row, score in enumerate(scores):
            x, y = (row // 2) % across * stride, (row // 2) // across * stride
            left, top, right, bottom = (v * stride for v in boxes[row])
            five = tuple((x + points[row][2 * i] * stride, y + points[row][2 * i + 1] * stride) for i in range(5))
            yield Hit(score[0], (x - left, y - top, x + right, y + bottom), five, (stride, row % 2))


def yunet(outputs: Sequence[Array], width: int) -> Iterator[Hit]:
    """Offsets in cells from the corner of the cell; logs of the sizes; the geometric mean of two scores."""
    for level, stride in enumerate(STRIDES):
        cls, obj, box, kps = (outputs[level + 3 * kind][0].tolist() for kind in range(4))
        across = width // stride
        for cell in range(len(cls)):
            x, y = cell % across, cell // across
            cx, cy = (x + box[cell][0]) * stride, (y + box[cell][1]) * stride
            w, h = math.exp(box[cell][2]) * stride, math.exp(box[cell][3]) * stride
            five = tuple(((x + kps[cell][2 * i]) * stride, (y + kps[cell][2 * i + 1]) * stride) for i in range(5))
            score = math.sqrt(min(max(cls[cell][0], 0), 1) * min(max(obj[cell][0], 0), 1))
            yield Hit(score, (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), five, (stride, 0))


def _face(logits: Sequence[float]) -> float:
    """The second of two logits as a probability."""
    return 1 / (1 + math.exp(logits[0] - logits[1]))


def _prior_box(x: float, y: float, size: float, loc: Sequence[float]) -> tuple[float, float, float, float]:
    """Variances 0.1 for the centre and 0.2 for the logs of the sides."""
    cx, cy = x + loc[0] * 0.1 * size, y + loc[1] * 0.1 * size
    w, h = size * math.exp(loc[2] * 0.2), size * math.exp(loc[3] * 0.2)
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def retinaface(outputs: Sequence[Array], width: int, height: int, sizes: Sequence[Sequence[int]]) -> Iterator[Hit]:
    """Priors row by row, two sizes at the middle of each cell."""
    loc, conf, landm = (output[0].tolist() for output in outputs)
    i = 0
    for stride, pair in zip(STRIDES, sizes, strict=True):
        for row in range(math.ceil(height / stride)):
            for column in range(math.ceil(width / stride)):
                for size in pair:
                    x, y = (column + 0.5) * stride, (row + 0.5) * stride
                    five = tuple(
                        (x + landm[i][2 * j] * 0.1 * size, y + landm[i][2 * j + 1] * 0.1 * size) for j in range(5)
                    )
                    yield Hit(_face(conf[i]), _prior_box(x, y, size, loc[i]), five, (stride, size))
                    i += 1
    assert i == len(loc)


def yolov8(outputs: Sequence[Array]) -> Iterator[Hit]:
    """Columns of centre, size, score and five times x, y, visibility."""
    for row, (cx, cy, w, h, score, *rest) in enumerate(outputs[0][0].T.tolist()):
        five = tuple((rest[3 * i], rest[3 * i + 1]) for i in range(5))
        stride = 8 if row < 6400 else 16 if row < 8000 else 32
        yield Hit(score, (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), five, (stride, 0))


def yolov5(outputs: Sequence[Array]) -> Iterator[Hit]:
    """Rows of centre, size, objectness, five times x, y, and the score of the only class."""
    for row, (cx, cy, w, h, objectness, *rest) in enumerate(outputs[0][0].tolist()):
        five = tuple((rest[2 * i], rest[2 * i + 1]) for i in range(5))
        stride = 8 if row < 19200 else 16 if row < 24000 else 32
        yield Hit(objectness * rest[10], (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), five, (stride, row % 3))


def s3fd(outputs: Sequence[Array]) -> Iterator[Hit]:
    """Boxes of four strides at the middle of each cell; there are no points."""
    for level in range(6):
        stride = 4 * 2**level
        cls, reg = outputs[2 * level][0], outputs[2 * level + 1][0]
        rows, columns = cls.shape[1:]
        pairs, offsets = cls.reshape(2, -1).T.tolist(), reg.reshape(4, -1).T.tolist()
        for row in range(rows):
            for column in range(columns):
                x, y = (column + 0.5) * stride, (row + 0.5) * stride
                cell = row * columns + column
                yield Hit(_face(pairs[cell]), _prior_box(x, y, 4 * stride, offsets[cell]), (), (stride, 0))


SIZES = {
    "retinaface_mnet025": ((10, 20), (32, 64), (128, 256)),
    "retinaface_resnet50": ((16, 32), (64, 128), (256, 512)),
}


def decode(name: str, outputs: Sequence[Array], width: int, height: int) -> list[Hit]:
    """All that the network tells of an input of width × height."""
    kind = FACTS[name].decode
    if kind == "scrfd":
        return list(scrfd(outputs, width))
    if kind == "yunet":
        return list(yunet(outputs, width))
    if kind == "retinaface":
        return list(retinaface(outputs, width, height, SIZES[name]))
    return list({"yolov8": yolov8, "yolov5": yolov5, "s3fd": s3fd}[kind](outputs))


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return w * h / (sum(areas) - w * h)


def best_first(hits: Sequence[Hit], min_score: float, limit: float = 0.4) -> list[Hit]:
    """Those that reach a score, without those that overlap a better one."""
    kept: list[Hit] = []
    for hit in sorted((hit for hit in hits if hit.score >= min_score), key=lambda hit: -hit.score):
        if all(overlap(hit.box, other.box) <= limit for other in kept):
            kept.append(hit)
    return kept


def canvas_of(name: str, file: File, image: Array) -> Array:
    """The frame on black, at the top left of the square that the input is fixed to, else of the next whole cells.

    For frames that need no scaling.
    """
    side, whole = side_of(file), 64 if name == "s3fd" else 32
    height, width = (side or math.ceil(length / whole) * whole for length in image.shape[:2])
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[: image.shape[0], : image.shape[1]] = image
    return canvas


def detect(name: str, file: File, image: Array) -> list[Hit]:
    """All hits of a frame that needs no scaling."""
    canvas = canvas_of(name, file, image)
    return decode(name, file(tensor(FACTS[name], canvas)), canvas.shape[1], canvas.shape[0])


def side_of(file: File) -> int:
    """Of the square that the file's input is fixed to; 0 where it is free."""
    size = file.shapes[0][2]
    return size if isinstance(size, int) else 0
