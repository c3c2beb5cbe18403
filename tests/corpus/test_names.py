"""Names and places: any name is just a name, and nothing is ever left beside the output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.corpus.conftest import SOURCE, Bench
from tests.corpus.film import film
from tests.corpus.look import assert_untouched, digest, look, tree
from tests.corpus.scene import Pixels, assert_only_box_changed, number_in, scene

NAMES = {
    "spaces": "a b  c",
    "Unicode": "Zoë_名前_Привет",
    "combining": "e\u0301cole",
    "emoji": "🙂👩‍👩‍👧",
    "single quote": "it's",
    "double quotes": 'say "hi"',
    "[1]": "clip[1]",
    "%d": "frame%d",
    "%03d": "frame%03d%%",
    "leading dash": "-o",
    "two dashes": "--target",
    "colon": "file:x",
    "protocol": "concat:a|b",
    "dollar": "$HOME;echo `x`",
    "backslash": "a\\b",
    "newline": "a\nb",
    "dots": "..a..b",
    "not UTF-8": "a\udcff",
}


def restless(number: int) -> Pixels:
    """Another background in each frame, so that no encoder makes it small."""
    return scene(number, seed=number)


def photo(path: Path, number: int = 3) -> Path:
    with path.open("wb") as file:
        Image.fromarray(scene(number)).save(file, format="PNG")
    return path


def photo_number(path: Path) -> int:
    with path.open("rb") as file, Image.open(file) as image:
        after = np.asarray(image)
    number = number_in(after)
    assert_only_box_changed(scene(number), after)
    return number


@pytest.mark.parametrize("kind", NAMES)
def test_any_name_is_read_and_written(bench: Bench, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command line, in the current folder, as a user would type it."""
    name = NAMES[kind]
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    photo(Path(f"{name}.png"))
    film(Path("clip.mp4").absolute(), pts=range(2))
    os.rename("clip.mp4", f"{name}.mp4")
    for suffix, made in (("png", f"{name} made.png"), ("mp4", f"{name} made.mkv")):
        ended = bench.command("swap", "-s", SOURCE, "-t", f"{name}.{suffix}", "-o", made, "--encoder",
                              "auto", "--report", f"{name}.{suffix}.json")  # fmt: skip
        assert (ended.code, ended.err) == (0, "")
    wanted = [
        f"{name}.mp4",
        f"{name}.mp4.json",
        f"{name}.png",
        f"{name}.png.json",
        f"{name} made.mkv",
        f"{name} made.png",
    ]
    assert sorted(os.listdir()) == sorted(wanted)
    assert photo_number(Path(f"{name} made.png")) == 3
    os.rename(f"{name} made.mkv", "made.mkv")
    assert look(work / "made.mkv").numbers == [0, 1]


@pytest.mark.parametrize("suffix", ["png", "mkv", "mp4"])
def test_the_longest_name_that_the_disk_takes(bench: Bench, tmp_path: Path, suffix: str) -> None:
    name = "n" * (255 - 1 - len(suffix)) + "." + suffix
    target = photo(tmp_path / name) if suffix == "png" else film(tmp_path / f"in.{suffix}", pts=range(2))
    made = bench.swap(target, name)
    if suffix == "png":
        assert photo_number(made) == 3
    else:
        assert look(made).numbers == [0, 1]
    bench.fails(target, "long", name="n" + name)


