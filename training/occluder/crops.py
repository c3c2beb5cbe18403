"""Upright face crops with their meshes and rough skin, clothes and hair masks, made once and cached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.faces import FaceFinder
from mien.geometry import scale_of, transform, warp
from mien.mesh import upright_matrix
from mien.options import AnalyzeOptions
from mien.zoo.maskers.occluder import MARGIN, SIZE
from mien.zoo.registry import Zoo

Array: TypeAlias = npt.NDArray[Any]
"""Pixels, masks and points; what is in them is said where they are."""
__all__ = ["MARGIN", "MASKS", "SIZE", "STORED", "Array", "Crops", "load_or_make"]
STORED = 200
"""Side of a stored crop: as fine as the network's, with room to shift and turn it."""
MASKS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Crops:
    """Stored crops of many photos."""

    names: tuple[str, ...]
    images: Array
    """N×200×200×3 RGB."""
    meshes: Array
    """N×478×3, pixels of the crop; z on the same scale, smaller = nearer."""
    masks: Array
    """N×100×100×3 skin, clothes, hair, 0–255."""

    def save(self, path: Path) -> None:
        """Write as `.npz`."""
        np.savez(path, names=np.array(self.names), images=self.images, meshes=self.meshes, masks=self.masks)

    @classmethod
    def load(cls, path: Path) -> Crops:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            return cls(tuple(data["names"].tolist()), data["images"], data["meshes"], data["masks"])


def crop_of(photo: Array, mesh: Array, masker: Any) -> tuple[Array, Array, Array]:
    """Stored crop, mesh and masks of one face in an RGB photo."""
    margin = MARGIN * STORED / SIZE
    matrix = upright_matrix(mesh, margin, STORED)
    image = warp(photo, matrix, STORED, STORED)
    large = warp(photo, upright_matrix(mesh, margin, masker.size), masker.size, masker.size)
    masks = cv2.resize(masker(large[None])[0], (MASKS, MASKS), interpolation=cv2.INTER_AREA)
    points = np.c_[transform(mesh[:, :2], matrix), mesh[:, 2:3] * scale_of(matrix)].astype(np.float32)
    return image, points, (masks * 255 + 0.5).astype(np.uint8)


def photos(folder: Path) -> Iterator[tuple[str, Array]]:
    """Name and RGB pixels of each photo of a folder, in order of name."""
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png")):
        pixels = cv2.imread(str(path))
        if pixels is not None:
            yield path.stem, np.ascontiguousarray(pixels[:, :, ::-1])


def found(folder: Path, zoo: Zoo) -> Iterator[tuple[str, Array, Array]]:
    """Name, pixels and mesh of the largest face of each photo that has one."""
    finder = FaceFinder(zoo, AnalyzeOptions())
    for name, photo in photos(folder):
        faces = finder.find_in_image(photo, embeddings=False)
        if faces:
            yield name, photo, max(faces, key=lambda face: float(np.ptp(face.mesh[:, 0]))).mesh


def collect(faces: Iterable[tuple[str, Array, Array]], masker: Any) -> Crops:
    """Crop every face."""
    names, parts = [], []
    for name, photo, mesh in faces:
        names.append(name)
        parts.append(crop_of(photo, mesh, masker))
    images, meshes, masks = (np.stack(column) for column in zip(*parts, strict=True))
    return Crops(tuple(names), images, meshes, masks)


def load_or_make(folder: Path, cache: Path) -> Crops:
    """Crops of a folder of photos; made at the first call."""
    if not cache.exists():
        zoo = Zoo("cpu")
        collect(found(folder, zoo), zoo.load("masker", "skin_hair")).save(cache)
    return Crops.load(cache)
