"""Time: when each frame is shown. Every frame bears a number, so a lost, doubled or moved one is seen."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from tests.corpus.conftest import Bench
from tests.corpus.film import film
from tests.corpus.look import Seen, assert_untouched, audio_packets, look
from tests.corpus.scene import Pixels, scene

MS = Fraction(1, 1000)


def assert_same_clip(before: Seen, after: Seen) -> None:
    """The same frames at the same times, with the same pixels outside the face."""
    assert after.numbers == before.numbers
    assert after.times == before.times
    assert_untouched(before, after)


# 60 frames per second for a while, then 15, in a clock of 1/240 s.
VARIABLE = [4 * i for i in range(8)] + [32 + 16 * i for i in range(6)]


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_variable_rate_is_kept(bench: Bench, tmp_path: Path, name: str) -> None:
    base = Fraction(1, 240) if name.endswith("mp4") else MS
    pts = [round(p / 240 / base) for p in VARIABLE]
    target = film(tmp_path / f"in-{name}", pts=pts, time_base=base, rate=Fraction(60))
    before = look(target)
    assert before.numbers == list(range(14))
    assert [round(240 * t) for t in before.times] == VARIABLE
    assert_same_clip(before, look(bench.swap(target, name, encoder="libx264", crf=0)))


RATES = {
    "30000/1001": Fraction(30000, 1001),
    "0.5": Fraction(1, 2),
    "1": Fraction(1),
    "120": Fraction(120),
    "240": Fraction(240),
}


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_is_kept(bench: Bench, tmp_path: Path, rate: str) -> None:
    fps = RATES[rate]
    target = film(tmp_path / "in.mp4", pts=range(8), time_base=1 / fps, rate=fps)
    before, after = look(target), look(bench.swap(target, "out.mp4", crf=0))
    assert before.times == [i / fps for i in range(8)]
    assert_same_clip(before, after)
    assert after.rate == before.rate == fps
    assert after.duration == pytest.approx(float(8 / fps), abs=0.0021)


def test_a_rate_is_kept_where_the_clock_ticks_in_milliseconds(bench: Bench, tmp_path: Path) -> None:
    fps = RATES["30000/1001"]
    target = film(tmp_path / "in.mkv", pts=range(12), time_base=1 / fps, rate=fps)
    before, after = look(target), look(bench.swap(target))
    assert_same_clip(before, after)
    assert after.rate == before.rate


@pytest.mark.parametrize("fps", [15, 24, 60])
def test_another_rate_keeps_time_and_frames(bench: Bench, tmp_path: Path, fps: int) -> None:
    target = film(tmp_path / "in.mp4", pts=range(30), time_base=Fraction(1, 30), rate=Fraction(30), audio=("aac",))
    made = bench.swap(target, "out.mp4", crf=8, fps=str(fps))
    after = look(made)
    assert after.times == [Fraction(i, fps) for i in range(fps)]  # one second stays one second
    assert after.rate == fps
    for shown, number in zip(after.times, after.numbers, strict=True):
        assert number is not None
        away = shown - Fraction(number, 30)
        assert Fraction(-1, 60) <= away <= Fraction(1, 30), f"at {shown} s: frame {number}"
    if fps == 60:
        assert [after.numbers.count(number) for number in range(30)] == [2] * 30
    elif fps == 15:
        assert after.numbers == list(range(0, 30, 2))
    else:
        assert len(set(after.numbers)) == 24
    assert after.duration == pytest.approx(1.0, abs=0.05)
    assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]


def test_another_rate_takes_frames_by_their_time_not_their_count(bench: Bench, tmp_path: Path) -> None:
    pts = [round(p * 1000 / 240) for p in VARIABLE]
    target = film(tmp_path / "in.mkv", pts=pts, time_base=MS, rate=Fraction(60))
    after = look(bench.swap(target, fps="30"))
    starts = [p / 240 for p in VARIABLE]
    assert len(after.shots) == pytest.approx((VARIABLE[-1] + 16) / 240 * 30, abs=1)
    for index, (shot, number) in enumerate(zip(after.shots, after.numbers, strict=True)):
        assert shot.time == pytest.approx(index / 30, abs=0.001)
        assert number is not None
        ends = [*starts[1:], starts[-1] + 16 / 240]
        assert starts[number] - 1 / 60 <= index / 30 <= ends[number] + 0.001
        if starts[number] >= 0.15:  # in the slow part each lasts for two
            assert after.numbers.count(number) in (1, 2, 3)


@pytest.mark.parametrize("late", [Fraction(1, 2), Fraction(-1, 2)])
@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_sound_and_picture_stay_apart_as_they_were(bench: Bench, tmp_path: Path, name: str, late: Fraction) -> None:
    first = 0 if late > 0 else 12.5
    pts = [round((first + i) * 40) for i in range(10)]
    start = late if late > 0 else Fraction(0)
    target = film(
        tmp_path / f"in-{name}", pts=pts, time_base=MS, audio=("aac",),
        audio_start=start - pts[0] * MS, audio_seconds=1.0,
    )  # fmt: skip
    made = bench.swap(target, name)
    before, after = look(target), look(made)
    assert after.numbers == list(range(10))
    apart_before = audio_packets(target)[0][0] - before.times[0]
    apart_after = audio_packets(made)[0][0] - after.times[0]
    assert abs(apart_before) > Fraction(2, 5)
    assert abs(apart_after - apart_before) <= MS
    assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]


def offset(first: int, number: int) -> Pixels:
    """The scene with its number counted from another frame."""
    return scene(first + number)


def long_gop(path: Path, frames: int = 40) -> Path:
    """One key frame, and B-frames that refer to one another."""
    options = {"g": "250", "bf": "3", "crf": "12", "b-pyramid": "normal", "refs": "4", "sc_threshold": "0"}
    return film(path, pts=range(frames), options=options, audio=("aac",))


@pytest.mark.parametrize("name", ["out.mkv", "out.mp4"])
def test_a_trim_into_a_long_gop_keeps_exactly_its_frames(bench: Bench, tmp_path: Path, name: str) -> None:
    target = long_gop(tmp_path / f"in-{name}")
    whole = look(target)
    made = bench.swap(target, name, encoder="libx264", crf=0, trim="0.6-1.2")
    part = look(made)
    assert part.numbers == list(range(15, 30))
    assert part.times == [Fraction(i, 25) for i in range(15)]
    for index, shot in enumerate(part.shots):
        assert (shot.luma[:, :140] == whole.shots[15 + index].luma[:, :140]).all()
    sounds = audio_packets(made)
    assert sounds[0][0] == pytest.approx(0, abs=0.03)
    assert sounds[-1][0] == pytest.approx(0.6, abs=0.05)
    wanted = {data: time for time, data in audio_packets(target)}
    for time, data in sounds:
        assert abs(wanted[data] - Fraction(3, 5) - time) <= 2 * MS


def test_two_trims_of_one_target_in_one_process(bench: Bench, tmp_path: Path) -> None:
    target = long_gop(tmp_path / "in.mp4")
    shown = {
        trim: look(bench.swap(target, f"{index}.mkv", trim=trim)).numbers
        for index, trim in enumerate(["0.2-0.4", "1-1.2", "-0.2", "1.4-", "0:00:00.2-0:00.4"])
    }
    assert shown == {
        "0.2-0.4": list(range(5, 10)),
        "1-1.2": list(range(25, 30)),
        "-0.2": list(range(5)),
        "1.4-": list(range(35, 40)),
        "0:00:00.2-0:00.4": list(range(5, 10)),
    }
    assert look(bench.swap(target, "all.mkv")).numbers == list(range(40))


def test_max_seconds_ends_the_clip_and_its_sound(bench: Bench, tmp_path: Path) -> None:
    target = long_gop(tmp_path / "in.mp4")
    made = bench.swap(target, "out.mp4", max_seconds=0.4)
    assert look(made).numbers == list(range(10))
    assert audio_packets(made)[-1][0] <= Fraction(45, 100)
    both = look(bench.swap(target, "both.mkv", trim="0.4-", max_seconds=0.2, fps="50"))
    assert [int(n or 0) for n in both.numbers] == [n for n in range(10, 15) for _ in (0, 1)]
    assert both.times == [Fraction(i, 50) for i in range(10)]


@pytest.mark.parametrize(("trim", "word"), [("1.2-0.6", "trim"), ("9-", "trim"), ("0.2-0.2", "trim")])
def test_a_trim_with_nothing_in_it_is_an_error(bench: Bench, tmp_path: Path, trim: str, word: str) -> None:
    target = film(tmp_path / "in.mp4", pts=range(10))
    before = [path.name for path in bench.folder.iterdir()]
    error = ""
    for code in (1, 2):
        ended = bench.command(
            "swap", "-s", str(target), "-t", str(target), "-o", str(bench.folder / "o.mkv"), "--trim", trim
        )
        error = ended.err
        if ended.code == code:
            break
    else:
        raise AssertionError(ended)
    assert error.startswith("mien: ")
    assert error.count("\n") == 1
    assert word in error
    assert [path.name for path in bench.folder.iterdir()] == before


def test_scale_changes_the_size_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(6), audio=("aac",))
    sizes = {"480x360": (480, 360), "480x": (480, 360), "x180": (240, 180)}
    for index, (scale, size) in enumerate(sizes.items()):
        made = bench.swap(target, f"{index}.mp4", scale=scale)
        ratio = size[0] / 320
        after = look(made, block=(16 * ratio, 16 * ratio), at=(round(16 * ratio), round(16 * ratio)))
        assert (after.width, after.height) == size
        assert after.numbers == list(range(6))
        assert after.times == look(target).times
        assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]
    assert bench.report.frames_with_faces == 6


def test_scale_is_meant_for_the_picture_as_shown(bench: Bench, tmp_path: Path) -> None:
    from tests.corpus.test_shape import TURNS, as_stored

    matrix = TURNS["90"]
    target = film(tmp_path / "in.mp4", pts=range(3), turn=matrix, draw=partial(as_stored, matrix))
    after = look(bench.swap(target, "out.mp4", scale="240x180"), block=(12, 12), at=(12, 12))
    assert after.shots[0].luma.shape == (180, 240)
    assert after.numbers == [0, 1, 2]
