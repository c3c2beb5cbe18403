"""Labeled Faces in the Wild, view 2: ten-fold accuracy of telling whether two photos show one person.

Huang et al., "Labeled Faces in the Wild: A Database for Studying Face Recognition in Unconstrained Environments",
2007. Of each fold's pairs, those count as right whose cosine is on the right side of the threshold that is best on the
other folds. Embedders trained on other people's photos run under "unrestricted, with labeled outside data".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mien.errors import InputError
from mien.evaluate.protocols.common import Report, Work, faces_of, nearest, percent, pixels, read_lines
from mien.faces import ArrayFrame, FaceFinder
from mien.types import FloatArray

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FOLDERS = ("lfw", "lfw_funneled", "lfw-deepfunneled", "lfw-deepfunneled/lfw-deepfunneled", "lfw-deepfunneled/lfw")
FAR = 1e-3
UNSEEN = -1.0
"""Cosine given to a pair one of whose faces was not found: two people."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two photos, as paths inside the folder of photos."""

    first: str
    second: str
    same: bool
    fold: int


@dataclass(frozen=True, slots=True)
class LfwReport(Report):
    """Verification on LFW."""

    protocol: ClassVar[str] = "lfw"
    embedder: str
    accuracy: float
    """Mean over the folds, 0–1."""
    standard_error: float
    """Of that mean: the folds' standard deviation over √folds."""
    fold_accuracies: tuple[float, ...]
    thresholds: tuple[float, ...]
    """Cosine for each fold, chosen on the others."""
    tar: float
    """Share of same pairs accepted where at most `FAR` of the others are, over all folds."""
    far: float
    pairs: int
    photos: int
    photos_without_face: tuple[str, ...]

    def table(self) -> list[list[str]]:
        """Accuracy and TAR."""
        return [
            ["embedder", "pairs", "accuracy", "± standard error", f"TAR at FAR {self.far:g}", "threshold"],
            [
                self.embedder, str(self.pairs), percent(self.accuracy), percent(self.standard_error), percent(self.tar),
                f"{np.mean(self.thresholds):.3f}",
            ],
        ]  # fmt: skip


def evaluate(work: Work) -> LfwReport:
    """Run the protocol; see `protocols.run`."""
    pairs = parse(work.first(("pairs.txt", "lfw/pairs.txt"), "the list of pairs"), work.options.limit)
    photos = _photos(work, pairs)
    finder = FaceFinder(work.zoo, work.options)
    names = sorted({name for pair in pairs for name in (pair.first, pair.second)})
    known: dict[str, FloatArray | None] = {}
    for name in names:
        known[name] = _embedding(finder, photos / name)
        work.tell(len(known), len(names))
    scores = np.array([_cosine(known[pair.first], known[pair.second]) for pair in pairs])
    same, folds = np.array([pair.same for pair in pairs]), np.array([pair.fold for pair in pairs])
    accuracies, thresholds = ten_fold(scores, same, folds)
    missed = tuple(name for name in names if known[name] is None)
    affected = sum(known[p.first] is None or known[p.second] is None for p in pairs)
    return LfwReport(
        folder=str(work.folder),
        models=work.models(),
        notes=_notes(work, missed, affected),
        embedder=work.options.embedder,
        accuracy=float(np.mean(accuracies)),
        standard_error=float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))),
        fold_accuracies=tuple(accuracies),
        thresholds=tuple(thresholds),
        tar=true_accepts(scores, same, FAR),
        far=FAR,
        pairs=len(pairs),
        photos=len(names),
        photos_without_face=missed,
    )


