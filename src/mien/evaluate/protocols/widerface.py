"""WIDER FACE, validation set: average precision of a detector at an overlap of one half.

Yang et al., "WIDER FACE: A Face Detection Benchmark", 2016. The computation is that of the set's own evaluation code,
see `wider_ap`. With its lists of difficulties the figures are the published easy, medium and hard; without them, the
same computation is told for heights of faces, which nobody else publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from mien.errors import InputError
from mien.evaluate.protocols.common import Report, Work, number, percent, pixels, read_lines
from mien.evaluate.protocols.matfile import read_mat
from mien.evaluate.protocols.wider_ap import Array, BoolArray, Found, Truth, average_precision
from mien.faces import FaceFinder
from mien.types import ByteArray, Detection
from mien.views import ArrayFrame, View, view_of
from mien.zoo.cascade import load_detector

LOWEST = 0.02
"""Detector score from which on boxes count; the usual one for this set."""
SMALLEST = 10
"""Height in pixels below which faces are ignored where there is no list of difficulties."""
HEIGHTS = {"all": (SMALLEST, np.inf), "small": (SMALLEST, 50), "medium height": (50, 300), "large": (300, np.inf)}
"""Heights in pixels of the set's own groups by scale, from … to below."""
DIFFICULTIES = ("easy", "medium", "hard")
GROUND_TRUTH = ("ground_truth", "eval_tools/ground_truth", "wider_face_split", ".")
_COLUMNS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A photo of the list."""

    name: str
    """EVENT/FILE.jpg"""
    boxes: Array
    """(N, 4) x, y, width, height in pixels."""
    valid: BoolArray
    """(N,)"""


@dataclass(frozen=True, slots=True)
class Group:
    """Faces that are judged together; all others are ignored, whether they are found or not."""

    name: str
    faces: int
    average_precision: float
    """0–1; NaN where there are no such faces."""
    recall: float
    """Share found at the lowest score."""


@dataclass(frozen=True, slots=True)
class WiderReport(Report):
    """Detection on WIDER FACE."""

    protocol: ClassVar[str] = "widerface"
    detector: str
    whole_search: bool
    photos: int
    groups: tuple[Group, ...]

    def table(self) -> list[list[str]]:
        """A row for each group."""
        rows = [[g.name, str(g.faces), percent(g.average_precision), percent(g.recall)] for g in self.groups]
        return [[self.detector, "faces", "AP", "recall"], *rows]


def evaluate(work: Work) -> WiderReport:
    """Run the protocol; see `protocols.run`."""
    pictures = parse(work.first(["wider_face_split/wider_face_val_bbx_gt.txt"], "the list of faces"))
    lists = difficulties(work.folder, pictures)
    pictures = pictures[: work.options.limit or None]
    photos = work.first(["WIDER_val/images"], "the folder of photos")
    look = _Look(work)
    found = []
    for picture in pictures:
        found.append(look(pixels(photos / picture.name)))
        work.tell(len(found), len(pictures))
    judged = {name: [kept[picture.name] for picture in pictures] for name, kept in lists.items()}
    judged |= {name: [_of_height(picture, *limits) for picture in pictures] for name, limits in HEIGHTS.items()}
    return WiderReport(
        folder=str(work.folder),
        models=work.models(),
        notes=_notes(work, bool(lists)),
        detector=work.options.detector,
        whole_search=work.options.search,
        photos=len(pictures),
        groups=tuple(_group(name, found, pictures, kept) for name, kept in judged.items()),
    )


def parse(path: Path) -> list[Picture]:
    """The photos of `wider_face_val_bbx_gt.txt`: name, number of faces, a line for each (one of zeros for none).

    Raises:
        InputError: the file is something else, or ends early; names the photo.
    """
    lines = iter(read_lines(path))
    pictures = []
    for line in lines:
        name = line.strip()
        count = next(lines, "").strip()
        if not _inside(name) or not count.isdigit():
            raise InputError(
                f"{path}: {name!r} is not followed by a number of faces; take the list from wider_face_split"
            )
        rows = [next(lines, "").split() for _ in range(max(1, int(count)))]
        if any(len(row) != _COLUMNS for row in rows):
            raise InputError(
                f"{path}: {name}: faces are not {_COLUMNS} numbers each; take the list from wider_face_split"
            )
        values = np.array([[number(v, f"{path}: {name}") for v in row] for row in rows])[: int(count)]
        pictures.append(Picture(name, values[:, :4], values[:, 7] == 0))
    return pictures


def difficulties(folder: Path, pictures: Sequence[Picture]) -> Mapping[str, Mapping[str, BoolArray]]:
    """Difficulty → photo → (N,) whether each face counts; empty where the set's lists are not there.

    Raises:
        InputError: a list that is not of these photos.
    """
    home = next((folder / name for name in GROUND_TRUTH if (folder / name / "wider_easy_val.mat").exists()), None)
    if home is None:
        return {}
    return {name: _difficulty(home / f"wider_{name}_val.mat", pictures) for name in DIFFICULTIES}


def _difficulty(path: Path, pictures: Sequence[Picture]) -> Mapping[str, BoolArray]:
    told = read_mat(path)
    kept = {picture.name: np.zeros(len(picture.boxes), bool) for picture in pictures}
    try:
        for event, files, faces in zip(*(told[key] for key in ("event_list", "file_list", "gt_list")), strict=True):
            for file, numbers in zip(files, faces, strict=True):
                kept[f"{event}/{file}.jpg"][np.asarray(numbers, int).ravel() - 1] = True  # counted from 1
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not of the photos of wider_face_val_bbx_gt.txt ({error}); take both again"
        ) from error
    return kept


class _Look:
    """What is found in a photo: by the detector at the photo's own size, or by the whole search."""

    def __init__(self, work: Work) -> None:
        self._options = work.options
        self._finder = FaceFinder(work.zoo, work.options) if work.options.search else None
        self._detector = load_detector(work.zoo, work.options.detector)

    def __call__(self, image: ByteArray) -> Found:
        if self._finder is not None:
            return _found(self._finder.find_in_image(image, embeddings=False))
        return _found(list(self._hits(image)))

    def _hits(self, image: ByteArray) -> Iterator[Detection]:
        frame = ArrayFrame(image)
        side = self._options.detect_size or max(frame.width, frame.height)
        view: View = view_of(frame.thumbnail(side), frame.width, frame.height)
        for hit in self._detector(view.image, LOWEST):
            corners = hit.bbox.reshape(2, 2) @ view.to_frame[:, :2].T + view.to_frame[:, 2]
            yield Detection(corners.ravel(), hit.score, hit.keypoints)


