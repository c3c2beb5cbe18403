"""Swaps of training people in memory, cut out as the classifier sees faces: each kind made once and cached.

A target is stored beside its swaps, cut out the same way, so what was done to its photo before tells nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from mien.facemask import face_masks
from mien.geometry import warp
from mien.media import ImageFrame
from mien.mesh import upright_matrix
from mien.options import Fusion, SwapOptions
from mien.paste import paste, read_crop
from mien.types import ByteArray, FloatArray
from mien.zoo.contracts import Source, Style, Swapper
from mien.zoo.registry import Zoo
from mien.zoo.swappers.texture import TextureSwapper
from training.naturalness.photos import Photo
from training.swapgan.faces import workers

CHUNK = 16
"""Swaps that a process makes at a time."""
KINDS: tuple[Fusion, ...] = ("classic", "swapgan")


@dataclass(frozen=True, slots=True)
class View:
    """How faces are cut out: upright."""

    side: int
    """Of the crop, in pixels."""
    margin: float
    """Side of the crop over the mesh's extent."""


JUDGED = View(224, 1.5)
"""What the classifier sees."""
STORED = View(336, 1.75)
"""What it is trained from: finer and wider, with room to move."""


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """N swaps of one kind."""

    crops: ByteArray
    """(N, S, S, 3) RGB."""
    target: npt.NDArray[np.int32]
    """(N,) index of the photo that was swapped."""
    source: npt.NDArray[np.int32]
    """(N,) index of the photo whose face it got."""

    def save(self, path: Path) -> None:
        """Write as `.npz`."""
        partial = path.with_suffix(".part")
        with partial.open("wb") as out:
            np.savez(out, crops=self.crops, target=self.target, source=self.source)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Swaps:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            return cls(data["crops"], data["target"], data["source"])


def pairs(found: Sequence[Photo], usual: int, often: int, seed: int) -> list[tuple[int, int]]:
    """(source, target) of different people: each photo a target `usual` times, or `often` where photos are few.

    Sources are drawn in turns, so that each is used about as often as any other.
    """
    chance = random.Random(seed)
    turns = chain.from_iterable(chance.sample(range(len(found)), len(found)) for _ in iter(int, 1))
    drawn = []
    for target, photo in enumerate(found):
        times = usual if photo.name.startswith("train/") else often
        for _ in range(times):
            source = next(turns)
            while found[source].person == photo.person:
                source = next(turns)
            drawn.append((source, target))
    return drawn


def cut(image: ByteArray, photo: Photo, view: View) -> ByteArray:
    """(S, S, 3) crop of a photo, or of what it became, by the mesh of the photo."""
    matrix = upright_matrix(photo.face.mesh, view.margin, view.side)
    return np.asarray(warp(image, matrix, view.side, view.side), np.uint8)


def swapped(photo: Photo, source: Photo, kind: Fusion, swapper: Swapper, masks: Any = None) -> ByteArray:
    """(H, W, 3) the photo with the source's face, as the pipeline would give it.

    Args:
        masks: what `masks_of` said of the photo.
    """
    frame = ImageFrame(photo.image.copy())
    crop = read_crop(frame, photo.face, swapper)
    assert crop is not None  # the face lies in the picture that was cut around it
    (patch,) = swapper([crop.image], [crop.face], [masks], Source(source.identity), Style(fusion=kind))
    paste(frame, crop, patch)
    return np.asarray(frame.array, np.uint8)


def masks_of(photo: Photo, swapper: Swapper) -> Mapping[str, FloatArray]:
    """What covers the face, over the swapper's crop."""
    crop = read_crop(ImageFrame(photo.image.copy()), photo.face, swapper)
    assert crop is not None
    (masks,) = face_masks([crop.image], [crop.face.mesh], _maskers())
    return masks


_Job: TypeAlias = tuple[list[tuple[Photo, Photo]], Fusion, View, Path]


def make(
    found: Sequence[Photo], drawn: Sequence[tuple[int, int]], kind: Fusion, view: View, weights: Path, work: Path,
    jobs: int,
) -> Swaps:  # fmt: skip
    """The swaps of (source, target) pairs, from the work folder if they were made by the same weights."""
    mark = "" if kind == "classic" else "-" + hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
    names = f"{view}\n" + "\n".join(f"{found[s].name} {found[t].name}" for s, t in drawn)
    file = work / f"{kind}{mark}-{hashlib.sha256(names.encode()).hexdigest()[:8]}.npz"
    if not file.exists():
        parts = [range(i, min(i + CHUNK, len(drawn))) for i in range(0, len(drawn), CHUNK)]
        work_of: list[_Job] = [
            ([(found[s], found[t]) for s, t in (drawn[i] for i in part)], kind, view, weights) for part in parts
        ]
        with workers(jobs) as pool:
            crops = np.concatenate(list(pool.map(_made, work_of)))
        source, target = (np.array(column, np.int32) for column in zip(*drawn, strict=True))
        Swaps(crops, target, source).save(file)
    return Swaps.load(file)


def _made(job: _Job) -> ByteArray:
    drawn, kind, view, weights = job
    swapper = _swapper(weights)
    return np.stack([cut(swapped(t, s, kind, swapper, masks_of(t, swapper)), t, view) for s, t in drawn])


@cache
def _swapper(weights: Path) -> Swapper:
    cv2.setNumThreads(1)
    made: Swapper = cast(Any, TextureSwapper("cpu", weights))  # its template, None for good, is no `str | None` to mypy
    return made


@cache
def _maskers() -> list[Any]:
    zoo = Zoo("cpu")
    return [zoo.load("masker", name) for name in SwapOptions().masker.split("+")]