def parse(path: Path, limit: int = 0) -> list[Pair]:
    """The pairs of `pairs.txt`: a line of counts, then for each fold its same pairs and its different ones.

    Args:
        limit: same and different pairs of a fold that are taken; 0: all.

    Raises:
        InputError: the file is something else, or ends early; names the line.
    """
    lines = [line.split() for line in read_lines(path)]
    if not lines or len(lines[0]) != 2 or not all(part.isdigit() for part in lines[0]):
        raise InputError(f"{path}: line 1 is not two counts such as '10 300'; take pairs.txt of view 2")
    folds, count = map(int, lines[0])
    if folds < 2 or not count or len(lines) != 1 + 2 * folds * count:
        raise InputError(f"{path}: {len(lines) - 1} pairs, not 2 × {folds} × {count}; take pairs.txt of view 2 again")
    pairs = []
    for place, parts in enumerate(lines[1:]):
        fold, order = divmod(place, 2 * count)
        same = order < count
        if len(parts) != (3 if same else 4) or not all(part.isdigit() for part in parts[1::2]):
            raise InputError(f"{path}: line {place + 2} is no pair of {'one person' if same else 'two people'}")
        if limit and order % count >= limit:
            continue
        (one, first), second = parts[:2], parts[2:]
        pairs.append(Pair(_photo(one, first), _photo(second[0] if not same else one, second[-1]), same, fold))
    return pairs


def ten_fold(scores: Array, same: BoolArray, folds: npt.NDArray[np.int_]) -> tuple[list[float], list[float]]:
    """Accuracy of each fold, and the threshold that was chosen for it on all the others.

    Args:
        scores: (n,) cosines.
        same: (n,) whether the pair is of one person.
        folds: (n,) to which fold it belongs.
    """
    accuracies, thresholds = [], []
    for fold in np.unique(folds):
        own = folds == fold
        threshold = best_threshold(scores[~own], same[~own])
        accuracies.append(float(((scores[own] >= threshold) == same[own]).mean()))
        thresholds.append(threshold)
    return accuracies, thresholds


def best_threshold(scores: Array, same: BoolArray) -> float:
    """The threshold with the most pairs on the right side; of several, the one in the middle.

    Between two neighbouring scores it is their mean.
    """
    levels = np.unique(scores)
    candidates = np.concatenate([levels[:1], (levels[1:] + levels[:-1]) / 2, levels[-1:] + 1e-6])
    yes, no = np.sort(scores[same]), np.sort(scores[~same])
    right = len(yes) - np.searchsorted(yes, candidates) + np.searchsorted(no, candidates)
    best = np.flatnonzero(right == right.max())
    return float(candidates[best[len(best) // 2]])


def true_accepts(scores: Array, same: BoolArray, far: float) -> float:
    """Share of same pairs above a threshold that at most the share `far` of the different ones exceed."""
    others = np.sort(scores[~same])[::-1]
    allowed = int(np.floor(far * len(others) + 1e-9))
    return float((scores[same] > others[allowed]).mean()) if len(others) and same.any() else float("nan")


def _photo(name: str, number: str) -> str:
    return f"{name}/{name}_{int(number):04d}.jpg"


def _photos(work: Work, pairs: Sequence[Pair]) -> Path:
    """The folder of people."""
    return work.first([f"{folder}/{pairs[0].first}" for folder in (*FOLDERS, ".")], "the first photo").parents[1]


def _embedding(finder: FaceFinder, path: Path) -> FloatArray | None:
    """Of the face nearest to the middle: the photos are cut so that the named person is there."""
    image = pixels(path)
    face = nearest(faces_of(finder, image), np.array([image.shape[1] / 2, image.shape[0] / 2], np.float32))
    return None if face is None else finder.embed(ArrayFrame(image), face)


def _cosine(a: FloatArray | None, b: FloatArray | None) -> float:
    return UNSEEN if a is None or b is None else float(a @ b)


def _notes(work: Work, missed: Sequence[str], affected: int) -> tuple[str, ...]:
    told = []
    if missed:
        told.append(f"no face was found in {len(missed)} photos; their {affected} pairs count as told to be two people")
    if work.options.limit:
        told.append(f"only {work.options.limit} same and different pairs of each fold were taken")
    return tuple(told)
