from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from mien.cli.progress import bar

from .conftest import Mien

REPORT_KEYS = {
    "output",
    "kind",
    "frames",
    "frames_with_faces",
    "tracks",
    "faces",
    "models",
    "device",
    "timings",
    "peak_memory_mb",
    "seconds",
    "notes",
}


@pytest.fixture
def photos(portraits: Path) -> tuple[Path, Path]:
    """A source and a target."""
    return portraits / "female_001.jpg", portraits / "male_009.jpg"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_photo_is_swapped_and_reported(mien: Mien, photos: tuple[Path, Path], folder: Path) -> None:
    source, target = photos
    result = mien("swap", "-s", source, "-t", target, "-o", "out.png", "--report", "r.json")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("out.png: 1 face swapped in 1 of 1 frames, ")
    assert sorted(path.name for path in folder.iterdir()) == ["out.png", "r.json"]
    before, after = cv2.imread(str(target)), cv2.imread("out.png")
    assert before is not None and after is not None and after.shape == before.shape
    assert not np.array_equal(before, after)
    report = json.loads(Path("r.json").read_text())
    assert set(report) == REPORT_KEYS
    assert (report["output"], report["kind"], report["frames"], len(report["faces"])) == ("out.png", "image", 1, 1)
    assert report["faces"][0]["similarity_source"] > report["faces"][0]["similarity_target"]


def test_a_profile_is_written_on_demand(mien: Mien, photos: tuple[Path, Path], folder: Path) -> None:
    source, target = photos
    result = mien("swap", "-s", source, "-t", target, "-o", "out.png", "--profile", "-t.json", "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")
    trace = json.loads(Path("-t.json").read_text())
    assert {"decode", "paste", "encode"} <= {event["name"] for event in trace["traceEvents"]}
    result = mien("swap", "-s", source, "-t", target, "-o", "b.png", "--profile", "r.json", "--report", "r.json")
    assert (result.code, result.out) == (1, "")
    assert result.err == "mien: r.json: the profile would overwrite a file of this run; choose another name\n"


@pytest.mark.parametrize("name", ["-weird.png", "[1].png", "a b.png", "🙂 'q' \".png"])
def test_names_are_free(mien: Mien, photos: tuple[Path, Path], folder: Path, name: str) -> None:
    source, target = (shutil.copy(photo, f"{kind}{name}") for photo, kind in zip(photos, ("-s", "-t"), strict=True))
    result = mien("swap", "-s", source, "-t", target, "-o", name, "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert cv2.imread(str(folder / name)) is not None


def test_no_face_in_the_target_fails_and_writes_nothing(mien: Mien, photos: tuple[Path, Path], folder: Path) -> None:
    cv2.imwrite("grey.png", np.full((200, 300, 3), 128, np.uint8))
    result = mien("swap", "-s", photos[0], "-t", "grey.png", "-o", "out.png", "--report", "r.json")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("mien: grey.png: no face")
    assert result.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["grey.png"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-s", "missing.jpg", "-t", "a.jpg", "-o", "out.png"], "mien: missing.jpg: "),
        (["-s", "a.jpg", "-t", "missing.mp4", "-o", "out.mp4"], "mien: missing.mp4: "),
        (["-s", "a.jpg", "-t", "a.jpg", "-o", "a.jpg"], "mien: a.jpg: is one of the inputs"),
        (["-s", "a.jpg", "-t", "a.jpg", "-o", "no/out.png"], "mien: no/out.png: "),
        (["-s", "a.jpg", "-t", "a.jpg", "-o", "out.png", "--report", "no/r.json"], "mien: no/r.json: "),
        (["-s", "a.jpg", "-t", "a.jpg", "-o", "out.png", "--report", "out.png"], "mien: out.png: the report would"),
        (["-s", "a.jpg", "-t", "a.jpg", "-o", "out.png", "--report", "./a.jpg"], "mien: a.jpg: the report would"),
        (["-s", "text.jpg", "-t", "a.jpg", "-o", "out.png"], "mien: text.jpg: "),
    ],
)
def test_failures_are_one_line_and_write_nothing(
    mien: Mien, photos: tuple[Path, Path], folder: Path, arguments: list[str], line: str
) -> None:
    shutil.copy(photos[0], "a.jpg")
    Path("text.jpg").write_text("no picture")
    result = mien("swap", *arguments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(line)
    assert result.err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["a.jpg", "text.jpg"]


def test_an_unknown_format_is_wrong_usage(mien: Mien, photos: tuple[Path, Path], folder: Path) -> None:
    result = mien("swap", "-s", photos[0], "-t", photos[1], "-o", "out.xyz")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("mien: out.xyz: ")
    assert list(folder.iterdir()) == []


def test_an_unknown_model_is_wrong_usage(mien: Mien, photos: tuple[Path, Path], folder: Path) -> None:
    result = mien("swap", "-s", photos[0], "-t", photos[1], "-o", "out.png", "--detector", "eye")
    assert result.code == 2 and result.err.startswith("mien: no detector is called 'eye'; choose one of: ")


def test_no_bar_where_nobody_sees_it() -> None:
    for quiet in (True, False):  # under pytest, stderr is no terminal
        with bar(quiet=quiet) as progress:
            assert progress is None


def on_terminal(command: list[str], seen: Callable[[subprocess.Popen[bytes], bytes], None]) -> tuple[int, bytes]:
    """Run with stderr on a terminal; `seen` gets the process and all that was drawn so far, at each new piece."""
    terminal, stderr = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment) as process:
        os.close(stderr)
        drawn = b""
        try:
            while piece := os.read(terminal, 4096):
                drawn += piece
                seen(process, drawn)
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        finally:
            os.close(terminal)
        return process.wait(), drawn


def command(source: Path, target: Path) -> list[str]:
    options = ["-s", str(source), "-t", str(target), "-o", "out.mp4", "--preset", "ultrafast"]
    return [sys.executable, "-m", "mien", "swap", *options]


def test_a_bar_is_drawn_on_a_terminal(photos: tuple[Path, Path], clip: Path, folder: Path) -> None:
    code, drawn = on_terminal(command(photos[0], clip), lambda *_: None)
    assert code == 0
    for word in (b"analyze", b"render", b"8/8", b"fps", b"ETA"):
        assert word in drawn
    assert [path.name for path in folder.iterdir()] == ["out.mp4"]


HOW_TO_GO_ON = b"interrupted; the same command with --resume goes on (out.mp4.mien holds the work)"


@pytest.mark.parametrize(
    ("phase", "told", "left"),
    [(b"analyze", b"interrupted; no output was written", []), (b"render", HOW_TO_GO_ON, ["out.mp4.mien"])],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_file(
    photos: tuple[Path, Path], clip: Path, folder: Path, phase: bytes, told: bytes, left: list[str], number: int
) -> None:
    sent: list[int] = []

    def interrupt(process: subprocess.Popen[bytes], drawn: bytes) -> None:
        if phase in drawn and not sent:
            process.send_signal(number)
            sent.append(number)

    code, drawn = on_terminal(command(photos[0], clip), interrupt)
    assert code == 130
    assert drawn.endswith(b"mien: " + told + b"\r\n")
    assert b"Traceback" not in drawn
    assert [path.name for path in folder.iterdir()] == left
