"""Photos beside which hand-placed points lie, and how far the landmarks of their faces are from these."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mien.errors import GeometryError, InputError, MediaError, NoFaceError
from mien.evaluate.faces import Examiner
from mien.evaluate.landmarks import LAYOUTS, scored
from mien.evaluate.people import Person
from mien.evaluate.report import Row
from mien.evaluate.statistics import BoolArray
from mien.types import FloatArray

SUFFIXES = (".tem", ".pts", ".txt")
"""Endings of the file beside a photo, in the order in which they are looked for."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """A photo with hand-placed points."""

    person: str
    photo: Path
    points: FloatArray
    """(K, 2) pixels of one of `LAYOUTS`, the middle of the first pixel at 0, 0."""

    @property
    def bbox(self) -> FloatArray:
        """(4,) x0, y0, x1, y1 around the points that are scored."""
        points = self.points[list(LAYOUTS[len(self.points)].scored)]
        return np.concatenate([points.min(0), points.max(0)])


@dataclass(slots=True, eq=False)
class HandPlaced:
    """Compares landmarks with hand-placed points. What cannot be used is left out and told in `skipped`."""

    data: Path
    examiner: Examiner
    skipped: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    """What the figures are of, for the report's settings; empty where there are none."""

    def marked(self, people: Sequence[Person], most: int, seed: int) -> list[Marked]:
        """Up to `most` photos with points, drawn by photo; all of one layout, that of most photos."""
        photos = [(person, photo) for person in people for photo in person.photos] if most else []
        found = []
        for person, photo in photos:
            try:
                points = points_of(photo)
            except InputError as error:
                self._skip(error)
            else:
                found += [] if points is None else [Marked(person.name, photo, points)]
        counts = Counter(len(each.points) for each in found)
        for count, photos_of_it in counts.most_common()[1:]:
            self._skip(
                f"landmarks: {photos_of_it} photos have {count} points, unlike most; evaluate them by themselves"
            )
        of_most = [each for each in found if len(each.points) == counts.most_common(1)[0][0]]
        return random.Random(f"{seed} landmarks").sample(of_most, len(of_most))[:most]

    def rows(self, photos: Sequence[Marked], tell: Callable[[int], None] = lambda done: None) -> Iterator[Row]:
        """A row for each photo of those people whom no offset was fitted on."""
        seen, meshes = list[Marked](), list[FloatArray]()
        for done, each in enumerate(photos, 1):
            try:
                meshes.append(self.examiner.face_in(each.photo, each.bbox).mesh)
                seen.append(each)
            except (NoFaceError, MediaError, GeometryError) as error:
                self._skip(error)
            tell(done)
        fitted = halves([each.person for each in seen])
        if not fitted.any():
            if seen:
                self._skip("landmarks: one person alone has points, and offsets are fitted on others; add people")
            return
        rest = [each for each, known in zip(seen, fitted, strict=True) if not known]
        points = np.stack([each.points for each in seen])
        everyone, others = (len({each.person for each in some}) for some in (seen, rest))
        layout = LAYOUTS[points.shape[1]]
        used = f"{len(layout.scored)} of {points.shape[1]} points"
        self.told["landmarks_of"] = f"{used}; {everyone - others} people fitted, {others} scored"
        for each, away in zip(rest, scored(np.stack(meshes), points, fitted) * 100, strict=True):
            name = each.photo.relative_to(self.data).as_posix()
            values = {"landmarks": _mean(away, layout.scored), "jaw": _mean(away, layout.jaw)}
            yield Row("landmarks", name, name, each.person, each.person, {}, values)

    def _skip(self, why: object) -> None:
        self.skipped.append(str(why).replace(f"{self.data}/", ""))


def halves(people: Sequence[str]) -> BoolArray:
    """(N,) whether a photo's person is one of those whom offsets are fitted on; all False where it is one person.

    Those whose name has an even number, such as `london/002`: whoever joins leaves the others where they are. Where
    somebody has no number, or all are of one kind, every second one by name.
    """
    names = sorted(set(people))
    numbers = [_NUMBER.search(name.rpartition("/")[2]) for name in names]
    even = {name: int(number[0]) % 2 == 0 for name, number in zip(names, numbers, strict=True) if number}
    if len(even) < len(names) or len(set(even.values())) < 2:
        even = {name: place % 2 == 1 for place, name in enumerate(names)}
    return np.array([even[person] for person in people], np.bool_)


def points_of(photo: Path) -> FloatArray | None:
    """(K, 2) hand-placed points of a photo, in pixels; None where no file of them lies beside it.

    Raises:
        InputError: a file of points that cannot be read, or of a layout that is not known.
    """
    file = next((path for suffix in SUFFIXES if (path := photo.with_suffix(suffix)).is_file()), None)
    return None if file is None else read_points(file)


def read_points(path: Path) -> FloatArray | None:
    """(K, 2) points of a file, in pixels from the middle of the first one; None for a `.txt` of something else.

    `.tem` of Psychomorph and WebMorph: the number of points, the points, then lines between them. `.pts` of iBUG: the
    points in braces, counted from 1. `.txt`: the points alone, `#` before comments.

    Raises:
        InputError: it cannot be read, or has points of no layout in `LAYOUTS`.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
        points = _parsed(lines, path.suffix)
    except (OSError, ValueError, IndexError) as error:
        if path.suffix == ".txt":
            return None
        raise InputError(
            f"{path}: cannot be read as hand-placed points ({error}); take the file from the set's own archive"
        ) from error
    if len(points) in LAYOUTS:
        return points
    if path.suffix == ".txt":
        return None
    known = ", ".join(map(str, LAYOUTS))
    raise InputError(
        f"{path}: has {len(points)} points; layouts of {known} are known, so remove it or take one of them"
    )


def _parsed(lines: Sequence[str], suffix: str) -> FloatArray:
    rows = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    shift = 0.0
    if suffix == ".tem":
        count = int(rows[0][0])
        rows = rows[1 : 1 + count]
        if len(rows) != count:
            raise ValueError(f"{len(rows)} of {count} points")
    elif suffix == ".pts":
        rows, shift = rows[rows.index(["{"]) + 1 : rows.index(["}"])], 1.0
    numbers = [[float(value) for value in row] for row in rows]
    if not all(len(row) == 2 and all(map(math.isfinite, row)) for row in numbers):
        raise ValueError("a point is two numbers")
    return np.array(numbers, np.float32).reshape(-1, 2) - np.float32(shift)


def _mean(away: FloatArray, points: Sequence[int]) -> float:
    return float(away[list(points)].mean())
