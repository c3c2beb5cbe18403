"""The work bench of an evaluation: swaps are made and judged here, a row at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from mien.analysis import Analysis
from mien.errors import GeometryError, MediaError, NoFaceError
from mien.evaluate.border import border
from mien.evaluate.engine import Engine, Target
from mien.evaluate.faces import Examiner, Look, pixels_of
from mien.evaluate.flicker import face_map, flicker
from mien.evaluate.gallery import Gallery
from mien.evaluate.images import WINDOW, psnr, ssim
from mien.evaluate.judges import Classifier, Perceptual
from mien.evaluate.measures import LIKE, Kind
from mien.evaluate.people import Pair, Person
from mien.evaluate.report import Row
from mien.evaluate.slices import covered_share, slices_of
from mien.shape import pose_difference
from mien.types import ByteArray, Face, FloatArray

OnSwap = Callable[[Row, "Swapped"], None]
Twin = tuple[Path, Path, Person]
"""Source, target, and whose photos they are."""
T = TypeVar("T")
UNUSABLE = (NoFaceError, MediaError, GeometryError)
"""What a photo or a clip may raise that cannot be swapped."""


@dataclass(frozen=True, slots=True, eq=False)
class Swapped:
    """The pictures of one swap, for sheets."""

    source: ByteArray
    source_face: Face
    target: ByteArray
    output: ByteArray
    face: Face
    """The target's."""
    place: tuple[float, float] | None
    """Of the most visible border."""