def _found(hits: Sequence[Any]) -> Found:
    best = sorted(hits, key=lambda hit: -hit.score)
    boxes = np.array([hit.bbox for hit in best], np.float64).reshape(-1, 4)
    return Found(np.c_[boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], np.array([hit.score for hit in best], np.float64))


def _of_height(picture: Picture, low: float, high: float) -> BoolArray:
    """(N,) valid faces of these heights."""
    heights = picture.boxes[:, 3]
    return np.asarray(picture.valid & (heights >= low) & (heights < high))


def _group(name: str, found: Sequence[Found], pictures: Sequence[Picture], kept: Sequence[BoolArray]) -> Group:
    truth = [Truth(picture.boxes, counts) for picture, counts in zip(pictures, kept, strict=True)]
    precision, recall = average_precision(found, truth)
    return Group(name, int(sum(counts.sum() for counts in kept)), precision, recall)


def _inside(name: str) -> bool:
    """Whether it names a photo in a folder of an event, and nothing elsewhere."""
    path = PurePosixPath(name)
    return len(path.parts) == 2 and ".." not in path.parts and path.suffix == ".jpg"


def _notes(work: Work, listed: bool) -> tuple[str, ...]:
    told = []
    if not listed:
        told.append(
            "wider_easy_val.mat, wider_medium_val.mat and wider_hard_val.mat are not there, so the published "
            f"difficulties cannot be told; groups are of valid faces by height, from {SMALLEST} px"
        )
    if work.options.search:
        told.append(f"the whole search gives no box below its own scores (min_score {work.options.min_score:g})")
    if work.options.limit:
        told.append(f"only the first {work.options.limit} photos were taken")
    return tuple(told)
