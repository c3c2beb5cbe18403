"""Whole evaluations of a few small portraits, by the default swapper and by one that changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

import mien
from mien.errors import InputError, ModelError, OptionsError, OutputError
from mien.evaluate import EvalReport, compare, evaluate
from mien.evaluate.engine import Engine
from mien.evaluate.faces import pixels_of
from mien.evaluate.run import Step
from mien.evaluate.statistics import auc
from mien.options import SwapOptions
from mien.types import Image, Patch
from mien.zoo.contracts import SourceNeeds
from mien.zoo.registry import Zoo
from tests.fakes import card
from tests.stand_ins import graph, node

TABLE = """folder,person,sex,age,skin_tone,part
,female_001,female,23,light,held-out
,female_031,female,23,light,held-out
,male_009,male,30,light,training
,male_036,male,30,brown,held-out
"""


class NoSwapper:
    """Gives each crop back as it was."""

    template = None
    size = 0
    margin = 1.3
    needs_mask = False
    needs = SourceNeeds()

    def __init__(self) -> None:
        self.card = card("swapper")

    def __call__(self, crops: Sequence[Image], *_: Any) -> list[Patch]:
        return [Patch(np.asarray(crop / 255, np.float32), np.zeros(crop.shape[:2], np.float32)) for crop in crops]


class Reddener(NoSwapper):
    """Paints each crop red."""

    def __call__(self, crops: Sequence[Image], *_: Any) -> list[Patch]:
        red = np.array([1, 0, 0], np.float32)
        return [Patch(np.zeros_like(crop, np.float32) + red, np.ones(crop.shape[:2], np.float32)) for crop in crops]


@pytest.fixture(scope="module")
def data(portraits: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four people, one of them twice, a photo without a face, and a clip."""
    folder = tmp_path_factory.mktemp("people")
    for photo in portraits.glob("*.jpg"):
        shutil.copy(photo, folder)
    mirrored = cv2.imread(str(portraits / "female_031.jpg"))
    assert mirrored is not None
    cv2.imwrite(str(folder / "female_031_mirrored.png"), mirrored[:, ::-1])
    cv2.imwrite(str(folder / "nobody.png"), np.full((128, 128, 3), 90, np.uint8))
    (folder / "people.csv").write_text(TABLE)
    (folder / "clips").mkdir()
    with av.open(str(examples / "clip.mp4")) as source, av.open(str(folder / "clips" / "a.mp4"), "w") as short:
        stream = short.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height = 256, 256
        for frame in islice(source.decode(video=0), 5):
            short.mux(stream.encode(frame.reformat(256, 256, format="yuv420p")))
        short.mux(stream.encode())
    return folder


@pytest.fixture(scope="module")
def report(data: Path, models: Zoo, tmp_path_factory: pytest.TempPathFactory) -> tuple[EvalReport, Path, list[Step]]:
    """The default swapper, judged; the report, its folder and its progress."""
    folder, steps = tmp_path_factory.mktemp("report") / "new" / "deep", list[Step]()
    found = evaluate(
        data, people=data / "people.csv", part="held-out", output=folder, zoo=models, progress=steps.append,
        pairs=4, same_person=1, cycles=1, examples=1, save_outputs=True,
    )  # fmt: skip
    return found, folder, steps


@pytest.fixture(scope="module")
def untouched(data: Path) -> EvalReport:
    """A swapper that changes nothing, judged on the same pairs."""
    zoo = Zoo("cpu")
    zoo._loaded["swapper", "texture"] = NoSwapper()
    return evaluate(data, people=data / "people.csv", part="held-out", zoo=zoo, pairs=4, same_person=1, cycles=1)


