"""Landmarks against hand-placed points: drawn heads and portraits whose points are known ways off their meshes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mien.errors import InputError, NoFaceError
from mien.evaluate import EvalReport, evaluate
from mien.evaluate.faces import Examiner, pixels_of
from mien.evaluate.handplaced import HandPlaced, Marked, halves, read_points
from mien.evaluate.landmarks import LAYOUTS, fit, inter_ocular, scored
from mien.evaluate.people import Person, read_people
from mien.evaluate.report import Row, summarise
from mien.evaluate.tables import lines, markdown
from mien.mesh import view68, view98
from mien.options import AnalyzeOptions
from mien.types import Face, FloatArray
from mien.zoo.registry import Zoo
from tests import heads

NONE: Mapping[str, Any] = {"pairs": 1, "same_person": 0, "cycles": 0, "clip_swaps": 0}


class Drawn:
    """An examiner of drawn heads: each photo's face is known."""

    def __init__(self, meshes: Mapping[str, FloatArray]) -> None:
        self.meshes = meshes

    def face_in(self, path: Path, bbox: FloatArray) -> Face:
        if path.stem not in self.meshes:
            raise NoFaceError(f"{path}: no face was found where its hand-placed points are; leave the points out")
        return heads.face(self.meshes[path.stem])


def drawn(count: int) -> list[FloatArray]:
    """Heads of several sizes, places and tilts."""
    return [heads.mesh(80 + 20 * i, (200 + 9 * i, 150), heads.turn(3 * i, 0, 8 * i - 20)) for i in range(count)]


def write_pts(photo: Path, points: FloatArray) -> None:
    rows = "\n".join(f"{x:.5f} {y:.5f}" for x, y in points + 1)
    photo.with_suffix(".pts").write_text(f"version: 1\nn_points: {len(points)}\n{{\n{rows}\n}}\n")


def moved(points: FloatArray, share: float) -> FloatArray:
    """All points of a layout, displaced by a share of the distance of the outer eye corners."""
    apart = float(inter_ocular(points[None])[0])
    return np.asarray(points + share * apart * np.array([0.6, 0.8], np.float32), np.float32)


def rows_of(folder: Path, meshes: list[FloatArray], points: list[FloatArray]) -> tuple[HandPlaced, list[Row]]:
    found = HandPlaced(folder, cast(Examiner, Drawn({f"{i:03}": mesh for i, mesh in enumerate(meshes)})))
    marked = [Marked(f"{i:03}", folder / f"{i:03}.png", each) for i, each in enumerate(points)]
    return found, list(found.rows(marked))


@pytest.mark.parametrize("view", [view68, view98])
def test_points_displaced_by_a_known_share_give_that_error(view: Any, tmp_path: Path) -> None:
    meshes = drawn(6)
    points = [view(mesh[:, :2]) for mesh in meshes]
    points[1], points[3] = moved(points[1], 0.03), moved(points[3], 0.06)
    jaw = list(LAYOUTS[len(points[0])].jaw)
    points[5][jaw] = moved(points[5], 0.1)[jaw]
    found, rows = rows_of(tmp_path, meshes, points)
    assert [row.source for row in rows] == ["001.png", "003.png", "005.png"]  # offsets were fitted on the others
    share = 10 * len(jaw) / len(points[0])
    assert [row.values["landmarks"] for row in rows] == pytest.approx([3, 6, share], abs=1e-3)
    assert [row.values["jaw"] for row in rows] == pytest.approx([3, 6, 10], abs=1e-3)
    summary = summarise(rows, [], {}).summary
    assert summary["landmarks"].mean == pytest.approx((9 + share) / 3, abs=1e-3)
    assert summary["landmarks.jaw"].mean == pytest.approx(19 / 3, abs=1e-3)
    assert summary["landmarks.jaw"].low < 19 / 3 < summary["landmarks.jaw"].high
    assert found.told == {"landmarks_of": f"{len(points[0])} of {len(points[0])} points; 3 people fitted, 3 scored"}


def test_what_all_people_have_in_common_is_no_error() -> None:
    meshes = np.stack(drawn(4))
    ways = np.random.default_rng(1).uniform(-0.05, 0.05, (68, 2))
    ways[list(LAYOUTS[68].corners)] = 0
    truth = fit(meshes, np.stack([view68(mesh[:, :2]) for mesh in meshes]))
    places = type(truth)(truth.vertices, np.asarray(ways, np.float32), truth.view)
    fitted = np.array([True, False, True, False])
    assert scored(meshes, places(meshes), fitted).max() < 1e-5
    bare = scored(meshes, places(meshes), fitted, offsets=False)
    eyes = np.linalg.norm(meshes[1, 33, :2] - meshes[1, 263, :2])
    factor = eyes / inter_ocular(places(meshes))[1]
    np.testing.assert_allclose(bare[0], np.linalg.norm(ways, axis=1) * factor, atol=1e-4)


def test_the_points_of_the_london_set_are_ninety_nine_of_189(tmp_path: Path) -> None:
    meshes = drawn(4)
    vertices = np.random.default_rng(2).choice(468, 189, replace=False)
    vertices[list(LAYOUTS[189].corners)] = 33, 263
    points = [np.asarray(mesh[vertices, :2]) for mesh in meshes]
    points[3] = moved(points[3], 0.02)
    off = [i for i in range(189) if i not in LAYOUTS[189].scored]
    points[1][off] += 40  # hair and ears do not count
    found, rows = rows_of(tmp_path, meshes, points)
    assert [row.values["landmarks"] for row in rows] == pytest.approx([0, 2], abs=1e-3)
    assert found.told["landmarks_of"] == "99 of 189 points; 2 people fitted, 2 scored"


