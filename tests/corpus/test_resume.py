"""Interruptions: what was done is not lost, and a resumed run gives the bytes of one that was not interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mien.report import Progress
from tests.corpus.broken import flipped
from tests.corpus.conftest import SOURCE, Bench, Ended
from tests.corpus.film import film
from tests.corpus.look import audio_packets, digest, look, tree

FRAMES = 30
FLAGS = ("--segment-frames", "7", "--encoder-threads", "1", "--preset", "veryfast", "--device", "cpu", "--quiet")
# The command line, in a process that is killed in the middle: by phase, frames done in it, and signal.
KILLED = """
import os, sys
from contextlib import nullcontext
import mien.cli.swap as swap
from mien.cli.main import main
phase, done, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def kill(progress):
    if progress.phase == phase and progress.done == done:
        os.kill(os.getpid(), number)

swap.bar = lambda **_: nullcontext(kill)
sys.exit(main(sys.argv[4:]))
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip with B-frames, sound and chapters."""
    return film(tmp_path_factory.mktemp("target") / "in.mp4", pts=range(FRAMES), audio=("aac",),
                options={"bf": "2", "g": "12"}, chapters=((0, 600, "One"), (600, 1200, "Two")))  # fmt: skip


@pytest.fixture(scope="module")
def whole(target: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What uninterrupted runs give, by the output's extension."""
    from mien.cli.main import main

    made = {}
    for suffix in ("mp4", "mkv"):
        made[suffix] = tmp_path_factory.mktemp("whole") / f"out.{suffix}"
        assert main(["swap", "-s", str(SOURCE), "-t", str(target), "-o", str(made[suffix]), *FLAGS]) == 0
    assert look(made["mp4"]).numbers == list(range(FRAMES))
    assert [data for _, data in audio_packets(made["mp4"])] == [data for _, data in audio_packets(target)]
    return made


def line(target: Path, output: Path, *more: str) -> list[str]:
    return ["swap", "-s", str(SOURCE), "-t", str(target), "-o", str(output), *FLAGS, *more]


Stopper = Callable[[str, int], None]


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Stopper:
    """`stop_at(phase, done)`: the next command line in this process gets a Ctrl-C there."""

    def arm(phase: str, done: int) -> None:
        def interrupt(progress: Progress) -> None:
            if (progress.phase, progress.done) == (phase, done):
                os.kill(os.getpid(), signal.SIGINT)

        def bar(**_: Any) -> Any:
            return nullcontext(interrupt if phase else None)

        monkeypatch.setattr("mien.cli.swap.bar", bar)

    return arm


def interrupted(bench: Bench, stop_at: Stopper, target: Path, phase: str, done: int, name: str = "out.mp4") -> Ended:
    """Interrupt a run; it says so, and only its folder is there."""
    stop_at(phase, done)
    ended = bench.command(*line(target, bench.folder / name))
    stop_at("", 0)
    assert ended.code == 130
    assert ended.out == ""
    assert ended.err.startswith("mien: interrupted")
    assert ended.err.count("\n") == 1
    assert not (bench.folder / name).exists()
    assert [path.name for path in bench.folder.iterdir()] == [f"{name}.mien"]
    assert "--resume" in ended.err
    return ended


def resume(bench: Bench, target: Path, wanted: Path, name: str = "out.mp4") -> None:
    """Go on to the end: the bytes are those of an uninterrupted run, and nothing else is left."""
    ended = bench.command(*line(target, bench.folder / name, "--resume"))
    assert (ended.code, ended.err) == (0, "")
    assert tree(bench.folder) == [name]
    assert digest(bench.folder / name) == digest(wanted)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_kill_9_at_any_point_and_resume(
    bench: Bench, tmp_path: Path, target: Path, whole: dict[str, Path], python: tuple[str, ...], name: str
) -> None:
    points = [("analyze", 12), ("render", 3), ("render", 16), ("render", FRAMES)]
    for index, (phase, done) in enumerate(points if name == "out.mp4" else points[2:]):
        more = ["--resume"] if index else []
        script = [*python, "-c", KILLED, phase, str(done), str(int(signal.SIGKILL))]
        run = subprocess.run([*script, *line(target, bench.folder / name, *more)], capture_output=True, check=False)
        assert run.returncode == -signal.SIGKILL, run.stderr
        assert [path.name for path in bench.folder.iterdir()] == [f"{name}.mien"]
    resume(bench, target, whole[name[-3:]], name)


@pytest.mark.parametrize(("phase", "done"), [("render", 1), ("render", 10), ("render", 29)])
def test_ctrl_c_and_resume(
    bench: Bench, target: Path, whole: dict[str, Path], stop_at: Stopper, phase: str, done: int
) -> None:
    interrupted(bench, stop_at, target, phase, done)
    resume(bench, target, whole["mp4"])


def test_ctrl_c_before_anything_is_done_leaves_nothing(
    bench: Bench, target: Path, whole: dict[str, Path], stop_at: Stopper
) -> None:
    stop_at("analyze", 5)
    ended = bench.command(*line(target, bench.folder / "out.mp4"))
    stop_at("", 0)
    assert (ended.code, ended.err) == (130, "mien: interrupted; no output was written\n")
    assert tree(bench.folder) == []
    resume(bench, target, whole["mp4"])


def test_ctrl_c_again_and_again(bench: Bench, target: Path, whole: dict[str, Path], stop_at: Stopper) -> None:
    interrupted(bench, stop_at, target, "render", 8)
    for done in (15, 22, 23):
        stop_at("render", done)
        assert bench.command(*line(target, bench.folder / "out.mp4", "--resume")).code == 130
    stop_at("", 0)
    resume(bench, target, whole["mp4"])


