"""Photos and faces as the evaluation sees them: read, found and described once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mien.color import as_bytes
from mien.errors import NoFaceError
from mien.evaluate.judges import Classifier, Judge
from mien.faces import FaceFinder
from mien.media import open_reader
from mien.types import Box, ByteArray, Face, FloatArray
from mien.views import ArrayFrame


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One face of a picture, described."""

    face: Face
    embeddings: Mapping[str, FloatArray]
    """Judge → (D,) unit vector."""
    swapped: float
    """Logit of having been swapped; NaN without a classifier."""


class Examiner:
    """Finds and describes faces; those of photos are kept.

    Args:
        classifier: of swapped faces, if there is one.
    """

    def __init__(self, finder: FaceFinder, judges: Sequence[Judge], classifier: Classifier | None = None) -> None:
        self.judges, self._finder, self._classifier = tuple(judges), finder, classifier
        self._photos: dict[Path, Look | None] = {}

    def photo(self, path: Path, find: Callable[[], Look | None] | None = None) -> Look:
        """The face of a photo: the largest, unless told how to find it where the photo was not looked at yet.

        Raises:
            NoFaceError: there is none. MediaError: it cannot be read.
        """
        if path not in self._photos:
            self._photos[path] = self.look(pixels_of(path)) if find is None else find()
        found = self._photos[path]
        if found is None:
            raise NoFaceError(f"{path}: no face was found; leave this photo out")
        return found

    def look(self, image: ByteArray, near: Face | None = None) -> Look | None:
        """The largest face of a picture, or the one nearest to a place; None where none is found."""
        frame = ArrayFrame(image)
        faces = self._finder(frame, thorough=False, embeddings=False, expressions=True)
        faces = faces or self._finder(frame, embeddings=False, expressions=True)
        if not faces:
            return None
        return self.describe(image, faces[0] if near is None else min(faces, key=lambda face: _apart(face, near)))

    def describe(self, image: ByteArray, face: Face) -> Look:
        """A face that was found."""
        swapped = float("nan") if self._classifier is None else self._classifier(image, face.mesh)
        return Look(face, {judge.name: judge(image, face) for judge in self.judges}, swapped)


def pixels_of(path: Path) -> ByteArray:
    """A photo's pixels, RGB.

    Raises:
        MediaError: it cannot be read.
    """
    with open_reader(path) as reader:
        frame = next(iter(reader))
        return as_bytes(frame.read(Box(0, 0, frame.width, frame.height)))


def _apart(a: Face, b: Face) -> float:
    return float(np.abs(a.bbox - b.bbox).sum())
