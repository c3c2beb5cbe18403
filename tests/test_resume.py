"""A run that was interrupted at any point goes on, and its output is that of one that was not, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mien
from mien.errors import OutputError
from mien.identity_data import IdentityData
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
from mien.report import Progress, Report
from mien.zoo.registry import Zoo
from tests.fakes import NetworkSwapper, embedding, identity
from tests.test_api import InvertingZoo

FRAMES, SEGMENT = 12, 4


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return InvertingZoo()


@pytest.fixture(scope="module")
def person() -> IdentityData:
    return replace(identity(), embedding=embedding(0, 128))


@pytest.fixture(scope="module")
def clip(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "short.mkv"
    with open_reader(examples / "clip.mp4") as reader, open_writer(path, reader, SwapOptions(preset="fast")) as writer:
        for frame, _ in zip(reader, range(FRAMES), strict=False):
            writer.write(frame)
    return path


Swap = Callable[..., Report]


@pytest.fixture(scope="module")
def swap(clip: Path, zoo: Zoo, person: IdentityData) -> Swap:
    def run(output: Path, stop: tuple[str, int] | None = None, **options: Any) -> Report:
        def progress(event: Progress) -> None:
            if (event.phase, event.done) == stop:
                raise KeyboardInterrupt

        source = options.pop("source", person)
        settings = {"preset": "veryfast", "segment_frames": SEGMENT, **options}
        return mien.swap(source, clip, output, zoo=zoo, progress=progress, **settings)

    return run


@pytest.fixture(scope="module")
def whole(swap: Swap, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    path = tmp_path_factory.mktemp("whole") / "out.mp4"
    return path, swap(path)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("stop", [("analyze", 3), ("render", 1), ("render", 4), ("render", 12)])
def test_an_interrupted_run_goes_on(
    tmp_path: Path, swap: Swap, whole: tuple[Path, Report], stop: tuple[str, int], resume: bool
) -> None:
    out = tmp_path / "out.mp4"
    with pytest.raises(KeyboardInterrupt):
        swap(out, stop)
    assert files(tmp_path) == ([] if stop[0] == "analyze" else ["out.mp4.mien"])
    report = swap(out, resume=resume)
    assert out.read_bytes() == whole[0].read_bytes()
    assert files(tmp_path) == ["out.mp4"]
    assert (report.faces, report.frames, report.frames_with_faces, report.tracks) == (
        whole[1].faces, whole[1].frames, whole[1].frames_with_faces, whole[1].tracks,
    )  # fmt: skip
    done = stop[1] // SEGMENT * SEGMENT if resume and stop[0] == "render" else 0
    assert report.notes == ((f"resumed after {done} frames",) if done else ())
    assert ("analyze" in report.timings) != (resume and stop[0] == "render")


def test_a_run_may_be_interrupted_again_and_again(tmp_path: Path, swap: Swap, whole: tuple[Path, Report]) -> None:
    out = tmp_path / "out.mp4"
    for done in (5, 7, 10):
        with pytest.raises(KeyboardInterrupt):
            swap(out, ("render", done), resume=True)
    swap(out, resume=True)
    assert out.read_bytes() == whole[0].read_bytes()


def interrupted(swap: Swap, out: Path, done: int = 9) -> Path:
    with pytest.raises(KeyboardInterrupt):
        swap(out, ("render", done))
    return out.with_name(out.name + ".mien")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"crf": 30}, r"--crf was 17 and is 30"),
        ({"segment_frames": 5}, r"--segment-frames was 4 and is 5"),
        ({"source": replace(identity(), embedding=embedding(1, 128))}, r"the source was \w+ and is \w+"),
    ],
)
def test_another_run_is_not_gone_on_with(tmp_path: Path, swap: Swap, changes: dict[str, Any], told: str) -> None:
    out = tmp_path / "out.mp4"
    folder = interrupted(swap, out)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OutputError, match=rf"out\.mp4: the interrupted run was another one \({told}\); repeat it"):
        swap(out, resume=True, **changes)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("000000.packets", "flip"),
        ("000001.packets", "cut"),
        ("000001.packets", "gone"),
        ("000001.state", "flip"),
        ("analysis", "flip"),
        ("analysis", "cut"),
    ],
)
def test_damaged_work_is_done_again(
    tmp_path: Path, swap: Swap, whole: tuple[Path, Report], name: str, how: str
) -> None:
    out = tmp_path / "out.mp4"
    (path,) = interrupted(swap, out).glob(name)
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes(data[:-1] if how == "cut" else data)
    if how == "gone":
        path.unlink()
    swap(out, resume=True)
    assert out.read_bytes() == whole[0].read_bytes()
    assert files(tmp_path) == ["out.mp4"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, mien.OptionsError])
def test_a_resumed_run_that_ends_before_it_goes_on_deletes_nothing(
    tmp_path: Path, swap: Swap, clip: Path, whole: tuple[Path, Report], error: type[BaseException]
) -> None:
    out = tmp_path / "out.mp4"
    folder = interrupted(swap, out)
    before = files(folder)
    with pytest.raises(error), open_reader(clip) as reader, open_writer(out, reader, SwapOptions(resume=True)):
        raise error
    assert files(folder) == before
    swap(out, resume=True)
    assert out.read_bytes() == whole[0].read_bytes()


def test_resuming_what_was_never_begun_is_a_run(tmp_path: Path, swap: Swap, whole: tuple[Path, Report]) -> None:
    assert swap(tmp_path / "out.mp4", resume=True).notes == ()
    assert (tmp_path / "out.mp4").read_bytes() == whole[0].read_bytes()


def test_a_failure_leaves_nothing_to_resume(tmp_path: Path, swap: Swap, clip: Path) -> None:
    out = tmp_path / "out.mp4"
    interrupted(swap, out)

    class Failure(Exception):
        pass

    def fail(event: Progress) -> None:
        if event.done == 10:
            raise Failure

    with pytest.raises(Failure):
        mien.swap(
            replace(identity(), embedding=embedding(0, 128)), clip, out,
            zoo=InvertingZoo(), progress=fail, preset="veryfast", segment_frames=SEGMENT, resume=True,
        )  # fmt: skip
    assert files(tmp_path) == []


def test_the_report_tells_of_damage_that_the_first_run_saw(tmp_path: Path, swap: Swap) -> None:
    out = tmp_path / "out.mp4"
    folder = interrupted(swap, out)
    (folder / "notes").write_text('["3 damaged packets of the target were left out"]')
    assert swap(out, resume=True).notes == (
        "3 damaged packets of the target were left out", "resumed after 8 frames"
    )  # fmt: skip


def test_segments_do_not_show(tmp_path: Path, swap: Swap, whole: tuple[Path, Report]) -> None:
    """Lossless, the pictures are the same whatever the segments."""
    pictures = []
    for count in (SEGMENT, 250):
        out = tmp_path / f"{count}.mkv"
        swap(out, encoder="ffv1", segment_frames=count)
        with open_reader(out) as reader:
            pictures.append([np.asarray(frame.read(frame.box)) for frame in reader])
    for a, b in zip(*pictures, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("done", [2, 5, 8])
def test_a_run_in_batches_goes_on_with_the_same_batches(
    tmp_path: Path, clip: Path, person: IdentityData, whole: tuple[Path, Report], done: int
) -> None:
    zoo = InvertingZoo()
    swapper = zoo.swapper = NetworkSwapper(margin=1.3)

    def run(output: Path, stop: int | None = None, **options: Any) -> list[int]:
        def progress(event: Progress) -> None:
            if (event.phase, event.done) == ("render", stop):
                raise KeyboardInterrupt

        swapper.batches.clear()
        settings = {"preset": "veryfast", "segment_frames": SEGMENT, "batch_frames": 3, **options}
        mien.swap(person, clip, output, zoo=zoo, progress=progress, **settings)
        return [len(batch) for batch in swapper.batches]

    out = tmp_path / "out.mp4"
    with pytest.raises(KeyboardInterrupt):
        run(out, done)
    with pytest.raises(OutputError, match=r"\(--batch-frames was 3 and is 2\); repeat it"):
        run(out, batch_frames=2, resume=True)
    with pytest.raises(OutputError, match=r"\(--batch-frames was 3 and is 1\); repeat it"):
        run(out, batch_frames=0, resume=True)
    sizes = run(out, resume=True)
    assert sizes == [3, 1] * ((FRAMES - done // SEGMENT * SEGMENT) // SEGMENT)
    assert out.read_bytes() == whole[0].read_bytes()  # the swapper's arithmetic is exact in any batch
    assert files(tmp_path) == ["out.mp4"]


def test_batches_that_are_chosen_go_on_with_the_same_by_number(
    tmp_path: Path, swap: Swap, whole: tuple[Path, Report]
) -> None:
    out = tmp_path / "out.mp4"
    interrupted(swap, out)
    assert swap(out, resume=True, batch_frames=1).notes == ("resumed after 8 frames",)
    assert out.read_bytes() == whole[0].read_bytes()
