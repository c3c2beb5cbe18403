"""What InsightFace's Python package makes of a pack's files, written plainly from its public code's behaviour."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np

from tests.references.base import Array, File

ARCFACE = ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041))


def faces(files: dict[str, File], bgr: Array, size: tuple[int, int], threshold: float) -> list[dict[str, Any]]:
    """Every face, best score first."""
    found = []
    for box, score, points in detect(files["det_10g"], bgr, size, threshold):
        face: dict[str, Any] = {"bbox": box, "det_score": score, "kps": points}
        face["embedding"] = files["w600k_r50"](blob(norm_crop(bgr, points), 127.5, 127.5))[0][0]
        flat, matrix = cut(bgr, box, 192)
        out = files["2d106det"](blob(flat, 0, 1))[0][0].reshape(-1, 2)
        face["landmark_2d_106"] = back((out + 1) * 96, matrix)
        out = files["1k3d68"](blob(flat, 0, 1))[0][0].reshape(-1, 3)[-68:]
        face["landmark_3d_68"] = back(np.c_[(out[:, :2] + 1) * 96, out[:, 2] * 96], matrix)
        female, male, age = files["genderage"](blob(cut(bgr, box, 96)[0], 0, 1))[0][0]
        face["gender"], face["age"] = int(np.argmax((female, male))), int(np.round(age * 100))
        found.append(face)
    return found


def blob(bgr: Array, mean: float, std: float) -> Array:
    """1×3×H×W RGB."""
    height, width = bgr.shape[:2]
    return np.asarray(cv2.dnn.blobFromImage(bgr, 1 / std, (width, height), (mean, mean, mean), swapRB=True))


def look(file: File, bgr: Array, size: tuple[int, int]) -> tuple[list[Array], float]:
    """What the network gives for the picture, letterboxed at the top left; and the scale."""
    height, width = bgr.shape[:2]
    if height / width > size[1] / size[0]:
        rows, columns = size[1], int(size[1] / (height / width))
    else:
        columns = size[0]
        rows = int(columns * (height / width))
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    canvas[:rows, :columns] = cv2.resize(bgr, (columns, rows))
    return file(blob(canvas, 127.5, 128)), rows / height


def detect(file: File, bgr: Array, size: tuple[int, int], threshold: float) -> list[tuple[Array, float, Array]]:
    """Two anchors at each cell's corner, overlaps above 0.4 dropped."""
    outputs, scale = look(file, bgr, size)
    hits = []
    for level, stride in enumerate((8, 16, 32)):
        scores, sides, points = (outputs[level + 3 * kind].reshape(-1, n) for kind, n in enumerate((1, 4, 10)))
        for row in range(len(scores)):
            if scores[row, 0] >= threshold:
                x, y = row // 2 % (size[0] // stride) * stride, row // 2 // (size[0] // stride) * stride
                left, top, right, bottom = sides[row] * stride
                box = np.array([x - left, y - top, x + right, y + bottom]) / scale
                five = (points[row].reshape(5, 2) * stride + (x, y)) / scale
                hits.append((box, float(scores[row, 0]), five))
    hits.sort(key=lambda hit: -hit[1])
    kept: list[tuple[Array, float, Array]] = []
    for hit in hits:
        if all(overlap(hit[0], other[0]) <= 0.4 for other in kept):
            kept.append(hit)
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return float(width * height / (both - width * height))


def norm_crop(bgr: Array, points: Array) -> Array:
    """112×112, by the similarity that is nearest in the sense of least squares (Umeyama)."""
    source, target = np.asarray(points, np.float64), np.array(ARCFACE)
    a, b = source - source.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a / 5)
    sign = np.diag([1, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    turn = u @ sign @ vt
    scale = (s * sign.diagonal()).sum() / a.var(0).sum()
    matrix = np.c_[scale * turn, target.mean(0) - scale * turn @ source.mean(0)]
    return np.asarray(cv2.warpAffine(bgr, matrix, (112, 112), borderValue=0.0))


def cut(bgr: Array, box: Array, size: int) -> tuple[Array, Array]:
    """1.5 times the longer side of the box, its centre at the crop's half; the crop and the matrix to it."""
    scale = size / (max(box[2] - box[0], box[3] - box[1]) * 1.5)
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    matrix = np.array([[scale, 0, size / 2 - x * scale], [0, scale, size / 2 - y * scale]])
    return np.asarray(cv2.warpAffine(bgr, matrix, (size, size), borderValue=0.0)), matrix


def back(points: Array, matrix: Array) -> Array:
    """Crop pixels → picture pixels; z by the scale."""
    inverse = cv2.invertAffineTransform(matrix)
    flat = points[:, :2] @ inverse[:, :2].T + inverse[:, 2]
    return flat if points.shape[1] == 2 else np.c_[flat, points[:, 2] * math.hypot(*inverse[0, :2])]
