"""Who is in a folder of photos, which of them are judged on, and who is swapped onto whom."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mien.errors import InputError, MediaError, OptionsError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".heic", ".heif", ".avif"})
"""Endings of files that count as photos."""
FIRST = "neutral"
"""A photo with this word in its name stands for its person."""


@dataclass(frozen=True, slots=True)
class Person:
    """One person and their photos."""

    name: str
    """Folder and name, such as `london/001`: the same name in two folders is two people."""
    photos: tuple[Path, ...]
    """The one that stands for the person first."""
    traits: Mapping[str, str] = field(default_factory=dict)
    """Columns of the table, such as `sex`; without those that are empty."""

    @property
    def folder(self) -> str:
        """Folder of the photos, relative to the data; empty for the data folder itself."""
        return self.name.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Pair:
    """One swap: whose face, onto which photo."""

    source: Person
    target: Person
    photo: Path
    """Of the target."""


def read_people(data: Path, table: Path | None = None) -> tuple[Person, ...]:
    """The people of a folder and of its subfolders, by name.

    Without a table a photo's person is its name up to a last `_word` of letters, so `001_smiling.jpg` and
    `001_neutral.jpg` show `001`. With one, people are its rows that have a photo: `PERSON.jpg` or `PERSON_….jpg` in
    `folder`.

    Args:
        table: CSV with the columns `person` and, as far as known, `folder`, `part`, `sex`, `age`, `skin_tone`.

    Raises:
        MediaError: the folder or the table cannot be read. InputError: a table of another kind, or nobody has a photo.
    """
    found = _photos(data)
    if table is None:
        people = [Person(name, _sorted(photos)) for name, photos in sorted(_by_name(found).items())]
    else:
        people = list(_listed(found, table))
    if not people:
        where = f"{data} and its folders" if table is None else f"{data} that {table} names"
        raise InputError(f"no photo in {where}; pass a folder of photos named by person")
    return tuple(people)


def of_part(people: Sequence[Person], part: str) -> tuple[Person, ...]:
    """Those whose `part` is this; all if it is empty.

    Raises:
        OptionsError: nobody is; names the parts that there are.
    """
    if not part:
        return tuple(people)
    chosen = tuple(person for person in people if person.traits.get("part") == part)
    if not chosen:
        parts = ", ".join(sorted({person.traits.get("part", "") for person in people} - {""}))
        raise OptionsError(f"nobody belongs to the part {part!r}; {f'there are: {parts}' if parts else 'leave it out'}")
    return chosen


def of_folders(people: Sequence[Person], folders: str) -> tuple[Person, ...]:
    """Those in folders that are joined by `+`; all if it is empty.

    Raises:
        OptionsError: a folder that nobody is in.
    """
    names = folders.split("+") if folders else []
    there = {person.folder for person in people}
    for name in names:
        if name not in there:
            raise OptionsError(f"nobody lies in the folder {name!r}; there are: {', '.join(sorted(there))}")
    return tuple(person for person in people if not names or person.folder in names)


def draw_pairs(sources: Sequence[Person], targets: Sequence[Person], most: int, seed: int) -> tuple[Pair, ...]:
    """Up to `most` different pairs of two people, each source about as often as any other, and each target too.

    The same for the same people and seed; the first pairs of a longer draw are those of a shorter one.

    Raises:
        InputError: there are no two different people.
    """
    drawn: dict[tuple[str, Path], Pair] = {}
    by_source, by_target = random.Random(f"{seed} sources"), random.Random(f"{seed} targets")
    waiting: list[Person] = []
    before = -1
    while before < len(drawn) < most and targets:
        before = len(drawn)
        for source in by_source.sample(sources, len(sources)):
            if len(drawn) >= most:
                break
            if len(waiting) < len(targets):
                waiting += by_target.sample(targets, len(targets))
            fitting = ((place, _unused(source, target, drawn, seed)) for place, target in enumerate(waiting))
            place, photo = next(((place, photo) for place, photo in fitting if photo is not None), (0, None))
            if photo is not None:
                drawn[source.name, photo] = Pair(source, waiting.pop(place), photo)
    if not drawn and most > 0:
        raise InputError("there are no two different people to swap; pass photos of more people, or another part")
    return tuple(drawn.values())


def _unused(source: Person, target: Person, drawn: Mapping[tuple[str, Path], Pair], seed: int) -> Path | None:
    """A photo of the target that the source was not put on yet; None where there is none."""
    if source.name == target.name:
        return None
    photos = random.Random(f"{seed} {source.name} {target.name}").sample(target.photos, len(target.photos))
    return next((photo for photo in photos if (source.name, photo) not in drawn), None)


def _photos(data: Path) -> Mapping[str, list[Path]]:
    """Folder → photos, for the data folder (the empty name) and those in it."""
    try:
        entries = sorted(data.iterdir())
        folders = [("", data), *((entry.name, entry) for entry in entries if entry.is_dir())]
        return {
            name: [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]
            for name, folder in folders
        }
    except OSError as error:
        raise MediaError(f"{data}: cannot be read ({error.strerror}); pass a folder of photos") from error


def _by_name(found: Mapping[str, list[Path]]) -> dict[str, list[Path]]:
    people: dict[str, list[Path]] = {}
    for folder, photos in found.items():
        for path in photos:
            head, _, word = path.stem.rpartition("_")
            name = head if head and word.isalpha() else path.stem
            people.setdefault(f"{folder}/{name}" if folder else name, []).append(path)
    return people


def _listed(found: Mapping[str, list[Path]], table: Path) -> Iterator[Person]:
    for row in _rows(table):
        folder, name = row.pop("folder", ""), row.pop("person")
        photos = [path for path in found.get(folder, []) if path.stem == name or path.stem.startswith(f"{name}_")]
        if photos:
            traits = {key: value for key, value in row.items() if value}
            yield Person(f"{folder}/{name}" if folder else name, _sorted(photos), traits)


def _rows(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(newline="", encoding="utf-8") as file:
            rows = [{str(k): (v or "").strip() for k, v in row.items() if k} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise MediaError(f"{table}: cannot be read ({reason}); pass a CSV file with a column `person`") from error
    if not rows or any(not row.get("person") for row in rows):
        raise InputError(f"{table}: every row needs a `person`; give the table a heading with that column")
    names = Counter((row.get("folder", ""), row["person"]) for row in rows)
    if twice := next((name for name, times in names.items() if times > 1), None):
        raise InputError(f"{table}: {'/'.join(filter(None, twice))} is there twice; leave one row for each person")
    for row in rows:
        age = row.get("age", "")
        if age and not age.isdigit():
            raise InputError(f"{table}: {row['person']} has the age {age!r}; give whole years, or nothing")
    return rows


def _sorted(photos: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(sorted(photos, key=lambda path: (FIRST not in path.stem, path.name)))