def test_an_output_without_a_folder(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film(tmp_path / "in.mp4", pts=range(2))
    photo(tmp_path / "in.png")
    monkeypatch.chdir(tmp_path)
    for target, made in (("in.mp4", "out.mp4"), ("in.png", "out.png")):
        ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", made)
        assert (ended.code, ended.err) == (0, "")
    assert sorted(os.listdir()) == ["in.mp4", "in.png", "out", "out.mp4", "out.png"]
    assert look(tmp_path / "out.mp4").numbers == [0, 1]


def test_another_format_than_the_target_s(bench: Bench, tmp_path: Path) -> None:
    clip = film(tmp_path / "in.mov", pts=range(4), audio=("aac",))
    for name, codec in {"a.mp4": "h264", "a.mkv": "ffv1", "a.webm": "vp9", "a.m4v": "h264"}.items():
        seen = look(bench.swap(clip, name))
        assert (seen.codec, seen.numbers) == (codec, [0, 1, 2, 3])
    jpeg = tmp_path / "in.jpg"
    Image.fromarray(scene(6)).save(jpeg, quality=97)
    kinds = {"png": "PNG", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP", "jpeg": "JPEG"}
    for suffix, kind in kinds.items():
        with Image.open(bench.swap(jpeg, f"b.{suffix}")) as image:
            assert image.format == kind
            assert number_in(np.asarray(image)) == 6


def test_a_photo_is_no_video_and_a_video_no_photo(bench: Bench, tmp_path: Path) -> None:
    bench.fails(photo(tmp_path / "in.png"), "in.png", "out.mp4", name="out.mp4", code=2)
    bench.fails(film(tmp_path / "in.mp4", pts=[0]), "in.mp4", "out.jpg", name="out.jpg", code=2)
    bench.fails(tmp_path / "in.png", "out.xyz", name="out.xyz", code=2)
    bench.fails(tmp_path / "in.png", "out", name="out", code=2)


@pytest.mark.parametrize("how", ["same", "dotted", "link", "hard link", "source"])
def test_an_output_that_is_an_input_is_refused_and_the_input_kept(bench: Bench, tmp_path: Path, how: str) -> None:
    for target in (photo(tmp_path / "in.png"), film(tmp_path / "in.mp4", pts=range(2))):
        before = digest(target)
        name = f"out{target.suffix}"
        output = bench.folder / name
        if how == "same":
            output = target
        elif how == "dotted":
            output = target.parent / "." / ".." / target.parent.name / target.name
        elif how == "link":
            output.symlink_to(target)
        elif how == "hard link":
            os.link(target, output)
        else:
            output = Path(shutil.copy(SOURCE, bench.folder / "source.png"))
        source = output if how == "source" else SOURCE
        there = tree(tmp_path)
        ended = bench.command("swap", "-s", source, "-t", target, "-o", output)
        assert (ended.code, ended.out) == (1, "")
        assert "is one of the inputs" in ended.err
        assert ended.err.count("\n") == 1
        assert digest(target) == before
        assert tree(tmp_path) == there
        if output.exists() and output != target:
            output.unlink()


def test_an_old_output_is_replaced_only_by_a_whole_new_one(bench: Bench, tmp_path: Path) -> None:
    old = bench.folder / "out.png"
    old.write_bytes(b"old")
    Image.new("RGB", (200, 200)).save(tmp_path / "black.png")
    bench.fails(tmp_path / "black.png", "no face", name="out.png")
    assert old.read_bytes() == b"old"
    ended = bench.command("swap", "-s", SOURCE, "-t", photo(tmp_path / "in.png"), "-o", old)
    assert ended.code == 0
    assert photo_number(old) == 3


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Path]:
    """A folder that takes no new file, from root either."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(folder)], capture_output=True, check=False)
    yield folder if made.returncode == 0 else Path("/proc")
    if made.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("suffix", ["png", "mp4"])
def test_a_read_only_folder_is_told_before_the_work(bench: Bench, tmp_path: Path, sealed: Path, suffix: str) -> None:
    target = photo(tmp_path / "in.png") if suffix == "png" else film(tmp_path / "in.mp4", pts=range(3))
    output = sealed / f"out.{suffix}"
    ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", output)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"mien: {output}: ")
    assert ended.err.count("\n") == 1
    assert not output.exists()
    assert not any(name.startswith("out") or ".mien" in name for name in os.listdir(sealed))


def test_a_missing_folder_and_a_folder_as_output_are_errors(bench: Bench, tmp_path: Path) -> None:
    target = photo(tmp_path / "in.png")
    bench.fails(target, "none/out.png", name="none/out.png")
    (bench.folder / "taken.png").mkdir()
    bench.fails(target, "taken.png", name="taken.png")
    (bench.folder / "file").touch()
    bench.fails(target, "file/out.png", name="file/out.png")


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from mien.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("suffix", ["png", "mp4", "mkv"])
def test_a_full_disk_is_one_error_and_leaves_nothing(bench: Bench, tmp_path: Path, suffix: str) -> None:
    """A disk of 64 kB; where no disk can be made, files that cannot grow beyond 40 kB."""
    target = photo(tmp_path / "in.png") if suffix == "png" else film(tmp_path / "in.mkv", draw=restless)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        flags = [] if suffix == "png" else ["--crf", "0"]
        line = ["swap", "-s", str(SOURCE), "-t", str(target), "-o", str(disk / f"out.{suffix}"), *flags]
        if mounted:
            ended = bench.command(*line)
            code, err = ended.code, ended.err
        else:
            run = subprocess.run(
                [sys.executable, "-c", LIMITED, "40000", *line], capture_output=True, text=True, check=False
            )
            code, err = run.returncode, run.stderr
        assert code == 1, err
        assert err.startswith("mien: ")
        assert f"out.{suffix}" in err
        assert "space" in err or "too large" in err
        assert err.count("\n") == 1
        assert tree(disk) == []
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


def test_two_runs_with_one_base_name_at_once(bench: Bench, tmp_path: Path) -> None:
    """Targets, outputs and work share their stem; each run gets its own frames."""
    targets = []
    for index in range(3):
        (tmp_path / str(index)).mkdir()
        options = {"crf": str(8 + index)}
        targets.append(film(tmp_path / str(index) / "clip.mp4", pts=range(5 + index), options=options))
    names = ["clip.mkv", "clip.mp4", "clip.mov"]
    import mien

    def run(index: int) -> mien.Report:
        return mien.swap(bench.person, targets[index], bench.folder / names[index], zoo=bench.zoo, encoder_threads=1)

    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(run, range(3)))
    assert [report.frames for report in reports] == [5, 6, 7]
    assert tree(bench.folder) == sorted(names)
    for index, name in enumerate(names):
        assert look(bench.folder / name).numbers == list(range(5 + index))


def test_two_runs_into_one_output_at_once(bench: Bench, tmp_path: Path) -> None:
    """One wins, or the second is refused: never a mixture, and nothing else stays."""
    import mien

    targets = [film(tmp_path / f"{index}.mp4", pts=range(6 + 4 * index)) for index in range(2)]
    output = bench.folder / "out.mkv"

    def run(target: Path) -> str:
        try:
            mien.swap(bench.person, target, output, zoo=bench.zoo, encoder="ffv1", encoder_threads=1)
        except mien.MienError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(run, targets))
    assert "" in errors
    assert all(str(output) in error for error in errors if error)
    assert tree(bench.folder) == ["out.mkv"]
    made = look(output)
    (whole,) = [look(target) for target in targets if len(look(target).shots) == len(made.shots)]
    assert made.numbers == whole.numbers
    assert_untouched(whole, made)
