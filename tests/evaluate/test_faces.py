from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.errors import NoFaceError
from mien.evaluate.faces import Examiner, pixels_of
from mien.evaluate.judges import open_judges
from mien.options import AnalyzeOptions
from mien.tracking import overlap
from mien.types import Face, Image
from mien.zoo.registry import Zoo


@pytest.fixture(scope="module")
def examiner(models: Zoo) -> Examiner:
    return Examiner(models, AnalyzeOptions(), open_judges(models))


@pytest.fixture(scope="module")
def two(woman_face: tuple[Image, Face], portraits: Path) -> Image:
    """Two portraits side by side; the woman's is on the left."""
    left, right = np.asarray(woman_face[0]), pixels_of(portraits / "male_036.jpg")
    height = min(len(left), len(right))
    return np.ascontiguousarray(np.hstack([left[:height], right[:height]]))


@pytest.mark.parametrize(
    ("box", "expected"), [((0, 0, 4, 4), 1.0), ((2, 0, 6, 4), 8 / 24), ((4, 0, 8, 4), 0.0), ((1, 1, 3, 3), 4 / 16)]
)
def test_overlap_is_intersection_over_union(box: tuple[float, ...], expected: float) -> None:
    a, b = np.array([0, 0, 4, 4], np.float32), np.array(box, np.float32)
    assert overlap(a, b) == pytest.approx(expected)
    assert overlap(b, a) == pytest.approx(expected)


def test_the_face_at_a_place_is_looked_at(examiner: Examiner, two: Image, woman_face: tuple[Image, Face]) -> None:
    woman = woman_face[1]
    found = examiner.look(np.asarray(two), woman)
    assert found is not None and woman.embedding is not None
    assert overlap(found.face.bbox, woman.bbox) > 0.8
    assert float(found.embeddings["mobilefacenet"] @ woman.embedding) > 0.95
    assert found.face.blendshapes is not None


def test_no_other_face_stands_in_for_one_that_is_gone(
    examiner: Examiner, two: Image, woman_face: tuple[Image, Face]
) -> None:
    gone = np.asarray(two).copy()
    gone[:, : woman_face[0].shape[1]] = 90
    assert examiner.look(gone) is not None  # the man
    assert examiner.look(gone, woman_face[1]) is None


def test_a_photo_is_looked_at_once(examiner: Examiner, portraits: Path, tmp_path: Path) -> None:
    path = portraits / "female_001.jpg"
    assert examiner.photo(path) is examiner.photo(path, lambda: None)
    with pytest.raises(NoFaceError, match=r"x\.jpg: no face was found; leave this photo out"):
        examiner.photo(tmp_path / "x.jpg", lambda: None)
