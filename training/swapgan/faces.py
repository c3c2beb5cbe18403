"""Photos of the training people as arrays: crop, UV map, mask, texture. Made once, since it takes minutes.

`python -m training.swapgan.faces --data DIR --out FILE.npz [--only FOLDER ...]`

DIR holds train/, portraits/ and london/; people that are held out (`training/people.csv`) are left out.
"""

from __future__ import annotations

import argparse
import csv
import logging
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mien.chart import border, chart_of, mouth, visible
from mien.color import as_bytes
from mien.facemask import face_masks
from mien.faces import FaceFinder
from mien.fusion import MARGIN, SIDE
from mien.geometry import template_matrix, transform, warp
from mien.media import open_reader
from mien.mesh import SURFACE, upright_matrix
from mien.paste import mesh_box
from mien.texture import fuse, unwrap
from mien.types import Box, FloatArray
from mien.zoo.registry import Zoo
from training.occluder.labels import known

TEXTURE = 128
"""Side of the stored textures: a face is about 95 pixels high in the network's crop."""
PEOPLE = Path(__file__).parents[1] / "people.csv"
FIELDS = ("crop", "uv", "mask", "seen", "texture", "trust", "aligned", "name")
log = logging.getLogger("swapgan.faces")
ByteArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Faces:
    """N photos."""

    crop: ByteArray
    """(N, SIDE, SIDE, 3) upright."""
    uv: npt.NDArray[np.float16]
    """(N, SIDE, SIDE, 2) 0–1."""
    mask: ByteArray
    """(N, SIDE, SIDE) 0–255, rises from the mesh's outline, 0 in an open mouth."""
    seen: ByteArray
    """(N, SIDE, SIDE) 0–255, 0 where something lies in front of the face."""
    texture: ByteArray
    """(N, TEXTURE, TEXTURE, 3)."""
    trust: ByteArray
    """(N, TEXTURE, TEXTURE)."""
    aligned: FloatArray
    """(N, 2, 3) from the crop's pixels to the 150-pixel crop of the identity network."""
    name: npt.NDArray[np.str_]
    """(N,) folder/stem."""

    @classmethod
    def load(cls, path: Path) -> Faces:
        """What `main` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(**{field: stored[field] for field in FIELDS})

    def __len__(self) -> int:
        return len(self.name)


def workers(jobs: int) -> ProcessPoolExecutor:
    """Processes of their own start: a fork of one that has OpenCV's threads may wait for one of them for ever."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def photos(data: Path, part: str) -> Iterator[Path]:
    """Photos of the people of one part, `training` or `held-out`, without the hard cases."""
    with PEOPLE.open() as file:
        parts = {(row["folder"], row["person"]): row["part"] for row in csv.DictReader(file)}
    barred = known()["test"]
    for folder in ("train", "portraits", "london"):
        for path in sorted((data / folder).glob("*.jpg")):
            person = path.stem.split("_")[0] if folder == "london" else path.stem
            usual = "training" if folder == "train" else ""
            if parts.get((folder, person), usual) == part and not (folder == "train" and path.stem in barred):
                yield path


@cache
def _models() -> tuple[FaceFinder, list[Any], Any]:
    cv2.setNumThreads(1)
    zoo = Zoo("cpu")
    masker = [zoo.load("masker", name) for name in ("skin_hair", "occluder")]
    return FaceFinder(zoo), masker, zoo.load("masker", "occluder")


def face_of(path: Path) -> dict[str, Any] | None:
    """Arrays of one photo; None without a sure face."""
    finder, maskers, occluder = _models()
    with open_reader(path) as reader:
        frame = next(iter(reader))
        image = np.asarray(as_bytes(frame.read(Box(0, 0, frame.width, frame.height))))
    faces = finder.find_in_image(image, embeddings=False)
    if not faces or faces[0].presence < 0.8:
        return None
    face = faces[0]
    box = mesh_box(face.mesh, 1.6).clip(image.shape[1], image.shape[0])
    part, shift = image[box.y0 : box.y1, box.x0 : box.x1], np.array([box.x0, box.y0, 0], np.float32)
    mesh = face.mesh - shift
    (masks,) = face_masks([part], [mesh], maskers)
    texture = fuse([unwrap(part, mesh, masks, 256)])
    (covered,) = face_masks([part], [mesh], [occluder])
    matrix = upright_matrix(mesh, MARGIN, SIDE)
    points = np.concatenate([transform(mesh[:, :2], matrix), mesh[:, 2:]], axis=1)
    chart = chart_of(points[:SURFACE, :2], points[:SURFACE, 2], SIDE, SIDE)
    small = {n: warp(cv2.resize(m, part.shape[1::-1]), matrix, SIDE, SIDE) for n, m in covered.items()}
    mask = border(chart) * (1 - mouth(points, SIDE, SIDE, 0.006 * chart.extent))
    half = (TEXTURE, TEXTURE)
    return {
        "crop": warp(part, matrix, SIDE, SIDE),
        "uv": chart.uv.astype(np.float16),
        "mask": np.rint(mask * 255).astype(np.uint8),
        "seen": np.rint(np.clip(visible(small, chart), 0, 1) * 255).astype(np.uint8),
        "texture": as_bytes(cv2.resize(texture.rgb, half, interpolation=cv2.INTER_AREA)),
        "trust": as_bytes(cv2.resize(texture.trust, half, interpolation=cv2.INTER_AREA)),
        "aligned": template_matrix(transform(face.keypoints - shift[:2], matrix), "dlib_150", 150),
        "name": f"{path.parent.name}/{path.stem}",
    }


def main() -> None:
    """Look at each photo once and write the arrays."""
    parser = argparse.ArgumentParser(description="Cut, unwrap and store the photos that the network learns from.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=("training", "held-out"), default="training")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    paths = list(photos(args.data, args.part))
    with workers(args.jobs) as pool:
        found = [face for face in pool.map(face_of, paths, chunksize=8) if face is not None]
    log.info("%d of %d photos", len(found), len(paths))
    stacked: dict[str, Any] = {field: np.stack([face[field] for face in found]) for field in FIELDS}
    np.savez_compressed(args.out, **stacked)


if __name__ == "__main__":
    main()
