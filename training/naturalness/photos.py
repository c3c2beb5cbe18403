"""Photos with all that a swap needs of them, as its source and as its target; made once and cached."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mien.color import as_bytes
from mien.facemask import face_masks
from mien.faces import ArrayFrame, FaceFinder
from mien.identity_data import IdentityData
from mien.media import open_reader
from mien.mesh import SURFACE
from mien.options import SwapOptions
from mien.paste import mesh_box, moved
from mien.shape import neutral
from mien.texture import fuse, texture_size, unwrap
from mien.types import Box, ByteArray, Face, FloatArray
from mien.zoo.registry import Zoo
from training.swapgan.faces import photos, workers

EXTENT = 216
"""Larger faces are shrunk to this extent, in pixels, which a small texture covers: the classifier sees them at 107."""
MARGIN = 2.3
"""Side of the part of a photo that is kept over the face's extent: the classifier's crop, turned, fits in."""
SURE = 0.8
"""Least presence of a face."""


@dataclass(frozen=True, slots=True, eq=False)
class Photo:
    """One person's face."""

    name: str
    """folder/stem."""
    image: ByteArray
    """(H, W, 3) RGB: the part around the face."""
    face: Face
    """In pixels of `image`."""
    identity: IdentityData
    """The person as a source."""

    @property
    def person(self) -> str:
        """folder/person: in `london` two photos show one."""
        folder, stem = self.name.split("/")
        return f"{folder}/{stem.split('_')[0]}" if folder == "london" else self.name


def lot(name: str) -> float:
    """0–1, always the same for a name: what chooses people, whatever the order of files."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32


def chosen(data: Path, part: str, most: int) -> list[Path]:
    """Photos of a part: all portraits and volunteers, and up to `most` others."""
    found = list(photos(data, part))
    others = sorted((path for path in found if path.parent.name == "train"), key=lambda path: lot(path.stem))
    return [path for path in found if path.parent.name != "train"] + others[:most]


def look_at(paths: Sequence[Path], work: Path, jobs: int) -> list[Photo]:
    """The photos that show a sure face, in order; what was seen once is read from the work folder."""
    work.mkdir(parents=True, exist_ok=True)
    files = [work / f"{path.parent.name}_{path.stem}.npz" for path in paths]
    missing = [(path, file) for path, file in zip(paths, files, strict=True) if not file.exists()]
    if missing:
        with workers(jobs) as pool:
            list(pool.map(_store, missing, chunksize=4))
    loaded = (_load(file) for file in files)
    return [photo for photo in loaded if photo is not None]


@cache
def _models() -> tuple[FaceFinder, list[Any]]:
    cv2.setNumThreads(1)
    zoo = Zoo("cpu")
    return FaceFinder(zoo), [zoo.load("masker", name) for name in SwapOptions().source_masker.split("+")]


def _store(job: tuple[Path, Path]) -> None:
    path, file = job
    found = _seen(path)
    partial = file.with_suffix(".part")
    with partial.open("wb") as out:
        np.savez(out, allow_pickle=False, **(found or {}))
    os.replace(partial, file)


def _seen(path: Path) -> dict[str, Any] | None:
    finder, maskers = _models()
    with open_reader(path) as reader:
        frame = next(iter(reader))
        image = np.asarray(as_bytes(frame.read(Box(0, 0, frame.width, frame.height))))
    faces = finder(ArrayFrame(image), thorough=False, expressions=True)
    if not faces or faces[0].presence < SURE:
        return None
    image, face = _shrunk(image, faces[0])
    box = mesh_box(face.mesh, MARGIN).clip(image.shape[1], image.shape[0])
    image = np.ascontiguousarray(image[box.y0 : box.y1, box.x0 : box.x1])
    face = moved(face, np.array([[1, 0, -box.x0], [0, 1, -box.y0]], np.float32))
    (masks,) = face_masks([image], [face.mesh], maskers)
    texture = fuse([unwrap(image, face.mesh, masks, texture_size(face.mesh))])
    return {
        "name": f"{path.parent.name}/{path.stem}",
        "image": image,
        "bbox": face.bbox,
        "keypoints": face.keypoints,
        "mesh": face.mesh,
        "embedding": face.embedding,
        "blendshapes": face.blendshapes,
        "presence": np.float32(face.presence),
        "texture": as_bytes(texture.rgb),
        "trust": as_bytes(texture.trust),
    }


def _shrunk(image: ByteArray, face: Face) -> tuple[ByteArray, Face]:
    scale = EXTENT / float(np.ptp(face.mesh[:SURFACE, :2], axis=0).max())
    if scale >= 1:
        return image, face
    height, width = image.shape[:2]
    small = cv2.resize(image, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_AREA)
    scale = small.shape[1] / width
    shift = (scale - 1) / 2
    return np.asarray(small, np.uint8), moved(face, np.array([[scale, 0, shift], [0, scale, shift]], np.float32))


def _load(file: Path) -> Photo | None:
    with np.load(file, allow_pickle=False) as stored:
        if "name" not in stored:
            return None
        values = {name: stored[name] for name in stored}
    shape = neutral(values["mesh"], values["blendshapes"])
    face = Face(
        values["bbox"], 1.0, values["keypoints"], values["mesh"], float(values["presence"]),
        values["embedding"], values["blendshapes"], shape,
    )  # fmt: skip
    texture, trust = (_unit(values[name]) for name in ("texture", "trust"))
    identity = IdentityData(values["embedding"], texture, trust, values["mesh"], shape)
    return Photo(str(values["name"]), values["image"], face, identity)


def _unit(values: ByteArray) -> FloatArray:
    return np.asarray(values.astype(np.float32) / 255, np.float32)


def of_people(found: Sequence[Photo], *, checked: bool, share: float = 0.1) -> Iterator[Photo]:
    """Photos of the people who are trained on, or of the share who are set aside to check with."""
    return (photo for photo in found if (lot(photo.person + " check") < share) == checked)