def test_the_figures_of_a_swap(report: tuple[EvalReport, Path, list[Step]]) -> None:
    found = {name: estimate.mean for name, estimate in report[0].summary.items()}
    assert found["results"] == 1
    assert found["identity.mobilefacenet"] > 0.5
    assert found["target.mobilefacenet"] < found["identity.mobilefacenet"] - 0.2
    assert found["nearer.mobilefacenet"] == found["top1.mobilefacenet"] == 1
    assert 0.1 < found["expression"] < 1
    assert 0 < found["pose"] < 8
    assert 0 < found["seam"] < 2
    assert 0 < found["cast"] < 20
    assert 20 < found["same.psnr"] < 60
    assert 0.5 < found["same.ssim"] < 1
    assert 0 < found["same.perceptual"] < 0.3
    assert found["same.identity.mobilefacenet"] > 0.6
    assert found["cycle.identity.mobilefacenet"] > 0.7
    assert 20 < found["cycle.psnr"] < 60
    assert abs(found["flicker"]) < 4
    assert "naturalness" not in found  # no classifier was given


def test_the_rows_say_who_was_swapped(report: tuple[EvalReport, Path, list[Step]]) -> None:
    rows = [row for row in report[0].rows if row.kind == "swap"]
    assert len(rows) == 4
    held_out = {"female_001", "female_031", "male_036"}
    assert all({row.source_person, row.target_person} <= held_out for row in rows)
    assert all(row.source.startswith(row.source_person) for row in rows)
    male = next(row for row in rows if row.target_person == "male_036")
    assert (male.slices["target sex"], male.slices["target skin_tone"]) == ("male", "brown")
    assert male.slices["target pose"] == "frontal"
    (same,) = [row for row in report[0].rows if row.kind == "same"]
    assert (same.source, same.target) == ("female_031.jpg", "female_031_mirrored.png")
    (clip,) = [row for row in report[0].rows if row.kind == "clip"]
    assert clip.target == "clips/a.mp4"
    assert (report[0].settings["gallery"], report[0].settings["sources"]) == (4, 3)


def test_what_is_written_is_the_report(report: tuple[EvalReport, Path, list[Step]]) -> None:
    found, folder, _ = report
    assert EvalReport.load(folder / "report.json").to_dict() == found.to_dict()
    text = (folder / "report.md").read_text()
    assert f"| {found.summary['seam'].mean:.3f} |" in text
    assert "![seam.jpg](seam.jpg)" in text
    seam = pixels_of(folder / "seam.jpg")
    assert seam.shape == (3 * (22 + 224), 7 * 224, 3)  # best, typical and worst, of seven pictures each
    assert pixels_of(folder / "overview.jpg").shape == (160, 4 * 3 * 160, 3)
    assert len(list((folder / "outputs").glob("*.png"))) == 4


def test_swaps_in_memory_are_those_of_the_library(
    report: tuple[EvalReport, Path, list[Step]], data: Path, models: Zoo, tmp_path: Path
) -> None:
    row = report[0].rows[0]
    mien.swap(data / row.source, data / row.target, tmp_path / "out.png", zoo=models)
    stem = f"{Path(row.source).stem}__{Path(row.target).stem}"
    np.testing.assert_array_equal(pixels_of(tmp_path / "out.png"), pixels_of(report[1] / "outputs" / f"{stem}.png"))


def test_progress_tells_each_phase_to_its_end(report: tuple[EvalReport, Path, list[Step]]) -> None:
    assert list(dict.fromkeys(step.phase for step in report[2])) == [
        "gallery", "swaps", "same person", "there and back", "clips",
    ]  # fmt: skip
    assert [step.done for step in report[2] if step.phase == "swaps"] == [1, 2, 3, 4]
    assert {step.total for step in report[2] if step.phase == "swaps"} == {4}


def test_a_swapper_that_changes_nothing_gains_nothing(untouched: EvalReport) -> None:
    found = {name: estimate.mean for name, estimate in untouched.summary.items()}
    assert found["seam"] == found["softened"] == found["cast"] == found["flicker"] == 0
    assert found["nearer.mobilefacenet"] == found["top1.mobilefacenet"] == 0
    assert found["target.mobilefacenet"] > 0.98  # another look at the same face
    assert found["identity.mobilefacenet"] < 0.4
    assert found["same.psnr"] == found["cycle.psnr"] == 100
    assert found["same.ssim"] == 1
    assert found["same.perceptual"] == 0
    assert found["pose"] < 1