@pytest.mark.parametrize(
    ("people", "expected"),
    [
        (["a/001", "a/002", "a/004", "a/002"], [False, True, True, True]),
        (["set2/f_11_1", "set2/f_12_1"], [False, True]),
        (["a/001", "a/003", "a/005"], [False, True, False]),  # all odd: every second one
        (["zoe", "ann", "bob", "ann"], [False, False, True, False]),
        (["002", "ann"], [False, True]),
        (["002", "002"], [False, False]),
        ([], []),
    ],
)
def test_people_are_halved_by_number_or_by_order(people: list[str], expected: list[bool]) -> None:
    assert halves(people).tolist() == expected


def test_points_are_read_from_each_kind_of_file(tmp_path: Path) -> None:
    points = np.random.default_rng(3).uniform(0, 500, (68, 2)).astype(np.float32)
    write_pts(tmp_path / "a.jpg", points)
    text = "\n".join(f"{x:.5f}\t{y:.5f}" for x, y in points)
    (tmp_path / "b.tem").write_text(f"68\n{text}\n1\n0\n3\n0 1 2\n")
    (tmp_path / "c.txt").write_text(f"# x,y in pixels\n{text}\n")
    for name in ("a.pts", "b.tem", "c.txt"):
        found = read_points(tmp_path / name)
        assert found is not None
        np.testing.assert_allclose(found, points, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.pts", "version: 1\n1 2\n", "cannot be read as hand-placed points"),
        ("a.pts", "{\n1 2\n3 4\n}\n", "has 2 points; layouts of 68, 98, 189 are known"),
        ("a.pts", "{\n1 nan\n}\n", "a point is two numbers"),
        ("a.tem", "68\n1 2\n", "1 of 68 points"),
        ("a.tem", "", "cannot be read"),
    ],
)
def test_files_of_another_kind_are_told(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=match):
        read_points(tmp_path / name)


@pytest.mark.parametrize("text", ["a photo of a woman", "1 2\n3 4\n", ""])
def test_a_text_of_something_else_is_no_file_of_points(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert read_points(tmp_path / "a.txt") is None


def test_photos_are_drawn_from_the_layout_of_most(tmp_path: Path) -> None:
    people = [Person(f"{i:03}", (tmp_path / f"{i:03}.png",)) for i in range(6)]
    for i in range(4):
        write_pts(tmp_path / f"{i:03}.png", np.full((98 if i == 1 else 68, 2), i, np.float32))
    (tmp_path / "004.tem").write_text("damaged")
    found = HandPlaced(tmp_path, cast(Examiner, Drawn({})))
    everyone = found.marked(people, 9, 0)
    assert {each.person for each in everyone} == {"000", "002", "003"}
    assert [text.partition(" (")[0] for text in found.skipped] == [
        "004.tem: cannot be read as hand-placed points",
        "landmarks: 1 photos have 98 points, unlike most; evaluate them by themselves",
    ]
    assert [each.person for each in found.marked(people, 2, 0)] == [each.person for each in everyone[:2]]
    assert found.marked(people, 0, 0) == []


def test_one_person_alone_and_photos_without_a_face_are_told(tmp_path: Path) -> None:
    meshes = drawn(1)
    points = [view68(mesh[:, :2]) for mesh in drawn(2)]
    found, rows = rows_of(tmp_path, meshes, points)
    assert (rows, found.told) == ([], {})
    assert [text.partition(":")[0] for text in found.skipped] == ["001.png", "landmarks"]
    assert "one person alone has points" in found.skipped[1]


def test_an_evaluation_tells_the_error_of_photos_with_points(portraits: Path, models: Zoo, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(portraits, data, ignore=lambda _, names: [name for name in names if not name.endswith(".jpg")])
    examiner = Examiner(models, AnalyzeOptions(), [])
    people = read_people(data)
    shares = dict(zip([person.name for person in people], (0.02, 0.04, 0.06, 0.0), strict=True))
    assert [halves(list(shares)).tolist(), list(shares)[3]] == [[False, False, False, True], "male_036"]
    for person in people:
        look = examiner.look(pixels_of(person.photos[0]))
        assert look is not None
        write_pts(person.photos[0], moved(view68(look.face.mesh[:, :2]), shares[person.name]))
    report = evaluate(data, zoo=models, output=out, **NONE)
    found = {row.source_person: row.values["landmarks"] for row in report.rows if row.kind == "landmarks"}
    assert found == pytest.approx({name: 100 * share for name, share in shares.items() if share}, abs=0.01)
    assert report.summary["landmarks"].mean == pytest.approx(4, abs=0.01)
    assert report.summary["landmarks.jaw"].mean == pytest.approx(4, abs=0.01)
    assert report.settings["landmarks_of"] == "68 of 68 points; 1 people fitted, 3 scored"
    assert json.loads((out / "report.json").read_text())["summary"]["landmarks"]["count"] == 3
    assert EvalReport.load(out / "report.json").to_dict() == report.to_dict()
    assert "| landmarks: error to hand-placed points, % of the eyes' distance | ↓ | 4.000 |" in markdown(report)
    assert any(line.startswith("landmarks: the same of the jaw alone: 4.000 (") for line in lines(report))
    without = evaluate(data, zoo=models, landmarks=0, **NONE)
    assert "landmarks" not in without.summary and "landmarks_of" not in without.settings
    assert without.skipped == ()
