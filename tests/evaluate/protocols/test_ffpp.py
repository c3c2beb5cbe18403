"""FaceForensics++ on drawn clips: identities are angles, so cosines and the nearest face follow from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mien.errors import InputError
from mien.evaluate.protocols import ProtocolOptions, ffpp, run
from mien.evaluate.protocols.clips import Pair, clip_of, pairs_of, places, sampled
from mien.types import ByteArray, FloatArray
from tests.evaluate.protocols.drawn import DrawnZoo, Painter, blank, draw, mesh_of, save
from tests.fakes import FakeEmbedder, embedding, face
from tests.media.clips import make_clip

OPTIONS = ProtocolOptions(robust="off", source_masker="occluder", frames_per_clip=3)
DEGREES = {"000": 10, "001": 50, "002": 80}
ORIGINALS = "original_sequences/youtube/c23/images"


def frames(folder: Path, name: str, degrees: float, count: int = 3, side: int = 70) -> None:
    for i in range(count):
        save(folder / name / f"{i:04d}.png", draw(blank(220, 200), 60 + 4 * i, 50, side, degrees))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, degrees in DEGREES.items():
        frames(tmp_path / ORIGINALS, name, degrees)
    (tmp_path / "pairs.txt").write_text("000_001\n001_002\n")
    return tmp_path


def report(folder: Path, share: float = 1.0, options: ProtocolOptions = OPTIONS) -> ffpp.FfppReport:
    found = run("ffpp", folder, options, zoo=DrawnZoo(Painter(share)))
    assert isinstance(found, ffpp.FfppReport)
    return found


def cos(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def test_a_swap_that_gives_the_source_is_retrieved(folder: Path) -> None:
    found = report(folder)
    assert (found.pairs, found.frames, found.missed, found.gallery) == (2, 6, 0, 9)
    assert found.retrieval.value == 1 and found.near.value == 1
    assert found.cosine.value == pytest.approx(1, abs=2e-3)
    assert found.cosine_target.value == pytest.approx((cos(40) + cos(30)) / 2, abs=0.01)
    assert found.pose.value == pytest.approx(0, abs=0.05)
    assert found.expression.value == pytest.approx(0, abs=1e-3)
    assert (found.method, found.judge) == ("texture", "mobilefacenet")
    assert any("judges what it helped" in note for note in found.notes)


def test_a_swap_that_goes_half_the_way_is_as_near_as_its_angle_tells(folder: Path) -> None:
    found = report(folder, 0.25)  # 10° of 40°, and 7.5° of 30°: the target stays nearer
    assert found.retrieval.value == 0
    assert found.cosine.value == pytest.approx((cos(30) + cos(22.5)) / 2, abs=0.01)
    assert found.cosine_target.value == pytest.approx((cos(10) + cos(7.5)) / 2, abs=0.01)
    assert found.near.value == 1
    spread = 1.96 * abs(cos(30) - cos(22.5)) / 2
    assert found.cosine.interval == pytest.approx(spread, abs=0.01)


def test_clips_of_another_method_are_judged_instead(folder: Path) -> None:
    home = folder / "manipulated_sequences/FaceShifter/c23/images"
    frames(home, "000_001", 50)  # as it should be
    frames(home, "001_002", 10, side=80)  # somebody else, and larger: 10 pixels are 0.01 of our expression
    found = report(folder, options=OPTIONS.model_copy(update={"method": "FaceShifter"}))
    assert found.method == "FaceShifter" and found.pairs == 2
    assert found.retrieval.value == 0.5
    assert found.cosine.value == pytest.approx((1 + cos(70)) / 2, abs=0.01)
    assert found.near.value == 0.5
    assert found.expression.value == pytest.approx(0.01 / 2, abs=5e-4)


def test_frames_that_lost_their_face_count_as_not_retrieved(folder: Path) -> None:
    home = folder / "manipulated_sequences/Deepfakes/c23/images"
    frames(home, "000_001", 50)
    save(home / "000_001/0001.png", blank(220, 200))
    found = report(folder, options=OPTIONS.model_copy(update={"method": "Deepfakes"}))
    assert (found.pairs, found.frames, found.missed) == (1, 3, 1)
    assert found.retrieval.value == pytest.approx(2 / 3)
    assert found.cosine.value == pytest.approx(1, abs=2e-3)
    assert np.isnan(found.cosine.interval) and json.loads(found.to_json())["cosine"]["interval"] is None
    assert any("no face was found in 1 swapped frames" in note for note in found.notes)


def test_clips_without_a_face_are_left_out_and_told(folder: Path) -> None:
    for path in (folder / ORIGINALS / "002").iterdir():
        save(path, blank(220, 200))
    found = report(folder)
    assert found.pairs == 1 and found.retrieval.value == 1
    assert any(note.endswith("001_002") for note in found.notes)


def test_another_embedder_judges(folder: Path) -> None:
    options = OPTIONS.model_copy(update={"judge": "other"})
    zoo = DrawnZoo(more={("embedder", "other"): FakeEmbedder()})
    told = run("ffpp", folder, options, zoo=zoo)
    assert isinstance(told, ffpp.FfppReport)
    assert told.judge == "other" and not any("judges what it helped" in note for note in told.notes)
    assert told.lines()[2].split()[-4:] == ["100.0", "%", "0.0", "%"]


def look(mesh: FloatArray, angle: float, smile: float) -> ffpp.Look:
    shapes = np.zeros(52, np.float32)
    shapes[3] = smile
    made = face(50, 50)
    return ffpp.Look(type(made)(made.bbox, 0.9, made.keypoints, mesh, 1.0), embedding(angle), shapes)


def test_pose_is_compared_in_degrees_and_expression_by_distance() -> None:
    mesh = mesh_of(10, 10, 100)
    mesh[:, 2] = np.random.default_rng(4).uniform(-30, 30, 478)
    turn = np.radians(12)
    yaw = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    before, after = look(mesh, 0, 0.1), look(np.asarray(mesh @ yaw.T, np.float32), 0.3, 0.6)
    gallery = ffpp.Gallery({"a": [before], "b": [look(mesh, 0.5, 0), None, look(mesh, 0.7, 0)]})
    retrieved, cosine, near, target, pose, expression = ffpp.compared(before, after, gallery, Pair("a", "b"))
    assert (retrieved, near) == (1, 1)
    assert cosine == pytest.approx(np.cos(0.3)) and target == pytest.approx(np.cos(0.3))
    assert pose == pytest.approx(12, abs=0.01) and expression == pytest.approx(0.5)
    assert ffpp.compared(before, None, gallery, Pair("a", "b"))[0] == 0
    assert gallery.names == ["a", "b", "b"]


def test_pairs_come_from_the_list_the_split_or_the_names(folder: Path) -> None:
    assert pairs_of(folder) == [Pair("000", "001"), Pair("001", "002")]
    (folder / "pairs.txt").unlink()
    with pytest.raises(InputError, match=r"no pairs, looked for pairs\.txt, splits/test\.json"):
        pairs_of(folder)
    frames(folder / "manipulated_sequences/Face2Face/c40/images", "002_000", 10)
    assert pairs_of(folder) == [Pair("002", "000")]
    (folder / "splits").mkdir()
    (folder / "splits/test.json").write_text('[["000", "002"]]')
    assert pairs_of(folder) == [Pair("000", "002"), Pair("002", "000")]
    assert pairs_of(folder, "Face2Face") == [Pair("002", "000")]
    with pytest.raises(InputError, match="NeuralTextures has no clips named TARGET_SOURCE"):
        pairs_of(folder, "NeuralTextures")


@pytest.mark.parametrize("text", ["[[1]]", "{", '{"a": 1}'])
def test_a_split_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "test.json").write_text(text)
    with pytest.raises(InputError, match="is no list of pairs"):
        pairs_of(tmp_path)


def test_a_wrong_name_in_the_list_is_told(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("000_001.mp4\n000-001\n")
    with pytest.raises(InputError, match="'000-001' is not TARGET_SOURCE"):
        pairs_of(tmp_path)


def test_a_missing_clip_is_named_with_its_layout(folder: Path) -> None:
    with pytest.raises(InputError, match=r"clip 007 is missing, looked for it as youtube/c23\|raw\|c40/videos\|images"):
        clip_of(folder, "007")


def test_c23_is_taken_before_other_compressions(folder: Path) -> None:
    for compression in ("c40", "raw"):
        frames(folder / f"original_sequences/youtube/{compression}/images", "000", 80)
    assert clip_of(folder, "000") == folder / ORIGINALS / "000"


def test_frames_are_the_middles_of_equal_parts() -> None:
    assert places(300, 10) == list(range(15, 300, 30))
    assert places(4, 10) == [0, 1, 2, 3] and places(0, 3) == []
    assert places(10, 3) == [1, 5, 8]


def test_frames_of_a_video_are_those_at_their_places(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "000.mp4", pts=range(20))
    every: list[ByteArray] = sampled(path, 100)
    assert len(every) == 20
    for found, expected in zip(sampled(path, 4), [every[i] for i in (2, 7, 12, 17)], strict=True):
        np.testing.assert_array_equal(found, expected)
