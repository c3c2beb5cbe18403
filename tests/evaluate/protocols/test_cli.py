"""`mien eval --protocol` with the models that ship, on photos of the fixtures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mien.cli.main import main
from mien.evaluate.protocols.common import pixels
from mien.faces import FaceFinder
from mien.mesh import view98
from mien.zoo.registry import Zoo

NAMES = ("female_001", "male_036")


def test_points_found_around_a_box_are_those_found_in_the_whole_photo(
    portraits: Path, models: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finder, rows = FaceFinder(models), []
    (tmp_path / "WFLW_images").mkdir()
    for place, name in enumerate(NAMES):
        shutil.copy(portraits / f"{name}.jpg", tmp_path / "WFLW_images")
        (face,) = finder.find_in_image(pixels(portraits / f"{name}.jpg"), embeddings=False)
        points = view98(face.mesh)[:, :2]
        points += 0.1 * place * np.linalg.norm(points[60] - points[72]) * np.array([0.6, 0.8])
        numbers = " ".join(f"{value:.3f}" for value in [*points.ravel(), *face.bbox])
        rows.append(f"{numbers} {place} 0 0 0 0 0 {name}.jpg")
    (tmp_path / "list_98pt_rect_attr_test.txt").write_text("\n".join(rows))
    assert main(["eval", str(tmp_path), "--protocol", "wflw", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    everyone, turned, *_ = told["subsets"]
    assert told["models"] == ["mesh478", "yunet"] and everyone["faces"] == 2 and everyone["missed"] == 0
    assert everyone["nme"] == pytest.approx(0.05, abs=0.01)
    assert turned["name"] == "pose" and turned["nme"] == pytest.approx(0.1, abs=0.01)


def test_a_folder_of_something_else_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path), "--protocol", "widerface"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mien: {tmp_path}: the list of faces is missing") and error.count("\n") == 1
