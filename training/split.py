"""Divide the people into those to train on and those held out.

`python -m training.split --data DIR --attributes FILE.onnx`

By name, stratified by sex, age and skin tone, so that held-out figures stand for everybody. Run once, before
anything was trained on them; the result, `training/people.csv`, does not change. Skin tone is the individual typology
angle of the cheeks (Chardon et al. 1991), sex and age are what the given network reads from the photo.
The hard cases are held out whole; eleven of them lie in `train/` too, under other names, and are held out
there as well. The other photos of `train/` are for training.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections import defaultdict
from pathlib import Path

import numpy as np

from mien.color import as_float, to_lab
from mien.faces import FaceFinder
from mien.geometry import warp
from mien.media import open_reader
from mien.mesh import SURFACE
from mien.runtime.session import Session
from mien.types import Box, Face, FloatArray, Image
from mien.zoo.registry import Zoo
from training.occluder.labels import known

CHEEKS = (50, 101, 118, 280, 330, 347)
"""Mesh points on plain skin."""
HELD_OUT = 0.3
TONES = ((41.0, "light"), (10.0, "medium"), (-30.0, "brown"), (-180.0, "dark"))
"""Least individual typology angle of each group, degrees."""


def tone(image: Image, face: Face) -> tuple[float, str]:
    """Individual typology angle in degrees and its group, from the medians around the cheek points."""
    side = max(2, round(0.02 * float(np.ptp(face.mesh[:SURFACE, 0]))))
    patches = []
    for x, y in face.mesh[list(CHEEKS), :2].round().astype(int):
        patch = as_float(image[max(0, y - side) : y + side + 1, max(0, x - side) : x + side + 1])
        if patch.size:
            patches.append(np.median(to_lab(np.ascontiguousarray(patch)).reshape(-1, 3), axis=0))
    lightness, _, b = np.median(patches, axis=0)
    angle = float(np.degrees(np.arctan2(lightness - 50, b)))
    return angle, next(name for least, name in TONES if angle >= least)


def attributes(image: Image, face: Face, network: Session) -> tuple[str, int]:
    """Sex and age as the network reads them."""
    low, high = face.mesh[:SURFACE, :2].min(0), face.mesh[:SURFACE, :2].max(0)
    scale = 224 / (1.25 * float((high - low).max()))
    shift = 112 - scale * (low + high) / 2
    matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], np.float32)
    outputs = network(warp(image, matrix, 224, 224)[None].astype(np.float32))
    by_length: dict[int, FloatArray] = {o.size: o.ravel() for o in outputs}
    return ("male" if by_length[1][0] > 0.5 else "female"), int(by_length[100] @ np.arange(100))


def main() -> None:
    """Look at each person once and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--attributes", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("training/people.csv"))
    args = parser.parse_args()
    finder, network = FaceFinder(Zoo("cpu")), Session(args.attributes, "cpu")
    groups: dict[tuple[str, ...], list[list[object]]] = defaultdict(list)
    rows: list[list[object]] = []
    photos = [*sorted((args.data / "portraits").glob("*.jpg")), *sorted((args.data / "london").glob("*_neutral.jpg"))]
    for path in photos:
        with open_reader(path) as reader:
            frame = next(iter(reader))
            image = frame.read(Box(0, 0, frame.width, frame.height))
            faces = finder(frame, thorough=False, embeddings=False)
        folder, name = path.parent.name, path.stem.removesuffix("_neutral")
        angle, skin = tone(image, faces[0])
        sex, age = attributes(image, faces[0], network)
        if folder == "portraits":
            sex = name.split("_")[0]
        band = "under 35" if age < 35 else "35 to 54" if age < 55 else "55 and over"
        groups[folder, sex, band, skin].append([folder, name, sex, age, round(angle, 1), skin])
    for members in groups.values():
        # A hash of the name, not a random number: the order of files does not matter.
        members.sort(key=lambda row: hashlib.sha256(f"{row[0]}/{row[1]}".encode()).digest())
        count = round(HELD_OUT * len(members)) if len(members) > 1 else int(_lottery(members[0]) < HELD_OUT)
        rows += [[*row, "held-out" if i < count else "training"] for i, row in enumerate(members)]
    rows += [["hard", p.stem, "", "", "", "", "held-out"] for p in sorted((args.data / "hard").glob("*.jpg"))]
    rows += [["train", name, "", "", "", "", "held-out"] for name in known()["test"]]
    with args.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["folder", "person", "sex", "age", "ita_degrees", "skin_tone", "part"])
        rows.sort(key=lambda row: (str(row[0]), str(row[1])))
        writer.writerows(rows)


def _lottery(row: list[object]) -> float:
    return hashlib.sha256(f"{row[0]}/{row[1]}".encode()).digest()[0] / 256


if __name__ == "__main__":
    main()
