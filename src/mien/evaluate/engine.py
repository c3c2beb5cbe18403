"""Swaps in memory, with the pixels that `mien.swap` gives a lossless output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from mien.analysis import Analysis, AnalysisWriter
from mien.analyzer import FrameAnalyzer, analyze_frames
from mien.color import as_bytes
from mien.errors import NoFaceError
from mien.evaluate.faces import pixels_of
from mien.faces import FaceFinder
from mien.identity import Identity
from mien.identity_data import IdentityData
from mien.media import ImageFrame, open_reader
from mien.options import SwapOptions
from mien.pipeline import Frame, Pipeline
from mien.types import Box, ByteArray, Face
from mien.zoo.registry import Zoo

KEPT = 64
"""Identities that are kept at a time, a few megabytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A photo whose faces were found."""

    image: ByteArray
    faces: tuple[Face, ...]
    """Largest first, as the analysis of a photo gives them."""


class Engine:
    """Swaps photos and clips by one set of options; sources are analysed once."""

    def __init__(self, zoo: Zoo, options: SwapOptions) -> None:
        self.zoo, self.options = zoo, options
        self.finder = FaceFinder(zoo, options)
        self._identities: dict[Path, IdentityData] = {}
        self._faces: dict[Path, tuple[Face, ...]] = {}

    def identity(self, photo: Path) -> IdentityData:
        """The person that a photo shows.

        Raises:
            NoFaceError, MediaError: see `Identity.from_images`.
        """
        if photo not in self._identities:
            if len(self._identities) >= KEPT:
                del self._identities[next(iter(self._identities))]
            self._identities[photo] = Identity.from_images([photo], zoo=self.zoo, options=self.options).data
        return self._identities[photo]

    def target(self, photo: Path) -> Target:
        """A photo to swap.

        Raises:
            NoFaceError: it shows no face. MediaError: it cannot be read.
        """
        image = pixels_of(photo)
        if photo not in self._faces:
            self._faces[photo] = self.analyzed(image).faces
        if not self._faces[photo]:
            raise NoFaceError(f"{photo}: no face was found; leave this photo out")
        return Target(image, self._faces[photo])

    def analyzed(self, image: ByteArray) -> Target:
        """A picture to swap; it may show no face."""
        faces, _ = FrameAnalyzer(self.finder, thorough=True)(ImageFrame(image))
        return Target(image, tuple(sorted(faces, key=lambda face: -float(np.prod(face.bbox[2:] - face.bbox[:2])))))

    def swap(self, identity: IdentityData, target: Target) -> ByteArray:
        """The picture with the person put on each face."""
        height, width = target.image.shape[:2]
        with AnalysisWriter((width, height)) as writer:
            writer.add(0.0, target.faces)
            analysis = writer.finish()
        frame = ImageFrame(target.image.copy())
        with analysis, Pipeline(self.options, self.zoo, identity, analysis).run([frame]) as run:
            (written,) = run
        return _rgb(written)

    @contextmanager
    def clip(self, path: Path, frames: int) -> Iterator[tuple[Analysis, Callable[[], Iterator[ByteArray]]]]:
        """The analysis of a clip's first frames, and what reads them.

        Raises:
            MediaError: it cannot be read.
        """
        with open_reader(path, self.options) as reader:

            def pictures() -> Iterator[ByteArray]:
                return (_rgb(frame) for frame in islice(reader, frames))

            with analyze_frames(islice(reader, frames), FrameAnalyzer(self.finder)) as analysis:
                yield analysis, pictures

    def swap_clip(self, identity: IdentityData, path: Path, frames: int, analysis: Analysis) -> Iterator[ByteArray]:
        """A clip's first frames with the person put on each face."""
        pipeline = Pipeline(self.options, self.zoo, identity, analysis)
        with open_reader(path, self.options) as reader, pipeline.run(islice(reader, frames)) as run:
            for frame in run:
                yield _rgb(frame)


def _rgb(frame: Frame) -> ByteArray:
    return as_bytes(frame.read(Box(0, 0, frame.width, frame.height)))
