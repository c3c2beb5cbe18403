"""LFW on drawn pairs whose cosines are those of chosen angles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import InputError
from mien.evaluate.protocols import ProtocolOptions, lfw, run
from tests.evaluate.protocols.drawn import DrawnZoo, blank, draw, save

OPTIONS = ProtocolOptions(robust="off")
SAME = [[5, 10, 20], [5, 10, 20], [5, 10, 70]]
OTHERS = [[60, 75, 85], [60, 75, 85], [30, 75, 85]]
"""Degrees between the two photos of each pair, by fold."""


def angle(folder: Path, photo: str, degrees: float) -> None:
    image = draw(blank(220, 220), 80, 80, 60, degrees)
    draw(image, 2, 2, 24, 90 - degrees)  # somebody else, further from the middle
    save(folder / photo, image)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["3\t3"]
    for fold, (same, others) in enumerate(zip(SAME, OTHERS, strict=True)):
        for i, degrees in enumerate(same):
            name = f"Same_{fold}{i}"
            angle(tmp_path / "lfw", f"{name}/{name}_0001.jpg", 0)
            angle(tmp_path / "lfw", f"{name}/{name}_0012.jpg", degrees)
            lines.append(f"{name}\t1\t12")
        for i, degrees in enumerate(others):
            one, two = f"One_{fold}{i}", f"Two_{fold}{i}"
            angle(tmp_path / "lfw", f"{one}/{one}_0002.jpg", 90)
            angle(tmp_path / "lfw", f"{two}/{two}_0001.jpg", 90 - degrees)
            lines.append(f"{one}\t2\t{two}\t1")
    (tmp_path / "pairs.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_accuracy_thresholds_and_tar_are_those_of_the_angles(folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    report = run("lfw", folder, OPTIONS, zoo=DrawnZoo(), progress=lambda *step: steps.append(step))
    assert isinstance(report, lfw.LfwReport)
    cos = {degrees: np.cos(np.radians(degrees)) for degrees in (20, 30, 60)}
    # Folds 1 and 2 are judged by a threshold below the third's 30°; for fold 3 it lies midway to 60°.
    np.testing.assert_allclose(report.thresholds, [(cos[20] + cos[30]) / 2] * 2 + [(cos[20] + cos[60]) / 2], atol=2e-3)
    assert report.fold_accuracies == pytest.approx((1, 1, 4 / 6))
    assert report.accuracy == pytest.approx(8 / 9)
    assert report.standard_error == pytest.approx(1 / 9)
    assert report.tar == pytest.approx(8 / 9)  # no different pair may be accepted, so cos 30° is the limit
    assert (report.pairs, report.photos, report.photos_without_face) == (18, 36, ())
    assert steps[-1] == (36, 36) and len(steps) == 36
    assert report.notes == ()


def test_the_report_is_json_and_a_table(folder: Path) -> None:
    report = run("lfw", folder, OPTIONS, zoo=DrawnZoo())
    told = json.loads(report.to_json())
    assert told["protocol"] == "lfw" and told["accuracy"] == pytest.approx(8 / 9) and told["far"] == 1e-3
    heading, row = report.lines()[1:3]
    assert heading.split()[0] == "embedder"
    assert row.split() == ["mobilefacenet", "18", "88.89", "%", "11.11", "%", "88.89", "%", "0.842"]


def test_photos_without_a_face_are_told_and_count_as_two_people(folder: Path) -> None:
    save(folder / "lfw/Same_00/Same_00_0012.jpg", blank(120, 120))
    save(folder / "lfw/One_00/One_00_0002.jpg", blank(120, 120))
    report = run("lfw", folder, OPTIONS, zoo=DrawnZoo())
    assert isinstance(report, lfw.LfwReport)
    assert report.photos_without_face == ("One_00/One_00_0002.jpg", "Same_00/Same_00_0012.jpg")
    assert report.fold_accuracies == pytest.approx((5 / 6, 1, 4 / 6))
    assert report.tar == pytest.approx(7 / 9)
    assert "2 photos; their 2 pairs" in report.notes[0]


def test_a_limit_takes_the_first_pairs_of_each_kind_and_fold(folder: Path) -> None:
    report = run("lfw", folder, ProtocolOptions(robust="off", limit=2), zoo=DrawnZoo())
    assert isinstance(report, lfw.LfwReport)
    assert report.pairs == 12 and report.fold_accuracies == pytest.approx((1, 1, 3 / 4))
    assert "only 2" in report.notes[0]


def test_deepfunneled_folders_are_found(folder: Path) -> None:
    (folder / "lfw").rename(folder / "deep")
    (folder / "lfw-deepfunneled").mkdir()
    (folder / "deep").rename(folder / "lfw-deepfunneled" / "lfw-deepfunneled")
    report = run("lfw", folder, OPTIONS, zoo=DrawnZoo())
    assert isinstance(report, lfw.LfwReport) and report.accuracy == pytest.approx(8 / 9)


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "lfw/Two_21/Two_21_0001.jpg").unlink()
    with pytest.raises(InputError, match=r"Two_21_0001\.jpg: is missing"):
        run("lfw", folder, OPTIONS, zoo=DrawnZoo())
    (folder / "lfw").rename(folder / "elsewhere")
    with pytest.raises(InputError, match="the first photo is missing, looked for lfw/Same_00"):
        run("lfw", folder, OPTIONS, zoo=DrawnZoo())
    (folder / "pairs.txt").unlink()
    with pytest.raises(InputError, match=r"looked for pairs\.txt .* docs/protocols\.md"):
        run("lfw", folder, OPTIONS, zoo=DrawnZoo())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is not two counts"),
        ("10\t300\tx\n", "line 1 is not two counts"),
        ("2\t1\nA\t1\t2\n", "1 pairs, not 2 × 2 × 1"),
        ("2\t1\nA\t1\t2\nA\t1\tB\t1\nA\t1\tB\t1\nA\t1\tB\t1\n", "line 4 is no pair of one person"),
        ("2\t1\nA\t1\t2\nA\t1\tB\tx\nA\t1\t2\nA\t1\tB\t1\n", "line 3 is no pair of two people"),
    ],
)
def test_a_list_that_is_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        lfw.parse(tmp_path / "pairs.txt")


@given(st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=2, max_size=30))
@settings(deadline=None)
def test_no_threshold_is_better_than_the_best(told: list[tuple[int, bool]]) -> None:
    scores, same = np.array([s / 20 for s, _ in told]), np.array([y for _, y in told])
    chosen = lfw.best_threshold(scores, same)
    right = ((scores >= chosen) == same).sum()
    assert right == max(((scores >= t) == same).sum() for t in [*scores, 2.0, -2.0])


def test_true_accepts_at_a_rate() -> None:
    same = np.repeat([True, False], [4, 2000])
    scores = np.concatenate([[0.1, 0.5, 0.7, 0.9], np.linspace(-1, 0, 1997), [0.6, 0.8, 0.4]])
    # Two of 2000 may be accepted, those at 0.8 and 0.6; so 0.4 must not be, and what is above it is.
    assert lfw.true_accepts(scores, same, 1e-3) == 0.75
    assert lfw.true_accepts(scores, same, 0.0) == 0.25