def test_the_same_pairs_are_compared(report: tuple[EvalReport, Path, list[Step]], untouched: EvalReport) -> None:
    found = {each.measure: each for each in compare(report[0], untouched, slices=False)}
    assert found["identity.mobilefacenet"].verdict == "better"
    assert found["seam"].verdict == "worse"
    own = [row.values["seam"] for row in report[0].rows if row.kind == "swap"]
    assert found["seam"].difference.mean == pytest.approx(np.mean(own))


def test_photos_that_cannot_be_used_are_left_out_and_told(data: Path, models: Zoo, tmp_path: Path) -> None:
    options: dict[str, Any] = {"pairs": 2, "same_person": 0, "cycles": 0, "clip_swaps": 0}
    for name in ("female_001.jpg", "nobody.png"):
        shutil.copy(data / name, tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    report = evaluate(tmp_path, zoo=models, **{**options, "pairs": 9, "clip_swaps": 1})
    assert report.rows == ()
    assert {text.partition(":")[0] for text in report.skipped} == {"broken.jpg", "nobody.png"}
    assert report.settings["gallery"] == 1
    empty = json.loads(json.dumps(report.to_dict()))
    assert empty["summary"] == empty["slices"] == {}


def test_a_target_is_searched_once(data: Path) -> None:
    engine = Engine(Zoo("cpu"), SwapOptions())
    target = engine.target(data / "female_001.jpg")
    assert len(target.faces) == 1
    assert engine.target(data / "female_001.jpg").faces is target.faces


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"pears": 3}, OptionsError, "no option is called 'pears'; did you mean pairs"),
        ({"pairs": 0}, OptionsError, "pairs=0"),
        ({"part": "testing"}, OptionsError, "nobody belongs to the part 'testing'"),
        ({"sources": "paris"}, OptionsError, "nobody lies in the folder 'paris'"),
        ({"evaluators": ["none.onnx"]}, ModelError, r"none\.onnx: there is no such file"),
        ({"naturalness": "none.onnx"}, ModelError, r"none\.onnx: there is no such file"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    data: Path, models: Zoo, wrong: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        evaluate(data, people=data / "people.csv", zoo=models, **wrong)


def test_one_person_is_no_pair_and_a_file_no_folder(data: Path, models: Zoo, tmp_path: Path) -> None:
    shutil.copy(data / "female_001.jpg", tmp_path)
    with pytest.raises(InputError, match="no two different people"):
        evaluate(tmp_path, zoo=models)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file; name a folder"):
        evaluate(data, output=tmp_path / "file", zoo=models)


def test_naturalness_is_judged_by_one_crop_of_photo_and_output(data: Path, tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["crops"], "mean", axes=[2, 3], keepdims=0),
        node("Gather", ["mean", "red"], "swapped", axis=1),
    ]
    file = tmp_path / "red.onnx"
    file.write_bytes(graph(nodes, {"crops": ("n", 3, 224, 224)}, {"swapped": ("n", 1)}, red=np.array([0])))
    options: dict[str, Any] = {"pairs": 3, "same_person": 0, "cycles": 0, "clip_swaps": 0}
    for swapper, expected in ((NoSwapper(), 0.5), (Reddener(), 1.0)):
        zoo = Zoo("cpu")
        zoo._loaded["swapper", "texture"] = swapper
        found = evaluate(data, people=data / "people.csv", naturalness=file, zoo=zoo, **options)
        rows = [row.values for row in found.rows]
        if expected == 0.5:
            assert all(row["swapped_before"] == row["swapped_after"] for row in rows)
        else:
            assert all(row["swapped_after"] > row["swapped_before"] + 0.2 for row in rows)
        of_rows = auc([row["swapped_before"] for row in rows], [row["swapped_after"] for row in rows])
        assert found.summary["naturalness"].mean == pytest.approx(of_rows) == pytest.approx(expected)
