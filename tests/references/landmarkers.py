"""Landmarkers, the blendshape model, and sex and age: crops or points in, points or numbers out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.references.base import IMAGENET, Array, File, planes


class Facts(NamedTuple):
    """How the crop is cut out."""

    size: int
    points: int
    dimensions: int
    crop: str
    margin: float
    shift: float = 0.0


FACTS = {
    "mesh478": Facts(256, 478, 3, "mesh", 1.5),
    "2dfan4": Facts(256, 68, 2, "bbox", 256 / 195),
    "peppa_wutz": Facts(256, 68, 2, "bbox", 256 / 195),
    "2d106det": Facts(192, 106, 2, "bbox", 1.5),
    "1k3d68": Facts(192, 68, 3, "bbox", 1.5),
    "pipnet_98": Facts(256, 98, 2, "bbox", 1.0, 0.1),
}


def mesh478(file: File, crop: Array) -> tuple[Array, float]:
    """Crop pixels, the network counting from the crop's edge; presence."""
    points, presence, _ = file(crop[None].astype(np.float32) / np.float32(255))
    mesh = points.reshape(478, 3).astype(np.float64)
    mesh[:, 0] -= 0.5
    mesh[:, 1] -= 0.5
    return mesh, 1 / (1 + np.exp(-float(presence.ravel()[0])))


def fan(file: File, crop: Array) -> tuple[Array, float]:
    """2DFAN-4: a grid of 64 over 256 pixels; the mean of the heatmaps' maxima."""
    landmarks, heatmaps = file(planes(crop))
    points = np.array([[landmarks[0, i, 0] * 4, landmarks[0, i, 1] * 4] for i in range(68)])
    return points, float(np.mean([heatmaps[0, i].max() for i in range(68)]))


def peppa(file: File, crop: Array) -> tuple[Array, float]:
    """68 × (x, y, score) on a grid of 64."""
    (out,) = file(planes(crop))
    triples = out.reshape(68, 3)
    return np.array([[x * 4, y * 4] for x, y, _ in triples]), float(triples[:, 2].mean())


def insightface(file: File, crop: Array, count: int, dimensions: int) -> Array:
    """2d106det and 1k3d68: the last `count` points; −1–1 over the crop's 192 pixels, z on the same scale about 0."""
    (out,) = file(planes(crop, top=1))
    points = out.reshape(-1, dimensions)[-count:].astype(np.float64)
    points[:, :2] += 1
    return points * 96


def pipnet(file: File, crop: Array, neighbours: Array) -> tuple[Array, float]:
    """98 points, each the mean of what its own maps say and of what others say whose neighbour it is.

    `neighbours`: 98×10, each point's nearest, nearest first. As the authors' code has it, the votes of others are
    written down eleven times over, and the first 17 of them count: as many as the point with the most has.
    """
    cls, dx, dy, nx, ny = (out[0] for out in file(planes(crop, *IMAGENET)))
    own: list[Array] = []
    votes: list[list[Array]] = [[] for _ in range(98)]
    for i in range(98):
        row, column = np.unravel_index(cls[i].argmax(), (8, 8))
        own.append(np.array([column + dx[i, row, column], row + dy[i, row, column]]))
        for j, neighbour in enumerate(neighbours[i]):
            k = 10 * i + j
            votes[neighbour].append(np.array([column + nx[k, row, column], row + ny[k, row, column]]))
    most = max(len(each) for each in votes)
    points = [np.mean([own[i], *(votes[i] * 11)[:most]], 0) for i in range(98)]
    return np.array(points) * 32, float(np.mean([cls[i].max() for i in range(98)]))


def nearest(points: Array, count: int) -> Array:
    """Indices of each point's nearest others, nearest first."""
    found = []
    for point in points:
        order = np.argsort(((points - point) ** 2).sum(1), kind="stable")
        found.append(order[1 : 1 + count])
    return np.array(found)


NEIGHBOUR_OF = {
    0: ((1, 0), (2, 2), (3, 4), (4, 6), (5, 8), (33, 4)),
    9: ((4, 9), (5, 7), (6, 5), (7, 3), (8, 1), (10, 0), (11, 2), (12, 5)),
    53: ((51, 7), (52, 0), (54, 1), (55, 9), (56, 9), (57, 9), (59, 9)),
    60: (
        (0, 4), (1, 5), (2, 6), (3, 7), (4, 8), (33, 2), (34, 5), (41, 4), (61, 1), (62, 9), (66, 6), (67, 1), (96, 9),
    ),
    97: (
        (43, 7), (44, 7), (45, 9), (47, 8), (48, 7), (49, 7), (50, 8), (68, 4), (69, 3), (70, 0), (71, 3), (72, 4),
        (73, 3), (74, 0), (75, 2),
    ),
}  # fmt: skip
"""Rows of what PIPNet's authors derive from the mean face of WFLW: point → (point, place of the former in its ten)."""


REVERSED = "a2f635e44866fb5d1f1d65d9576688f7975afade480a5b9ab222bcddc2e4569f"
"""SHA-256 of their whole table of 98 × 17 votes, each 10 · point + place in little-endian uint16, made with their code
from their mean face with all its digits."""


def reversed_table(neighbours: Array) -> Array:
    """(98, 17) 10 · point + place of the votes that count for each point."""
    votes = [[int(i) * 10 + int(j) for i, j in np.argwhere(neighbours == point)] for point in range(98)]
    most = max(map(len, votes))
    return np.array([(each * 11)[:most] for each in votes], "<u2")


def genderage(file: File, crop: Array) -> tuple[float, float, float]:
    """Logits of female and male, and the age in years."""
    (out,) = file(planes(crop, top=1))
    return float(out[0, 0]), float(out[0, 1]), float(out[0, 2]) * 100


def blendshapes(file: File, mesh: Array, indices: Array) -> Array:
    """Scores of one mesh; its points are turned so that the eyes' corners are level, and are otherwise as given."""
    dx, dy = mesh[263, :2] - mesh[33, :2]
    angle = np.arctan2(dy, dx)
    cos, sin = np.cos(angle), np.sin(angle)
    turned = np.array([[x * cos + y * sin, -x * sin + y * cos] for x, y in mesh[:, :2]])
    (out,) = file(turned[indices][None].astype(np.float32))
    return out.ravel()
