"""Photos and faces as the evaluation sees them: read, found and described once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mien.color import as_bytes
from mien.errors import NoFaceError
from mien.evaluate.judges import Judge
from mien.faces import COARSE, FaceFinder
from mien.media import open_reader
from mien.options import AnalyzeOptions
from mien.tracking import overlap
from mien.types import Box, ByteArray, Face, FloatArray
from mien.views import ArrayFrame
from mien.zoo.registry import Zoo

SAME_PLACE = 0.3
"""Overlap of two boxes from which they are taken for one face before and after a swap."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One face of a picture, described."""

    face: Face
    embeddings: Mapping[str, FloatArray]
    """Judge → (D,) unit vector."""


class Examiner:
    """Finds and describes faces; those of photos are kept.

    Args:
        options: how faces are found.
    """

    def __init__(self, zoo: Zoo, options: AnalyzeOptions, judges: Sequence[Judge]) -> None:
        self.judges = tuple(judges)
        self._finder = FaceFinder(zoo, options)
        self._quick = FaceFinder(zoo, options.model_copy(update={"detect_size": options.detect_size or COARSE}))
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
        """The largest face of a picture, or the one at a place; None where none is found.

        One quick look usually tells; only where it does not, all of the picture is searched.
        """
        face = self._find(image, None if near is None else near.bbox, expressions=True)
        return None if face is None else self.describe(image, face)

    def face_in(self, path: Path, bbox: FloatArray) -> Face:
        """The face of a photo that fills a (4,) box best, without expression and embeddings.

        Raises:
            NoFaceError: there is none in it. MediaError: it cannot be read.
        """
        face = self._find(pixels_of(path), bbox, expressions=False)
        if face is None:
            raise NoFaceError(f"{path}: no face was found where its hand-placed points are; leave the points out")
        return face

    def describe(self, image: ByteArray, face: Face) -> Look:
        """A face that was found."""
        return Look(face, {judge.name: judge(image, face) for judge in self.judges})

    def _find(self, image: ByteArray, near: FloatArray | None, *, expressions: bool) -> Face | None:
        frame = ArrayFrame(image)
        for finder, thorough in ((self._quick, False), (self._finder, True)):
            faces = finder(frame, thorough=thorough, embeddings=False, expressions=expressions)
            here = [face for face in faces if near is None or overlap(face.bbox, near) > SAME_PLACE]
            if here:
                return here[0] if near is None else max(here, key=lambda face: overlap(face.bbox, near))
        return None


def pixels_of(path: Path) -> ByteArray:
    """A photo's pixels, RGB.

    Raises:
        MediaError: it cannot be read.
    """
    with open_reader(path) as reader:
        frame = next(iter(reader))
        return as_bytes(frame.read(Box(0, 0, frame.width, frame.height)))
