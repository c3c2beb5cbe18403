"""Contact sheets: source, target, output, and the places of the output where a swap shows, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from mien.evaluate.report import Row
from mien.geometry import warp
from mien.media.atomic import atomic_output
from mien.mesh import EYES, LIPS, SURFACE, upright_matrix
from mien.types import ByteArray, Face, FloatArray

TILE, TILES = 224, 7
"""Side of one picture of a strip, and their number."""
MARGIN = 1.6
"""Side of the faces over the extent of the mesh."""
EYE_ZOOM, MOUTH_ZOOM, BORDER_ZOOM = 0.62, 0.45, 0.35
"""Sides of the enlarged parts over the extent of the mesh."""
LINE = 22
"""Height of a line of text."""
QUALITY = 90
COLUMNS = 4
"""Swaps side by side on the overview."""


def strip(
    source: ByteArray, source_face: Face, target: ByteArray, output: ByteArray, face: Face, place: tuple[float, float]
    | None,
) -> bytes:  # fmt: skip
    """One swap as a row of `TILES` pictures, JPEG: source, target, output, its eyes and mouth, and its most visible
    border before and after.

    Args:
        face: the target's.
        place: x, y of the border to show; None shows the chin.
    """
    eyes = face.mesh[[i for eye in EYES for i in eye], :2].mean(0)
    mouth = face.mesh[list(LIPS), :2].mean(0)
    edge = np.asarray(face.mesh[152, :2] if place is None else place, np.float32)
    extent = float(np.ptp(face.mesh[:SURFACE, :2], axis=0).max())
    zooms = (
        (output, eyes, EYE_ZOOM), (output, mouth, MOUTH_ZOOM), (target, edge, BORDER_ZOOM), (output, edge, BORDER_ZOOM)
    )  # fmt: skip
    tiles = [
        warp(source, upright_matrix(source_face.mesh, MARGIN, TILE), TILE, TILE),
        *(warp(image, upright_matrix(face.mesh, MARGIN, TILE), TILE, TILE) for image in (target, output)),
        *(warp(image, _around(middle, zoom * extent), TILE, TILE) for image, middle, zoom in zooms),
    ]
    return encode(np.asarray(np.hstack(tiles), np.uint8))


def sheet(rows: Sequence[tuple[str, bytes]]) -> ByteArray:
    """Strips under each other, each with a line of text above it."""
    parts = []
    for text, picture in rows:
        image = decode(picture)
        line = np.full((LINE, image.shape[1], 3), 255, np.uint8)
        cv2.putText(line, _plain(text), (4, LINE - 7), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
        parts += [line, image]
    return np.vstack(parts)


def overview(strips: Sequence[bytes], side: int = 160) -> ByteArray:
    """Source, target and output of each strip, small, several swaps side by side."""
    cells = [
        np.asarray(cv2.resize(decode(each)[:, : 3 * TILE], (3 * side, side), interpolation=cv2.INTER_AREA), np.uint8)
        for each in strips
    ]
    cells += [np.full_like(cells[0], 255)] * (-len(cells) % min(COLUMNS, len(cells)))
    width = min(COLUMNS, len(cells))
    return np.vstack([np.hstack(cells[i : i + width]) for i in range(0, len(cells), width)])


def choose(rows: Sequence[Row], column: str, count: int, *, higher: bool) -> dict[str, list[int]]:
    """Places of the best, the typical (about the median) and the worst rows by a column; rows without it are left out.

    A row is in one group only, so few rows make small groups.
    """
    known = [i for i, row in enumerate(rows) if column in row.values]
    ranked = sorted(known, key=lambda i: rows[i].values[column], reverse=higher)
    count = min(count, len(ranked) // 3) if len(ranked) < 3 * count else count
    count = max(count, 1) if ranked else 0
    middle = max(0, (len(ranked) - count) // 2)
    groups = {"best": ranked[:count], "typical": ranked[middle : middle + count], "worst": ranked[::-1][:count]}
    seen: set[int] = set()
    chosen: dict[str, list[int]] = {}
    for name in ("worst", "best", "typical"):
        chosen[name] = [i for i in groups[name] if i not in seen]
        seen.update(chosen[name])
    return {name: chosen[name] for name in ("best", "typical", "worst")}


def write_picture(path: Path, image: ByteArray) -> None:
    """Write a picture as JPEG or PNG by its ending, all of it or nothing.

    Raises:
        OutputError: it cannot be written.
    """
    with atomic_output(path) as partial:
        partial.write_bytes(encode(image, path.suffix.lower()))


def encode(image: ByteArray, ending: str = ".jpg") -> bytes:
    """(H, W, 3) RGB as a file."""
    settings = [cv2.IMWRITE_JPEG_QUALITY, QUALITY] if ending in (".jpg", ".jpeg") else []
    _, data = cv2.imencode(ending, cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
    return data.tobytes()


def decode(data: bytes) -> ByteArray:
    """What `encode` made."""
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None  # it was made here
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def _around(middle: FloatArray, side: float) -> FloatArray:
    """(2, 3) to a tile that shows a square about a point, not turned."""
    scale = TILE / max(side, 1.0)
    shift = (TILE - 1) / 2 - scale * middle
    return np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], np.float32)


def _plain(text: str) -> str:
    """Only what OpenCV's font has."""
    return text.replace("→", "->").encode("ascii", "replace").decode()