@dataclass(slots=True, eq=False)
class Bench:
    """Makes and judges swaps. What cannot be swapped is left out and told in `skipped`."""

    data: Path
    engine: Engine
    examiner: Examiner
    gallery: Gallery
    seed: int
    classifier: Classifier | None = None
    """Of swapped faces."""
    on_swap: OnSwap | None = None
    """Called with each swap of two people."""
    skipped: list[str] = field(default_factory=list)
    _covered: dict[Path, float] = field(default_factory=dict)

    def swaps(self, pairs: Sequence[Pair]) -> Iterator[Row | None]:
        """Two people each; None for a pair that was left out."""
        for pair in pairs:
            yield self._kept(self._swap, pair)

    def same_person(self, photos: Sequence[Twin]) -> Iterator[Row | None]:
        """One photo of a person onto another; the output should be the target."""
        perceptual = Perceptual()
        for source, target, person in photos:
            yield self._kept(self._same, source, target, person, perceptual)

    def cycles(self, people: Sequence[Person], most: int) -> Iterator[Row | None]:
        """A's photo swapped to B, and the result back to A by the same photo; it should be A's photo again."""
        chance = random.Random(f"{self.seed} cycles")
        for person in chance.sample(people, min(most, len(people))) if len(people) > 1 else ():
            other = chance.choice([each for each in people if each.name != person.name])
            yield self._kept(self._cycle, person, other)

    def clips(self, people: Sequence[Person], paths: Sequence[Path], swaps: int, frames: int) -> Iterator[Row | None]:
        """People put on the first frames of clips."""
        for path in paths:
            chosen = random.Random(f"{self.seed} {path.name}").sample(people, min(swaps, len(people)))
            if not chosen:
                return
            with ExitStack() as stack:
                opened = self._kept(lambda path=path: stack.enter_context(self.engine.clip(path, frames)))
                if opened is None:
                    continue
                analysis, pictures = opened
                before = self._maps(pictures(), analysis)
                for person in chosen:
                    yield self._kept(self._clip, person, path, frames, analysis, before)

    def _kept(self, work: Callable[..., T], *arguments: object) -> T | None:
        """What it gives; None for what cannot be swapped, which is told: one bad photo must not end a long run."""
        try:
            return work(*arguments)
        except UNUSABLE as error:
            text = str(error).replace(f"{self.data}/", "")
            if text not in self.skipped:
                self.skipped.append(text)
            return None

    def _swap(self, pair: Pair) -> Row:
        photo = pair.source.photos[0]
        target, source = self.engine.target(pair.photo), self.examiner.photo(photo)
        face = target.faces[0]
        before = self._target_look(pair.photo, target)
        output = self.engine.swap(self.engine.identity(photo), target)
        after = self.examiner.look(output, face)
        rim = border(target.image, output, face.mesh)
        values = {"result": float(after is not None), "seam": rim.seam, "softened": rim.softened, "cast": rim.cast}
        if self.classifier is not None:
            # One crop for both: how well the mesh fits an output must not tell it from its photo.
            values["swapped_before"] = self.classifier(target.image, face.mesh)
            values["swapped_after"] = self.classifier(output, face.mesh)
        if after is not None:
            values |= self._identity(pair.source, source, before, after)
            values["expression"] = _expression(after.face, face)
            values["expression_before"] = _expression(source.face, face)
            values["pose"] = pose_difference(after.face.mesh, face.mesh)
        slices = slices_of(pair.source, pair.target, face, self._cover(pair.photo, target))
        row = self._row("swap", photo, pair.photo, (pair.source, pair.target), values, slices)
        if self.on_swap is not None:
            self.on_swap(row, Swapped(pixels_of(photo), source.face, target.image, output, face, rim.place))
        return row

    def _target_look(self, photo: Path, target: Target) -> Look:
        return self.examiner.photo(photo, lambda: self.examiner.describe(target.image, target.faces[0]))

    def _identity(self, person: Person, source: Look, target: Look, output: Look) -> dict[str, float]:
        values = {}
        for judge in self.examiner.judges:
            name = judge.name
            found = output.embeddings[name]
            to_source, to_target = float(found @ source.embeddings[name]), float(found @ target.embeddings[name])
            values[f"{name}.source"], values[f"{name}.target"] = to_source, to_target
            values[f"{name}.nearer"] = float(to_source > to_target)
            values[f"{name}.like"] = float(to_source > LIKE)
            values[f"{name}.top1"] = float(self.gallery.first(name, found) == person.name)
        return values

    def _same(self, source: Path, photo: Path, person: Person, perceptual: Perceptual) -> Row:
        target = self.engine.target(photo)
        output = self.engine.swap(self.engine.identity(source), target)
        values = self._against(target.image, output, target.faces[0], self._target_look(photo, target))
        values["perceptual"] = perceptual(output, target.image, target.faces[0])
        return self._row("same", source, photo, (person, person), values)

    def _cycle(self, person: Person, other: Person) -> Row:
        photo = person.photos[0]
        target = self.engine.target(photo)
        there = self.engine.analyzed(self.engine.swap(self.engine.identity(other.photos[0]), target))
        if not there.faces:
            raise NoFaceError(f"{photo}: no face was found once it was swapped to {other.name}")
        back = self.engine.swap(self.engine.identity(photo), there)
        values = self._against(target.image, back, target.faces[0], self._target_look(photo, target))
        return self._row("cycle", other.photos[0], photo, (other, person), values)

    def _against(self, truth: ByteArray, output: ByteArray, face: Face, look: Look) -> dict[str, float]:
        """How far an output is from the photo that it should be, inside the detector's box."""
        x0, y0, x1, y1 = face.bbox.round().astype(int)
        part = np.s_[max(0, y0) : max(y1, y0 + WINDOW), max(0, x0) : max(x1, x0 + WINDOW)]
        values = {"psnr": psnr(output[part], truth[part]), "ssim": ssim(output[part], truth[part])}
        after = self.examiner.look(output, face)
        for name, vector in after.embeddings.items() if after is not None else ():
            values[f"{name}.target"] = float(vector @ look.embeddings[name])
        return values

    def _clip(self, person: Person, path: Path, frames: int, analysis: Analysis, before: Sequence[FloatArray]) -> Row:
        photo = person.photos[0]
        output = self.engine.swap_clip(self.engine.identity(photo), path, frames, analysis)
        values = {"flicker": flicker(before, self._maps(output, analysis))}
        return self._row("clip", photo, path, (person, Person(path.stem, (path,))), values)

    def _maps(self, pictures: Iterator[ByteArray], analysis: Analysis) -> list[FloatArray]:
        """The largest face of each frame; NaN where there is none."""
        found = []
        for picture, faces in zip(pictures, analysis, strict=False):
            largest = max(faces, key=lambda face: float(np.prod(face.bbox[2:] - face.bbox[:2])), default=None)
            found.append(face_map(picture, None if largest is None else largest.mesh))
        return found

    def _cover(self, photo: Path, target: Target) -> float:
        if photo not in self._covered:
            masker = self.engine.zoo.load("masker", "occluder")
            self._covered[photo] = covered_share(target.image, target.faces[0].mesh, [masker])
        return self._covered[photo]

    def _row(
        self, kind: Kind, source: Path, target: Path, people: tuple[Person, Person], values: dict[str, float],
        slices: dict[str, str] | None = None,
    ) -> Row:  # fmt: skip
        own, other = (path.relative_to(self.data).as_posix() for path in (source, target))
        known = {name: value for name, value in values.items() if np.isfinite(value)}
        return Row(kind, own, other, people[0].name, people[1].name, slices or {}, known)


def twins(people: Sequence[Person]) -> list[Twin]:
    """First photo and second, and the other way round, of those people who have two, in order."""
    return [
        (first, second, person)
        for person in people
        if len(person.photos) > 1
        for first, second in (person.photos[:2], person.photos[1::-1])
    ]


def _expression(a: Face, b: Face) -> float:
    """Mean difference of the blendshapes of two faces that were asked for them."""
    assert a.blendshapes is not None and b.blendshapes is not None
    return float(np.abs(a.blendshapes - b.blendshapes).mean())