def test_sigterm_is_as_ctrl_c(bench: Bench, target: Path, python: tuple[str, ...]) -> None:
    script = [*python, "-c", KILLED, "render", "9", str(int(signal.SIGTERM))]
    run = subprocess.run(
        [*script, *line(target, bench.folder / "out.mp4")], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (130, "")
    assert run.stderr.startswith("mien: interrupted")
    assert [path.name for path in bench.folder.iterdir()] == ["out.mp4.mien"]


def test_a_run_without_resume_starts_anew(bench: Bench, target: Path, whole: dict[str, Path], stop_at: Stopper) -> None:
    interrupted(bench, stop_at, target, "render", 16)
    ended = bench.command(*line(target, bench.folder / "out.mp4"))
    assert (ended.code, ended.err) == (0, "")
    assert tree(bench.folder) == ["out.mp4"]
    assert digest(bench.folder / "out.mp4") == digest(whole["mp4"])


def test_resume_without_an_interrupted_run_is_a_whole_run(bench: Bench, target: Path, whole: dict[str, Path]) -> None:
    resume(bench, target, whole["mp4"])


def test_a_journal_that_does_not_match_is_one_error_and_the_work_is_kept(
    bench: Bench, tmp_path: Path, target: Path, whole: dict[str, Path], stop_at: Stopper
) -> None:
    moved = tmp_path / "in.mp4"
    shutil.copy(target, moved)
    interrupted(bench, stop_at, moved, "render", 16)
    before = tree(bench.folder)
    output = bench.folder / "out.mp4"
    other = film(tmp_path / "other.mp4", pts=range(FRAMES), options={"crf": "30"})
    for words, changed in {
        ("crf", "17", "25"): line(moved, output, "--resume", "--crf", "25"),
        ("trim",): line(moved, output, "--resume", "--trim", "0-0.4"),
        ("target",): line(other, output, "--resume"),
        ("source",): [*line(moved, output, "--resume"), "-s", str(SOURCE.with_name("female_001.jpg"))],
    }.items():
        ended = bench.command(*changed)
        assert ended.code in (1, 2), ended
        assert ended.err.count("\n") == 1
        assert "out.mp4" in ended.err
        assert all(word in ended.err for word in words), ended.err
        assert "--resume" in ended.err
        assert tree(bench.folder) == before
    resume(bench, moved, whole["mp4"])


@pytest.mark.parametrize("damage", ["a bit of a segment", "half of a segment", "half of the journal", "no analysis"])
def test_damaged_work_is_done_again(
    bench: Bench, target: Path, whole: dict[str, Path], stop_at: Stopper, damage: str
) -> None:
    interrupted(bench, stop_at, target, "render", 23)
    folder = bench.folder / "out.mp4.mien"
    segments = sorted(folder.glob("*.packets"))
    journal = next(path for path in folder.iterdir() if "journal" in path.name)
    assert len(segments) >= 3
    if damage == "a bit of a segment":
        segments[1].write_bytes(flipped(segments[1].read_bytes(), 1, 1))
    elif damage == "half of a segment":
        segments[2].write_bytes(segments[2].read_bytes()[: segments[2].stat().st_size // 2])
    elif damage == "half of the journal":
        journal.write_bytes(journal.read_bytes()[: int(journal.stat().st_size * 0.8)])
    else:
        for path in folder.glob("analysis*"):
            path.unlink()
    resume(bench, target, whole["mp4"])


def test_a_photo_that_is_interrupted_leaves_nothing(bench: Bench, tmp_path: Path, stop_at: Stopper) -> None:
    from PIL import Image

    from tests.corpus.scene import scene

    Image.fromarray(scene()).save(tmp_path / "in.png")
    stop_at("render", 1)
    ended = bench.command("swap", "-s", SOURCE, "-t", tmp_path / "in.png", "-o", bench.folder / "out.png", "--quiet")
    assert ended.code == 130
    assert ended.err == "mien: interrupted; no output was written\n"
    assert tree(bench.folder) == []


SLOW = """
import resource, sys, time
from pathlib import Path
import mien
from mien.media.video_writer import VideoWriter
write = VideoWriter.write

def slow(self, frame):
    time.sleep(0.02)
    write(self, frame)

VideoWriter.write = slow
zoo, peaks = mien.Zoo("cpu"), []
person = mien.Identity.from_images([sys.argv[1]], zoo=zoo)
for target in sys.argv[2:]:
    mien.swap(person, target, Path(target).with_suffix(".out.mp4"), zoo=zoo, preset="ultrafast", detect_size=320)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(*peaks)
"""


def test_a_slow_encoder_on_a_long_clip_keeps_memory_flat(tmp_path: Path, python: tuple[str, ...]) -> None:
    """150 frames more, of 1.4 MB each, would be seen at once if they waited anywhere."""
    from functools import partial

    from tests.corpus.scene import scene

    clips = []
    for count in (30, 180):
        draw = partial(scene, width=1280, height=720)

        def some(number: int, draw: Any = draw) -> Any:
            return draw(number, name="male_036" if number < 6 else None)

        options = {"preset": "ultrafast", "crf": "30"}
        clips.append(str(film(tmp_path / f"{count}.mp4", pts=range(count), draw=some, options=options)))
    run = subprocess.run([*python, "-c", SLOW, str(SOURCE), *clips], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    short, long = map(float, run.stdout.split())
    assert long - short < 40, f"{short:.0f} MB for 30 frames, {long:.0f} MB for 180"
