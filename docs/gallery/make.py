"""Make the gallery's contact sheet: `python docs/gallery/make.py --portraits DIR`.

Each row: source, target, output, and the output's eyes, mouth and border at twice the size.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import cv2
import numpy as np

import mien
from mien.faces import FaceFinder
from mien.media import open_reader
from mien.types import Box, ByteArray, Face
from mien.zoo.registry import Zoo

PAIRS = (
    ("male_016", "male_026", "easy, frontal"),
    ("female_048", "female_049", "light skin, smile"),
    ("male_036", "male_033", "dark skin"),
    ("female_032", "female_058", "dark on light, three-quarter"),
    ("female_048", "female_044", "light on dark"),
    ("male_012", "male_059", "beard on the target"),
    ("male_061", "male_095", "glasses on the target"),
    ("female_069", "female_025", "glasses on the source"),
    ("female_031", "female_099", "open smile"),
    ("male_045", "female_066", "near profile"),
    ("female_087", "female_031", "three-quarter source behind hair"),
    ("male_047", "male_012", "old on young"),
)
SIDE = 320


def pixels(path: Path) -> ByteArray:
    """The photo, RGB uint8."""
    with open_reader(path) as reader:
        frame = next(iter(reader))
        return np.asarray(frame.read(Box(0, 0, frame.width, frame.height)), np.uint8)


def cut(image: ByteArray, centre: tuple[float, float], side: float) -> ByteArray:
    """A square of the image, scaled to SIDE."""
    x, y = (round(c - side / 2) for c in centre)
    box = Box(x, y, x + round(side), y + round(side)).clip(image.shape[1], image.shape[0])
    part = image[box.y0 : box.y1, box.x0 : box.x1]
    how = cv2.INTER_AREA if side > SIDE else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(part, (SIDE, SIDE), interpolation=how), np.uint8)


def views(image: ByteArray, face: Face, close: bool) -> list[ByteArray]:
    """The head, and with `close` also eyes, mouth and one border."""
    low, high = face.mesh[:, :2].min(0), face.mesh[:, :2].max(0)
    middle, extent = (low + high) / 2, float((high - low).max())
    tiles = [cut(image, (float(middle[0]), float(middle[1])), 1.7 * extent)]
    if close:
        for index, share in ((168, 0.75), (13, 0.5), (234, 0.5)):
            tiles.append(cut(image, (float(face.mesh[index, 0]), float(face.mesh[index, 1])), share * extent))
    return tiles


def main() -> None:
    """Swap each pair and write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--portraits", type=Path, required=True, help="folder of the CC0 portraits")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("sheet.jpg"))
    args = parser.parse_args()
    zoo = Zoo("cpu")
    finder = FaceFinder(zoo)
    rows = []
    for source, target, label in PAIRS:
        paths = [args.portraits / f"{name}.jpg" for name in (source, target)]
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            raise SystemExit(f"not in {args.portraits}: {', '.join(missing)}")
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "output.png"
            mien.swap(paths[0], paths[1], output, zoo=zoo)
            images = [pixels(path) for path in (*paths, output)]
        faces = [finder.find_in_image(image, embeddings=False)[0] for image in images[:2]]
        tiles = views(images[0], faces[0], close=False) + views(images[1], faces[1], close=False)
        tiles += views(images[2], faces[1], close=True)
        row = np.hstack(tiles)
        cv2.putText(row, label, (8, SIDE - 10), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 3, cv2.LINE_AA)
        cv2.putText(row, label, (8, SIDE - 10), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 255, 255), 1, cv2.LINE_AA)
        rows.append(row)
    quality = [cv2.IMWRITE_JPEG_QUALITY, 85]
    cv2.imwrite(str(args.out), cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR), quality)


if __name__ == "__main__":
    main()
