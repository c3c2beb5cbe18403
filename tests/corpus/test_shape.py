"""Time and shape: how a picture lies in its file."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
from av.codec.context import Flags

from tests.corpus.conftest import Bench
from tests.corpus.film import TICK, film
from tests.corpus.look import assert_untouched, look
from tests.corpus.scene import Pixels, scene

TURNS = {
    "90": (0, -1, 1, 0),
    "180": (-1, 0, 0, -1),
    "270": (0, 1, -1, 0),
    "mirrored": (-1, 0, 0, 1),
    "upside down": (1, 0, 0, -1),
    "transposed": (0, 1, 1, 0),
    "transversed": (0, -1, -1, 0),
}


def as_stored(turn: tuple[int, int, int, int], number: int) -> Pixels:
    """The scene, turned so that the display matrix makes it upright again."""
    a, b, c, d = turn
    shown = scene(number)
    if a:
        return np.ascontiguousarray(shown[::d, ::a])
    return np.ascontiguousarray(shown[::b, ::c].transpose(1, 0, 2))


@pytest.mark.parametrize("turn", TURNS)
def test_a_turned_clip_is_swapped_upright_and_stays_turned(bench: Bench, tmp_path: Path, turn: str) -> None:
    matrix = TURNS[turn]
    target = film(tmp_path / "in.mp4", pts=range(6), turn=matrix, draw=partial(as_stored, matrix))
    # x264 at CRF 0 is lossless, and MP4 is where turns are told.
    made = bench.swap(target, "out.mp4", crf=0)
    before, after = look(target), look(made)
    assert before.numbers == after.numbers == list(range(6))
    assert (after.width, after.height) == (before.width, before.height)
    assert after.shots[0].luma.shape == (240, 320)
    assert after.rotation == before.rotation
    assert_untouched(before, after)


def test_a_turn_survives_a_change_of_container(bench: Bench, tmp_path: Path) -> None:
    matrix = TURNS["90"]
    target = film(tmp_path / "in.mp4", pts=range(4), turn=matrix, draw=partial(as_stored, matrix))
    before, after = look(target), look(bench.swap(target, "out.mkv"))
    assert after.numbers == [0, 1, 2, 3]
    assert after.shots[0].luma.shape == (240, 320)
    assert_untouched(before, after)


def test_pixels_of_16_by_11_keep_their_shape(bench: Bench, tmp_path: Path) -> None:
    for name in ("out.mp4", "out.mkv"):
        target = film(tmp_path / f"in-{name}", pts=range(4), aspect=Fraction(16, 11))
        before, after = look(target), look(bench.swap(target, name, encoder="libx264", crf=0))
        assert before.aspect == after.aspect == Fraction(16, 11)
        assert after.numbers == [0, 1, 2, 3]
        assert_untouched(before, after)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p"])
def test_odd_sizes_are_kept(bench: Bench, tmp_path: Path, pixel_format: str) -> None:
    draw = partial(scene, width=641, height=359)
    target = film(tmp_path / "in.mkv", pts=range(4), codec="ffv1", options={}, pixel_format=pixel_format, draw=draw)
    before, after = look(target), look(bench.swap(target))
    assert (after.width, after.height) == (641, 359)
    assert after.numbers == [0, 1, 2, 3]
    assert_untouched(before, after)


def test_odd_sizes_are_kept_by_x264(bench: Bench, tmp_path: Path) -> None:
    draw = partial(scene, width=641, height=359)
    target = film(tmp_path / "in.mkv", pts=range(4), codec="ffv1", options={}, draw=draw)
    after = look(bench.swap(target, "out.mp4"))
    assert (after.width, after.height) == (641, 359)
    assert after.numbers == [0, 1, 2, 3]


def woven(number: int) -> Pixels:
    """Two moments, one in the even and one in the odd rows: the pattern moves, the face does not."""
    made = scene(number)
    moved = np.roll(made[:, :100], 6, axis=1)
    made[60::2, :100] = moved[60::2]
    return made


@pytest.mark.parametrize("order", ["tff", "bff"])
def test_interlaced_clips_stay_interlaced(bench: Bench, tmp_path: Path, order: str) -> None:
    flags = int(Flags.interlaced_dct | Flags.interlaced_me)
    options = {"crf": "8", "x264-params": f"{order}=1"}
    target = film(tmp_path / "in.mkv", pts=range(6), draw=woven, flags=flags, options=options)
    made = bench.swap(target, "out.mp4", crf=0)
    before, after = look(target), look(made)
    assert after.numbers == list(range(6))
    assert_untouched(before, after)
    for path in (target, made):
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
            assert all(frame.interlaced_frame for frame in frames), path.name
            assert container.streams.video[0].codec_context.field_order == {"tff": 2, "bff": 3}[order], path.name


def test_one_frame_is_a_clip(bench: Bench, tmp_path: Path) -> None:
    for name in ("out.mkv", "out.mp4"):
        target = film(tmp_path / f"in-{name}", pts=[0], audio=("aac",))
        before, after = look(target), look(bench.swap(target, name))
        assert after.numbers == [0]
        assert after.times == before.times == [0]
        assert bench.report.frames == 1
        assert after.duration is not None
        assert after.duration <= 3 * TICK
