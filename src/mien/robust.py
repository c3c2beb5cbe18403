"""Faces that a plain search misses: the search is run again on restored pictures, with a second detector.

Shrinking averages noise away and makes a blurred face sharp at a smaller size; stretching the contrast brings back
what was left in the dark; enlarging helps the smallest faces. A face counts by the rules of a plain search, and the
landmarker must be sure of it. What is clear, bright and clean is not restored: that would only make faces of strokes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from mien.geometry import scale_of, transform
from mien.search import Search, unique
from mien.types import Box, ByteArray, Face, FloatArray
from mien.views import ArrayFrame, Frame, View, turned
from mien.zoo.nms import iou

LARGEST = 1280
"""Longest side in pixels of what is looked at: the search costs the same for frames of any size."""
SHRUNK = (0.5, 0.3, 0.2)
"""Sizes of the restored pictures over that of the first look."""
SHARPENED = 0.3
"""The same for the picture that is sharpened, where there is nothing fine to be seen in it."""
SOFT = 4.0
"""Root mean square of what a blur of one pixel takes from such a picture, below which it counts as blurred: blurred
scenes had up to 3.4, others from 4.6."""
FLAT = 80.0
"""Range of grey, of 255, below which a picture counts as dark or faint: dark scenes had up to 17, others from 112."""
NOISY = 8.0
"""Standard deviation of the noise from which a picture counts as noisy: noisy scenes had from 28, others up to 4."""
SHARPEN, RADIUS = 3.0, 3.0
"""How often the difference to a picture blurred by so many pixels is added."""
ENLARGED = 2.0
LEAST = 16
"""Longest side in pixels below which a picture is not looked at."""
TAILS = (1.0, 99.0)
"""Percentiles of a picture's values that become nearly black and white."""
CERTAIN = 0.87
"""Detector score that a face of a restored picture has at least: nearly all right ones had 0.88 and more,
wrong ones up to 0.86."""
AROUND = 4.0
"""Side of what is searched for one lost face, over the face's."""
NEAR = 0.2
"""Intersection over union with where it was, from which a face is that one."""
_NOISE = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
_NOISE.setflags(write=False)
FAINTEST = 1.0
"""Least range of values, of 255, that is stretched: below it lies nothing but rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A restored copy of a frame."""

    image: ByteArray
    scale: float
    """Its pixels over the frame's."""
    second: bool
    """Whether it is small enough for the second detector, which is slower."""


def retried(search: Search, both: Any, frame: Frame) -> list[Face]:
    """Faces of the frame that are confirmed in one of its restored pictures, each once.

    `both` looks at the small pictures, the search's own detector at the enlarged one, each at four quarter turns. When
    nothing is found, that costs as much as some 20 first looks by the first detector and at most 6 by the second.
    """
    found: list[Face] = []
    for picture in pictures(frame):
        own, base = ArrayFrame(picture.image), View(picture.image, np.eye(2, 3, dtype=np.float32))
        finer = replace(
            search,
            detector=both if picture.second else search.detector,
            smallest=search.smallest * picture.scale,
            trusting=False,
        )
        back = _back(picture, frame)
        faces = finer.confirm(own, base, finer.detect(turned(base)))
        found += [_moved(face, back) for face in faces if face.score >= CERTAIN]
    return unique(found)


def retried_near(search: Search, both: Any, frame: Frame, box: FloatArray) -> Face | None:
    """The face that `retried` finds where one was last seen, a (4,) box in frame pixels, looking only around there."""
    centre, half = (box[:2] + box[2:]) / 2, AROUND / 2 * max(float(max(box[2:] - box[:2])), LEAST)
    low, high = np.floor(centre - half), np.ceil(centre + half)
    part = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(frame.width, frame.height)
    if part.empty:
        return None
    shift = np.array([[1, 0, part.x0], [0, 1, part.y0]], np.float32)
    found = [_moved(face, shift) for face in retried(search, both, ArrayFrame(frame.read(part)))]
    near = [face for face in found if float(iou(box, face.bbox[None])[0]) > NEAR]
    return max(near, key=lambda face: face.score, default=None)


def pictures(frame: Frame) -> Iterator[Picture]:
    """Restored pictures of a frame, the small ones first."""
    longest = max(frame.width, frame.height)
    whole = frame.thumbnail(LARGEST)
    side = max(whole.shape[:2])
    soft = is_soft(whole)
    for part in SHRUNK if soft or is_flat(whole) or is_noisy(whole) else ():
        if part * side >= LEAST:
            image = _resized(whole, part)
            yield Picture(stretched(image), max(image.shape[:2]) / longest, True)
            if part == SHARPENED and soft:
                sharp = image + SHARPEN * (image - _blurred(image, RADIUS))
                yield Picture(stretched(np.asarray(sharp, np.float32)), max(image.shape[:2]) / longest, True)
    times = min(ENLARGED, LARGEST / side)
    if times > 1.2 and side >= LEAST:
        image = _resized(whole, times)
        yield Picture(stretched(image), max(image.shape[:2]) / longest, False)


def is_soft(image: ByteArray) -> bool:
    """Whether the H×W×3 picture shows nothing fine even at a smaller size: it is blurred, or there is nothing."""
    small = stretched(_resized(image, SHARPENED))
    return float(np.std(small - _blurred(small, 1.0))) < SOFT


def is_flat(image: ByteArray) -> bool:
    """Whether the H×W×3 picture is dark or faint."""
    low, high = np.percentile(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), TAILS)
    return bool(high - low < FLAT)


def is_noisy(image: ByteArray) -> bool:
    """Whether the H×W×3 picture is noisy, by a filter that edges hardly pass.

    Immerkær, "Fast Noise Variance Estimation", 1996, with the median, since most of a picture is no edge.
    """
    if min(image.shape[:2]) < 3:
        return False
    filtered = cv2.filter2D(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32), -1, _NOISE)[1:-1, 1:-1]
    return float(np.median(np.abs(filtered))) / (6 * 0.6745) > NOISY


def stretched(image: FloatArray) -> ByteArray:
    """The H×W×3 picture with its values, 0–255, spread over the whole range."""
    low, high = np.percentile(image[::2, ::2], TAILS)
    gain = 245 / max(float(high - low), FAINTEST)
    return np.asarray(np.clip((image - low) * gain + 5, 0, 255), np.uint8)


def _resized(image: ByteArray, factor: float) -> FloatArray:
    """In float32, so that averaged noise keeps its fractions."""
    size = (max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor)))
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image.astype(np.float32), size, interpolation=method), np.float32)


def _blurred(image: ByteArray | FloatArray, sigma: float) -> FloatArray:
    return np.asarray(cv2.GaussianBlur(image.astype(np.float32), (0, 0), sigma), np.float32)


def _back(picture: Picture, frame: Frame) -> FloatArray:
    """(2, 3) from a picture's pixels to the frame's."""
    fx, fy = frame.width / picture.image.shape[1], frame.height / picture.image.shape[0]
    return np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2]], np.float32)


def _moved(face: Face, matrix: FloatArray) -> Face:
    mesh = face.mesh.copy()
    mesh[:, :2] = transform(mesh[:, :2], matrix)
    mesh[:, 2] *= scale_of(matrix)
    bbox = transform(face.bbox.reshape(2, 2), matrix).reshape(4)
    return replace(face, bbox=bbox, keypoints=transform(face.keypoints, matrix), mesh=mesh)
