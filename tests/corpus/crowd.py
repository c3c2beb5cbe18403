"""Faces in every state: many, small, large, turned, cut, covered, drawn."""

from __future__ import annotations

import cv2
import numpy as np

from mien.mesh import SURFACE, interpolate, rasterise
from mien.types import Face
from tests.corpus.scene import Array, Pixels, head, pattern
from tests.heads import turn

SIDE = 320
"""Side of a portrait on its own, pixels; its face is 164×234."""
EYES, NOSE, MOUTH = ((120, 104), (190, 104)), (155, 145), (155, 172)
"""Where they are in `portrait()`: x, y."""


def portrait(name: str = "male_036", ground: int = 480) -> Pixels:
    """(ground, ground, 3) RGB: a head of `SIDE` pixels in the middle of the pattern."""
    made = pattern(ground, ground).copy()
    at = (ground - SIDE) // 2
    made[at : at + SIDE, at : at + SIDE] = head(name, SIDE)
    return made


def grid(count: int, side: int = 64, columns: int = 20) -> tuple[Pixels, list[tuple[int, int, int, int]]]:
    """A crowd, and the tile of each of its heads: x0, y0, x1, y1."""
    columns = min(count, columns)
    rows = -(-count // columns)
    pitch = side + 16
    made = pattern(columns * pitch + 16, rows * pitch + 16).copy()
    names = ["male_036", "female_001", "male_009"]
    tiles = []
    for index in range(count):
        x, y = 16 + index % columns * pitch, 16 + index // columns * pitch
        made[y : y + side, x : x + side] = head(names[index % 3], side)
        tiles.append((x, y, x + side, y + side))
    return made, tiles


def tilted(degrees: float, ground: int = 480) -> tuple[Pixels, Array]:
    """The portrait turned clockwise by that much in a round window, and where that window is (bool)."""
    whole = portrait(ground=ground)
    middle = ((ground - 1) / 2, (ground - 1) / 2)
    turn = cv2.getRotationMatrix2D(middle, -degrees, 1.0)
    turned = cv2.warpAffine(whole, turn, (ground, ground), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    y, x = np.mgrid[:ground, :ground]
    window = np.hypot(x - middle[0], y - middle[1]) < SIDE / 2
    made = pattern(ground, ground).copy()
    made[window] = turned[window]
    return made, window


def turned_away(yaw: float, face: Face, ground: int = 480) -> Pixels:
    """The portrait's face, seen as if the head were turned about its vertical axis (degrees), before a dark cap.

    Args:
        face: the portrait's own, with its mesh.
    """
    assert face.mesh is not None
    whole, points = portrait(ground=ground), face.mesh[:SURFACE].astype(np.float64)
    middle = points.mean(0)
    spun = np.asarray((points - middle) @ turn(yaw=yaw).T + [ground / 2, ground / 2, 0], np.float32)
    made = pattern(ground, ground).copy()
    back = (int(ground / 2 - np.sign(yaw) * 50 * abs(np.sin(np.radians(yaw)))), ground // 2 - 30)
    cv2.ellipse(made, back, (105, 135), 0, 0, 360, (60, 42, 36), -1)
    ids = rasterise(np.ascontiguousarray(spun[:, :2]), spun[:, 2], ground, ground)
    place = interpolate(ids, np.ascontiguousarray(spun[:, :2]), np.ascontiguousarray(face.mesh[:SURFACE, :2]))
    seen = cv2.remap(whole, place[..., 0].astype(np.float32), place[..., 1].astype(np.float32), cv2.INTER_LINEAR)
    made[ids >= 0] = seen[ids >= 0]
    return made


def _mask(ground: int) -> Array:
    return np.zeros((ground, ground), np.uint8)


def covered(what: str, ground: int = 480) -> tuple[Pixels, Array]:
    """The portrait with something before the face, and where that is (bool)."""
    made, at = portrait(ground=ground), (ground - SIDE) // 2
    mask = _mask(ground)
    (lx, ly), (rx, ry) = ((x + at, y + at) for x, y in EYES)
    mx, my = MOUTH[0] + at, MOUTH[1] + at
    color: tuple[int, int, int] | Pixels
    if what == "sunglasses":
        color = (12, 12, 14)
        for x, y in ((lx, ly), (rx, ry)):
            cv2.ellipse(mask, (x, y + 4), (34, 26), 0, 0, 360, 1, -1)
        cv2.rectangle(mask, (lx, ly - 8), (rx, ry), 1, -1)
    elif what == "mask":
        color = (200, 220, 235)
        cv2.fillConvexPoly(mask, np.array([(mx - 72, my - 40), (mx, my - 55), (mx + 72, my - 40), (mx + 60, my + 50),
                                           (mx, my + 75), (mx - 60, my + 50)]), 1)  # fmt: skip
    elif what == "hand":
        color = (205, 150, 125)
        for index in range(4):
            cv2.line(mask, (mx + 100, my + 60 - 22 * index), (mx - 10 + 6 * index, my + 20 - 20 * index), 1, 18)
        cv2.circle(mask, (mx + 110, my + 40), 50, 1, -1)
    elif what == "hair":
        color = (30, 20, 14)
        for index in range(5):
            x = lx - 50 + 14 * index
            strand = [(x + 30 * (y / 170) ** 2 - 10 * np.sin(y / 40 + index), at + 30 + y) for y in range(0, 171, 10)]
            cv2.polylines(mask, [np.array(strand, np.int32)], False, 1, 5)
    else:
        color = (40, 40, 42)
        cv2.circle(mask, (mx, my + 34), 24, 1, -1)
        cv2.line(mask, (mx, my + 40), (mx + 20, ground - at), 1, 22)
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 3, (ground, ground, 1))
    made[mask > 0] = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)[mask > 0]
    soft = cv2.GaussianBlur(made, (0, 0), 0.8)
    edge = cv2.dilate(mask, np.ones((5, 5))) - cv2.erode(mask, np.ones((5, 5))) > 0
    made[edge] = soft[edge]
    return made, mask > 0


def drawn(how: str, ground: int = 480) -> Pixels:
    """The portrait as a drawing, a cartoon or a statue; or four strokes of a child."""
    made = portrait(ground=ground)
    if how == "statue":
        grey = cv2.cvtColor(cv2.bilateralFilter(made, 9, 40, 7), cv2.COLOR_RGB2GRAY).astype(float)
        stone = 90 + 0.6 * grey
        return np.clip(stone[..., None] * [1.0, 0.99, 0.96], 0, 255).astype(np.uint8)
    if how == "cartoon":
        flat = cv2.bilateralFilter(made, 15, 60, 15) // 32 * 32 + 16
        grey = cv2.medianBlur(cv2.cvtColor(made, cv2.COLOR_RGB2GRAY), 5)
        lines = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 9, 4)
        return np.asarray(np.minimum(flat, lines[..., None]), np.uint8)
    if how == "pencil":
        grey = cv2.cvtColor(made, cv2.COLOR_RGB2GRAY)
        light = cv2.divide(grey, 255 - cv2.GaussianBlur(255 - grey, (0, 0), 8), scale=256)
        return np.repeat(light[..., None], 3, 2).astype(np.uint8)
    made = np.full((ground, ground, 3), 250, np.uint8)
    for x, y, radius, width in ((240, 240, 150, 4), (190, 200, 14, -1), (290, 200, 14, -1)):
        cv2.circle(made, (x, y), radius, (20, 20, 20), width)
    cv2.ellipse(made, (240, 290), (60, 30), 0, 0, 180, (20, 20, 20), 4)
    return made
