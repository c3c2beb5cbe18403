"""WFLW on drawn faces whose points are moved by a known way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from mien.errors import InputError, OptionsError
from mien.evaluate.protocols import ProtocolOptions, run, wflw
from mien.mesh import view98
from mien.types import ByteArray, FloatArray
from tests.evaluate.protocols.drawn import DrawnZoo, blank, draw, mesh_of, save
from tests.fakes import card

OPTIONS = ProtocolOptions(robust="off")
LIST = "WFLW_annotations/list_98pt_rect_attr_train_test/list_98pt_rect_attr_test.txt"
SIDE = 100
WAYS = {"0--a/one.jpg": (0.03, 0.04), "0--a/two.jpg": (0.12, 0), "1--b/three.jpg": (0, -0.08), "1--b/none.jpg": (0, 0)}
"""How far all points of a photo are moved, over the distance of the outer eye corners."""
MARKED = {"0--a/one.jpg": "1 0 0 0 0 1", "0--a/two.jpg": "1 0 1 0 0 0", "1--b/three.jpg": "0 0 0 0 0 1"}


def truth(name: str) -> FloatArray:
    points = view98(mesh_of(80, 60, SIDE))[:, :2]
    between = np.linalg.norm(points[60] - points[72])
    return np.asarray(points + between * np.array(WAYS[name], np.float32), np.float32)


def line(name: str) -> str:
    numbers = " ".join(f"{value:.6f}" for value in truth(name).ravel())
    return f"{numbers} 80 60 {80 + SIDE} {60 + SIDE} {MARKED.get(name, '0 0 0 0 1 0')} {name}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in WAYS:
        image = blank(300, 260) if "none" in name else draw(blank(300, 260), 80, 60, SIDE)
        save(tmp_path / "WFLW_images" / name, image)
    (tmp_path / LIST).parent.mkdir(parents=True)
    (tmp_path / LIST).write_text("\n".join(map(line, WAYS)) + "\n")
    return tmp_path


def subsets(folder: Path, options: ProtocolOptions = OPTIONS, zoo: DrawnZoo | None = None) -> dict[str, wflw.Subset]:
    report = run("wflw", folder, options, zoo=zoo or DrawnZoo())
    assert isinstance(report, wflw.WflwReport)
    return {each.name: each for each in report.subsets}


def test_figures_of_the_mesh_are_those_of_the_ways(folder: Path) -> None:
    found = subsets(folder)
    everyone = found["all"]
    assert (everyone.faces, everyone.missed) == (4, 1)
    assert everyone.nme == pytest.approx((0.05 + 0.12 + 0.08) / 3, abs=1e-3)
    assert everyone.failure_rate == 2 / 4  # one is too far, one is not found
    assert everyone.auc == pytest.approx((0.5 + 0 + 0.2 + 0) / 4, abs=5e-3)


def test_subsets_are_by_attribute(folder: Path) -> None:
    found = subsets(folder)
    assert {name: each.faces for name, each in found.items()} == {
        "all": 4, "pose": 2, "expression": 0, "illumination": 1, "make-up": 0, "occlusion": 1, "blur": 2,
    }  # fmt: skip
    assert found["pose"].nme == pytest.approx(0.085, abs=1e-3) and found["pose"].failure_rate == 0.5
    assert found["blur"].nme == pytest.approx(0.065, abs=1e-3) and found["blur"].failure_rate == 0
    assert found["occlusion"].missed == 1 and np.isnan(found["occlusion"].nme)
    assert np.isnan(found["expression"].failure_rate)


class Fixed:
    """98 points in the crop, of a face that fills the middle of it."""

    size, points, margin, shift = 120, 98, 1.2, 0.0
    crop: Literal["mesh", "bbox"] = "bbox"

    def __init__(self, points: int = 98) -> None:
        self.card, self.points = card("landmarker"), points

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        # The box's 100 pixels are 100 of the crop's 120; its first pixel is at 10.
        return np.repeat(view98(mesh_of(10, 10, SIDE))[None, :, :2], len(crops), 0), np.ones(len(crops), np.float32)


def test_a_landmarker_of_98_points_is_given_the_annotated_boxes(folder: Path) -> None:
    options = OPTIONS.model_copy(update={"points": "fixed"})
    found = subsets(folder, options, DrawnZoo(more={("landmarker", "fixed"): Fixed()}))
    assert found["all"].missed == 0  # it is not asked whether there is a face
    assert found["all"].nme == pytest.approx((0.05 + 0.12 + 0.08 + 0) / 4, abs=1e-4)
    assert found["all"].failure_rate == 1 / 4
    assert found["all"].auc == pytest.approx((0.5 + 0 + 0.2 + 1) / 4, abs=1e-3)


def test_a_landmarker_of_other_points_is_refused(folder: Path) -> None:
    options = OPTIONS.model_copy(update={"points": "fixed"})
    with pytest.raises(OptionsError, match="gives 68 points, WFLW needs 98"):
        subsets(folder, options, DrawnZoo(more={("landmarker", "fixed"): Fixed(68)}))


def test_of_several_faces_the_annotated_one_is_measured_and_nobody_else(folder: Path) -> None:
    image = draw(blank(400, 260), 80, 60, SIDE)
    save(folder / "WFLW_images/0--a/one.jpg", draw(image, 240, 60, 90))
    save(folder / "WFLW_images/1--b/none.jpg", draw(blank(400, 260), 240, 60, 90))
    found = subsets(folder)
    assert found["blur"].nme == pytest.approx(0.065, abs=1e-3)
    assert found["occlusion"].missed == 1


def test_a_list_without_boxes_and_attributes_gives_one_row(folder: Path) -> None:
    rows = [f"{' '.join(each.split()[:196])} {each.split()[-1]}" for each in (folder / LIST).read_text().splitlines()]
    (folder / LIST).unlink()
    (folder / "list_98pt_test.txt").write_text("\n".join(rows))
    report = run("wflw", folder, OPTIONS.model_copy(update={"limit": 2}), zoo=DrawnZoo())
    assert isinstance(report, wflw.WflwReport)
    assert [each.name for each in report.subsets] == ["all"]
    assert report.subsets[0].nme == pytest.approx(0.085, abs=1e-3)
    assert [note.split(",")[0] for note in report.notes[2:]] == [
        "the list has no attributes", "only the first 2 faces were taken",
    ]  # fmt: skip
    name, faces, missed, error, _, failures, *_ = report.lines()[2].split()
    assert (name, faces, missed, failures) == ("all", "2", "0", "50.00") and float(error) == pytest.approx(8.5, abs=0.1)


def test_figures_of_known_errors() -> None:
    made = wflw.subset("x", np.array([0.0, 0.02, 0.1, 0.3, np.inf]))
    assert (made.faces, made.missed, made.failure_rate) == (5, 1, 2 / 5)
    assert made.nme == pytest.approx(0.42 / 4)
    assert made.auc == pytest.approx((1 + 0.8) / 5)


def test_the_area_is_that_under_the_curve_of_cumulative_errors() -> None:
    errors = np.random.default_rng(2).gamma(2, 0.03, 400)
    steps = (np.arange(20000) + 0.5) / 20000 * 0.1
    under = np.mean([(errors <= step).mean() for step in steps])
    assert wflw.subset("x", errors).auc == pytest.approx(under, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3 a.jpg\n", "line 1: is not 98 points"),
        ("1 " * 196 + "../a.jpg\n", "line 1: is not 98 points"),
        ("1 " * 195 + "x a.jpg\n", "line 1: 'x' is no number"),
        ("1 " * 195 + "nan a.jpg\n", "line 1: 'nan' is no number"),
        ("1 " * 196 + "a.jpg\n" + "1 " * 206 + "b.jpg\n", "attributes for some of them only"),
        ("\n", "has no faces"),
    ],
)
def test_a_list_that_is_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        wflw.parse(tmp_path / "list.txt")


def test_missing_parts_are_named(folder: Path) -> None:
    (folder / "WFLW_images/0--a/two.jpg").unlink()
    with pytest.raises(InputError, match=r"two\.jpg: is missing"):
        subsets(folder)
    (folder / LIST).unlink()
    with pytest.raises(InputError, match=r"looked for WFLW_annotations/list_98pt_rect_attr_train_test"):
        subsets(folder)
