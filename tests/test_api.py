"""The library's calls on real media: what is written, what is reported, and what is never left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import mien
from mien.api import parse_options
from mien.identity_data import IdentityData
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
from mien.paste import mesh_box
from mien.report import Progress
from mien.types import ByteArray
from mien.zoo.cards import Task
from mien.zoo.registry import Zoo
from tests.fakes import FakeSwapper, FakeZoo, card, embedding, identity

FRAMES = 8


class InvertingZoo(Zoo):
    """The real models, but a swapper that inverts each crop."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.swapper = FakeSwapper(margin=1.3, card=card("swapper"))

    def load(self, task: Task, name: str) -> Any:
        return self.swapper if task == "swapper" else super().load(task, name)


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return InvertingZoo()


@pytest.fixture(scope="module")
def person() -> IdentityData:
    return replace(identity(), embedding=embedding(0, 128))


@pytest.fixture(scope="module")
def clip(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first frames of the example clip, without loss."""
    path = tmp_path_factory.mktemp("clip") / "short.mkv"
    with open_reader(examples / "clip.mp4") as reader, open_writer(path, reader, SwapOptions(encoder="ffv1")) as writer:
        for frame, _ in zip(reader, range(FRAMES), strict=False):
            writer.write(frame)
    return path


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    path = tmp_path / "blank.png"
    cv2.imwrite(str(path), np.full((64, 80, 3), 120, np.uint8))
    return path


def pixels(path: Path) -> list[tuple[Any, ByteArray]]:
    with open_reader(path) as reader:
        return [(frame.time, np.asarray(frame.read(frame.box), np.uint8)) for frame in reader]


def written(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_a_photo_is_swapped_inside_the_face_only(
    tmp_path: Path, portraits: Path, zoo: Zoo, person: IdentityData
) -> None:
    target, output = portraits / "male_009.jpg", tmp_path / "out.png"
    report = mien.swap(person, target, output, zoo=zoo)
    (_, before), (_, after) = pixels(target)[0], pixels(output)[0]
    with mien.analyze(target, zoo=zoo) as analysis:
        (face,) = analysis[0]
        box = mesh_box(face.mesh, 1.3).clip(analysis.width, analysis.height)
    expected = before.copy()
    expected[box.y0 : box.y1, box.x0 : box.x1] = 255 - before[box.y0 : box.y1, box.x0 : box.x1]
    np.testing.assert_array_equal(after, expected)
    assert (report.kind, report.frames, report.frames_with_faces, report.tracks) == ("image", 1, 1, 1)
    assert report.faces[0].bbox == pytest.approx(tuple(float(v) for v in face.bbox), abs=0.01)
    assert written(tmp_path) == ["out.png"]


def test_a_video_keeps_its_frames_and_times(tmp_path: Path, clip: Path, zoo: Zoo, person: IdentityData) -> None:
    output, told = tmp_path / "out.mkv", list[Progress]()
    report = mien.swap(person, clip, output, zoo=zoo, encoder="ffv1", progress=told.append)
    before, after = pixels(clip), pixels(output)
    assert [time for time, _ in after] == [time for time, _ in before]
    with mien.analyze(clip, zoo=zoo) as analysis:
        boxes = [mesh_box(faces[0].mesh, 1.3) for faces in analysis]
    for (_, old), (_, new), box in zip(before, after, boxes, strict=True):
        inside = np.zeros(old.shape[:2], bool)
        inside[box.y0 : box.y1, box.x0 : box.x1] = True
        assert np.abs(new[inside].astype(int) - (255 - old[inside])).mean() < 8
        # Read as RGB, a chroma sample of the box colours its neighbours too.
        around = cv2.dilate(inside.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
        np.testing.assert_array_equal(old[~around], new[~around])
    assert (report.kind, report.frames, report.frames_with_faces, report.tracks) == ("video", FRAMES, FRAMES, 1)
    assert [(f.track, f.frames, f.samples) for f in report.faces] == [(0, FRAMES, 1)]
    assert [(p.phase, p.done) for p in told] == [(p, i + 1) for p in ("analyze", "render") for i in range(FRAMES)]
    assert told[-1].total == FRAMES
    assert told[-1].fps > 0


def test_the_report_is_complete_and_ready_for_json(
    tmp_path: Path, portraits: Path, zoo: Zoo, person: IdentityData
) -> None:
    report = mien.swap(person, portraits / "female_001.jpg", tmp_path / "out.jpg", zoo=zoo)
    read = json.loads(report.to_json())
    assert read == json.loads(json.dumps(report.to_dict()))
    assert read["output"] == str(tmp_path / "out.jpg")
    assert read["device"] == "cpu"
    assert {"yunet", "mesh478", "mobilefacenet"} <= {model["name"] for model in read["models"]}
    assert all(set(model) == {"name", "task", "licence", "commercial"} for model in read["models"])
    assert set(read["timings"]) == {"decode", "cut", "analyze", "find", "mask", "swap", "paste", "encode"}
    assert read["peak_memory_mb"] > 50
    assert read["seconds"] > 0
    (face,) = read["faces"]
    assert face["doubtful"] == (face["similarity_source"] < SwapOptions().min_similarity)


def test_with_the_models_of_the_wheel_the_output_looks_like_the_source(tmp_path: Path, portraits: Path) -> None:
    sources = [portraits / "female_001.jpg"]
    report = mien.swap(sources, portraits / "female_031.jpg", tmp_path / "out.png", device="cpu")
    (face,) = report.faces
    assert face.similarity_source is not None
    assert face.similarity_target is not None
    assert face.similarity_source > face.similarity_target
    assert not face.doubtful
    known = mien.Identity.from_images(sources)
    again = mien.swap(known, portraits / "female_031.jpg", tmp_path / "again.png", device="cpu")
    assert again.faces == report.faces
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "out.png").read_bytes()


def test_with_the_models_of_the_wheel_a_video_is_swapped(tmp_path: Path, portraits: Path, clip: Path) -> None:
    report = mien.swap(portraits / "male_036.jpg", clip, tmp_path / "out.mp4", device="cpu")
    (face,) = report.faces
    assert (face.frames, report.frames) == (FRAMES, FRAMES)
    assert face.similarity_source is not None
    assert face.similarity_target is not None
    assert face.similarity_source > face.similarity_target
    assert len(pixels(tmp_path / "out.mp4")) == FRAMES


def test_no_face_is_an_error_and_nothing_is_written(tmp_path: Path, blank: Path, person: IdentityData) -> None:
    with pytest.raises(mien.NoFaceError, match="no face was found"):
        mien.swap(person, blank, tmp_path / "out.png", zoo=FakeZoo())
    assert written(tmp_path) == ["blank.png"]


def test_no_face_in_a_video_is_an_error_and_nothing_is_written(
    tmp_path: Path, clip: Path, person: IdentityData
) -> None:
    with pytest.raises(mien.NoFaceError):
        mien.swap(person, clip, tmp_path / "out.mp4", zoo=FakeZoo())
    assert written(tmp_path) == []


@pytest.mark.parametrize("phase", ["analyze", "render"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_progress_raises_ends_the_run(
    tmp_path: Path, clip: Path, zoo: Zoo, person: IdentityData, phase: str, error: type[BaseException]
) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == phase and progress.done == 3:
            raise error

    with pytest.raises(error):
        mien.swap(person, clip, tmp_path / "out.mp4", zoo=zoo, progress=stop)
    resumable = error is KeyboardInterrupt and phase == "render"
    assert written(tmp_path) == (["out.mp4.mien"] if resumable else [])


def test_an_error_of_the_swapper_leaves_nothing(tmp_path: Path, clip: Path, person: IdentityData) -> None:
    class Failing(FakeSwapper):
        def __call__(self, *args: Any, **more: Any) -> Any:
            if len(self.batches) == 4:
                raise mien.ModelError("broken")
            return super().__call__(*args, **more)

    zoo = InvertingZoo()
    zoo.swapper = Failing(margin=1.3)
    (tmp_path / "out.mp4").write_bytes(b"older")
    with pytest.raises(mien.ModelError, match="broken"):
        mien.swap(person, clip, tmp_path / "out.mp4", zoo=zoo)
    assert written(tmp_path) == ["out.mp4"]
    assert (tmp_path / "out.mp4").read_bytes() == b"older"


def test_outputs_that_cannot_be_are_known_before_the_work(
    tmp_path: Path, blank: Path, clip: Path, person: IdentityData
) -> None:
    def refuse(_: Progress) -> None:
        raise AssertionError("work has begun")

    def swap(target: Path, output: Path, sources: Any = person) -> Callable[[], object]:
        return lambda: mien.swap(sources, target, output, zoo=FakeZoo(), progress=refuse)

    cases: list[tuple[Callable[[], object], type[mien.MienError], str]] = [
        (swap(blank, tmp_path / "none" / "out.png"), mien.OutputError, "folder"),
        (swap(blank, tmp_path), mien.OutputError, "is a folder"),
        (swap(blank, blank), mien.OutputError, "one of the inputs"),
        (swap(clip, blank, [blank]), mien.OutputError, "one of the inputs"),
        (swap(clip, tmp_path / "out.jpg"), mien.OptionsError, "out.jpg"),
        (swap(blank, tmp_path / "out.mp4"), mien.OptionsError, "is a photo"),
        (swap(tmp_path / "missing.png", tmp_path / "out.png"), mien.MediaError, "missing.png"),
        (swap(blank, tmp_path / "out.png", []), mien.OptionsError, "no source"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
    assert written(tmp_path) == ["blank.png"]


def test_unknown_models_are_known_before_the_work(tmp_path: Path, blank: Path, person: IdentityData) -> None:
    for name in ("swapper", "embedder", "detector"):
        with pytest.raises(mien.OptionsError, match=f"no {name} is called 'nothing'"):
            options: dict[str, Any] = {name: "nothing"}
            mien.swap(person, blank, tmp_path / "out.png", **options)


def test_options_are_checked_and_the_nearest_name_is_told() -> None:
    assert parse_options(SwapOptions, {"crf": 20}).crf == 20
    with pytest.raises(mien.OptionsError, match="no option is called 'min_fase'; did you mean min_face"):
        parse_options(SwapOptions, {"min_fase": 30})
    with pytest.raises(mien.OptionsError, match="no option is called 'xyz'; there are: device"):
        parse_options(SwapOptions, {"xyz": 30})
    with pytest.raises(mien.OptionsError, match="crf=99: input should be less than or equal to 63"):
        parse_options(SwapOptions, {"crf": 99})


def test_analyze_finds_and_follows_the_face(clip: Path, zoo: Zoo, tmp_path: Path) -> None:
    with mien.analyze(clip, zoo=zoo) as analysis:
        assert len(analysis) == FRAMES
        assert [face.track for faces in analysis for face in faces] == [0] * FRAMES
        assert analysis.cuts == []
        (track,) = analysis.tracks
        assert track.embedding is not None
        assert track.shape is not None
        assert analysis.raw(0)[0].blendshapes is not None
        assert (analysis.width, analysis.height) == (512, 512)
        analysis.save(tmp_path / "side")
    with mien.Analysis.load(tmp_path / "side") as loaded:
        assert loaded.face_count == FRAMES


def test_analyzing_a_photo_without_faces_is_no_error(blank: Path) -> None:
    with mien.analyze(blank, zoo=FakeZoo()) as analysis:
        assert analysis[0] == ()


def test_similarity_is_the_cosine() -> None:
    a, b = embedding(0.0), embedding(1.0)
    assert mien.cosine_similarity(a, b) == pytest.approx(np.cos(1))
    assert mien.cosine_similarity(a * 3, a) == pytest.approx(1)
    assert mien.cosine_similarity(identity(0), identity(2)) == pytest.approx(np.cos(2))
    with pytest.raises(mien.OptionsError, match="8 and 4 values"):
        mien.cosine_similarity(a, embedding(0, 4))


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    import faulthandler

    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_an_output_that_is_a_link_is_written_where_it_leads(
    tmp_path: Path, portraits: Path, zoo: Zoo, person: IdentityData
) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.png"
    link.symlink_to(tmp_path / "real" / "made.png")
    mien.swap(person, portraits / "male_009.jpg", link, zoo=zoo)
    assert link.is_symlink() and (tmp_path / "real" / "made.png").stat().st_size > 1000
    assert written(tmp_path) == ["out.png", "real"] and written(tmp_path / "real") == ["made.png"]
