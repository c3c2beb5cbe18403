"""Clips to measure with: real faces that sway before a textured background that drifts, of any size and number."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from mien.types import ByteArray, FloatArray

ROOT = Path(__file__).parent.parent
PORTRAITS = (*sorted((ROOT / "tests" / "fixtures" / "portraits").glob("*.jpg")), ROOT / "examples" / "target.jpg")
SOURCE = ROOT / "examples" / "source.jpg"
RATE = 25
DRIFT, SWAY = 64, 12
"""Pixels that the background and the faces move at most."""
_COLUMNS = {1: 1, 5: 5, 50: 10}


def clip(folder: Path, size: tuple[int, int], faces: int, frames: int) -> Path:
    """The clip of this width and height with so many faces; made once and kept in the folder."""
    width, height = size
    path = folder / f"clip-{width}x{height}-{faces}-{frames}.mp4"
    if path.exists():
        return path
    background, people = _background(width + DRIFT, height + DRIFT), _people(size, faces)
    part = path.with_suffix(".part.mp4")
    with av.open(str(part), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "crf": "18"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(_picture(index, size, background, people), "rgb24")
            frame = frame.reformat(format="yuv420p", dst_colorspace="ITU709")
            frame.pts, frame.time_base = index, Fraction(1, RATE)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    part.replace(path)
    return path


def large_photo(folder: Path, megapixels: float = 12.0) -> Path:
    """The example source, enlarged."""
    path = folder / f"source-{megapixels:g}.jpg"
    if not path.exists():
        photo = _read(SOURCE)
        scale = (megapixels * 1e6 / (photo.shape[0] * photo.shape[1])) ** 0.5
        large = cv2.resize(photo, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(path), large[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])
    return path


def _picture(
    index: int, size: tuple[int, int], background: ByteArray, people: list[tuple[int, int, ByteArray, FloatArray]]
) -> ByteArray:
    width, height = size
    x, y = _swing(index, 0.02, DRIFT // 2) + DRIFT // 2, _swing(index, 0.03, DRIFT // 2) + DRIFT // 2
    picture = background[y : y + height, x : x + width].copy()
    for number, (left, top, photo, mask) in enumerate(people):
        x, y = left + _swing(index + 7 * number, 0.11, SWAY), top + _swing(index + 5 * number, 0.07, SWAY)
        x, y = int(np.clip(x, 0, width - photo.shape[1])), int(np.clip(y, 0, height - photo.shape[0]))
        under = picture[y : y + photo.shape[0], x : x + photo.shape[1]]
        under[:] = np.rint(under + mask[..., None] * (photo.astype(np.float32) - under))
    return picture


def _swing(index: int, speed: float, reach: int) -> int:
    return round(reach * float(np.sin(speed * index)))


def _people(size: tuple[int, int], faces: int) -> list[tuple[int, int, ByteArray, FloatArray]]:
    """Left, top, photo and soft mask of each; nothing overlaps."""
    width, height = size
    columns = _COLUMNS.get(faces, faces)
    rows = -(-faces // columns)
    side = int(min(0.6 * height, width / columns - SWAY, height / rows - SWAY)) if faces else 0
    found = []
    for number in range(faces):
        photo = _head(_read(PORTRAITS[number % len(PORTRAITS)]))
        photo = np.asarray(cv2.resize(photo, (side, side), interpolation=cv2.INTER_AREA), np.uint8)
        left = round((number % columns + 0.5) * width / columns - side / 2)
        top = round((number // columns + 0.5) * height / rows - side / 2)
        found.append((left, top, photo, _soft(side)))
    return found


def _head(photo: ByteArray) -> ByteArray:
    """The upper middle of a portrait."""
    side = round(0.62 * min(photo.shape[:2]))
    left = (photo.shape[1] - side) // 2
    return photo[:side, left : left + side]


def _soft(side: int) -> FloatArray:
    """(side, side) 1 inside, falling to 0 at the edge."""
    ramp = np.clip(np.minimum(np.arange(side), np.arange(side)[::-1]) / (0.06 * side), 0, 1)
    return np.minimum.outer(ramp, ramp).astype(np.float32)


def _background(width: int, height: int) -> ByteArray:
    """Clouds of all sizes, whose contrast falls with their size as in photos."""
    random, total = np.random.default_rng(1), np.full((height, width, 3), 120, np.float32)
    for cell, contrast in ((512, 40), (128, 20), (32, 10), (8, 5), (2, 2.5)):
        shape = (-(-height // cell) + 1, -(-width // cell) + 1)
        grid = random.normal(0, contrast, (*shape, 1)) + random.normal(0, contrast / 4, (*shape, 3))
        grid = grid.astype(np.float32)
        total += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(total, 0, 255).astype(np.uint8)


def _read(path: Path) -> ByteArray:
    found = cv2.imread(str(path))
    assert found is not None, path
    return np.asarray(found[..., ::-1], np.uint8)
