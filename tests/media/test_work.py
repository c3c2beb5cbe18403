"""`OUT.mien/`: one run at a time, taken over from dead runs, never taken from the user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mien.errors import OutputError
from mien.media.work import WorkFolder, work_path

HOLD = """
import sys, time
from pathlib import Path
from mien.media.work import WorkFolder
work = WorkFolder(Path(sys.argv[1]))
work.file("part").write_bytes(b"half")
print("held", flush=True)
time.sleep(60)
"""


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_result_takes_its_place_and_the_folder_goes(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")
    work = WorkFolder(out)
    assert work.path == tmp_path / "out.mp4.mien"
    work.file("output").write_bytes(b"new")
    work.file("other").write_bytes(b"rest")
    (work.path / "folder").mkdir()
    (work.path / "folder" / "file").write_bytes(b"rest")
    assert out.read_bytes() == b"old"
    work.publish(work.file("output"))
    assert out.read_bytes() == b"new"
    work.remove()
    assert files(tmp_path) == ["out.mp4"]


def test_a_second_run_on_one_output_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    first = WorkFolder(out)
    first.file("part").write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"out\.mp4: another run is writing it; wait"):
        WorkFolder(out)
    assert first.file("part").read_bytes() == b"mine"
    WorkFolder(tmp_path / "other.mp4").remove()
    first.remove()
    assert files(tmp_path) == []
    WorkFolder(out).remove()


@pytest.mark.parametrize("keep", [False, True])
def test_a_killed_run_leaves_its_work_to_the_next(tmp_path: Path, keep: bool, python: tuple[str, ...]) -> None:
    out = tmp_path / "out.mp4"
    with subprocess.Popen([*python, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None and held.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="another run"):
            WorkFolder(out, keep=keep)
        held.send_signal(signal.SIGKILL)
        held.wait()
    work = WorkFolder(out, keep=keep)
    assert work.file("part").exists() == keep
    work.remove()
    assert files(tmp_path) == []


def test_a_released_folder_stays(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path / "out.mp4")
    work.file("part").write_bytes(b"half")
    work.release()
    work.remove()  # no longer its own
    again = WorkFolder(tmp_path / "out.mp4", keep=True)
    assert again.file("part").read_bytes() == b"half"
    again.remove()


@pytest.mark.parametrize("name", ["lock", "holiday.jpg"])
def test_a_folder_of_the_user_is_not_touched(tmp_path: Path, name: str) -> None:
    folder = work_path(tmp_path / "out.mp4")
    folder.mkdir()
    (folder / name).write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"out\.mp4\.mien is needed for the work and is not mien's; move it away"):
        WorkFolder(tmp_path / "out.mp4")
    assert (folder / name).read_bytes() == b"precious"
    assert files(folder) == [name]


def test_an_empty_folder_of_that_name_is_taken(tmp_path: Path) -> None:
    work_path(tmp_path / "out.mp4").mkdir()
    WorkFolder(tmp_path / "out.mp4").remove()
    assert files(tmp_path) == []


@pytest.mark.parametrize("length", [250, 251, 255])
def test_names_up_to_the_limit_have_a_folder(tmp_path: Path, length: int) -> None:
    out = tmp_path / ("é" * 10 + "x" * (length - 24) + ".mp4")
    assert len(os.fsencode(out.name)) == length
    other = out.with_name("y" + out.name[1:])
    assert work_path(out) != work_path(other)
    work = WorkFolder(out)
    work.file("output").write_bytes(b"new")
    work.publish(work.file("output"))
    assert files(tmp_path) == [out.name]


def test_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    work_path(tmp_path / "out.mp4").write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"out\.mp4: cannot be written \(File exists\)"):
        WorkFolder(tmp_path / "out.mp4")
    assert work_path(tmp_path / "out.mp4").read_bytes() == b"precious"


RACE = """
import sys, time
from pathlib import Path
from mien.errors import OutputError
from mien.media.work import WorkFolder
out, done = Path(sys.argv[1]), 0
while done < 15:
    try:
        work = WorkFolder(out)
    except OutputError as error:
        assert "another run" in str(error), error
        time.sleep(0.002)  # else those who wait leave no processor to the one they wait for
        continue
    work.file("output").write_bytes(sys.argv[2].encode() * 100)
    assert work.file("output").read_bytes() == sys.argv[2].encode() * 100
    work.publish(work.file("output"))
    done += 1
print(done)
"""


def test_many_runs_never_meet_in_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    command = [sys.executable, "-W", "error", "-c", RACE, str(out)]
    runs = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(3)]
    assert [(run.communicate()[0], run.returncode) for run in runs] == [("15\n", 0)] * 3
    assert files(tmp_path) == ["out.mp4"]
