"""Parts, rates, sizes and odd files, by the numbers that the frames bear."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from mien.errors import MediaError, OptionsError
from mien.media import Frame, VideoFrame, VideoReader, open_reader, probe
from mien.options import AnalyzeOptions
from mien.types import Box
from tests.media.clips import make_clip, planes
from tests.media.counter import count_clip, number_in, numbered, numbers
from tests.media.test_fields import INTERLACED

MS = Fraction(1, 1000)
LONG = {"g": "250", "bf": "3", "b-pyramid": "normal", "refs": "4", "crf": "20"}


def reader(path: Path, **options: Any) -> VideoReader:
    made = open_reader(path, AnalyzeOptions(**options))
    assert isinstance(made, VideoReader)
    return made


def times(frames: Sequence[Frame]) -> list[Fraction]:
    return [frame.time for frame in frames if frame.time is not None]


PARTS = [("0.4-1.2", 10, 30), ("1-", 25, 40), ("-0.2", 0, 5), ("0:00:00.36-0.4", 9, 10), ("0.41-1.21", 11, 31)]


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "mov", "ts", "avi"])
def test_a_part_is_cut_to_the_frame(tmp_path: Path, suffix: str) -> None:
    codec, options = ("mpeg4", {"g": "250"}) if suffix == "avi" else ("libx264", LONG)
    path = count_clip(tmp_path / f"in.{suffix}", range(40), codec=codec, options=options)
    for trim, first, last in PARTS:
        check_part(path, trim, first, last)


def check_part(path: Path, trim: str, first: int, last: int) -> None:
    clip = reader(path, trim=trim)
    frames = list(clip)
    assert numbers(frames) == list(range(first, last))
    assert [f.index for f in frames] == list(range(last - first))
    start, end = clip.window
    begin = probe(path).start
    wanted = [max(Fraction(n, 25) - (start - begin), Fraction(0)) for n in range(first, last)]
    assert times(frames)[0] == 0
    assert all(abs(a - b) <= clip.time_base for a, b in zip(times(frames)[1:], wanted[1:], strict=True))
    assert clip.resampled and clip.time_base == probe(path).time_base
    assert end is None or end - start == Fraction(trim.split("-")[1].split(":")[-1]) - (start - begin)
    assert clip.frame_count == pytest.approx(last - first, abs=1)


def test_two_parts_in_one_process_do_not_mix(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(40), options=LONG)
    one, two = reader(path, trim="0.2-0.4"), reader(path, trim="1-1.2")
    pairs = list(zip(one, two, strict=True))
    assert numbers(a for a, _ in pairs) == list(range(5, 10)) == numbers(one)
    assert numbers(b for _, b in pairs) == list(range(25, 30)) == numbers(two)


def test_a_long_frame_is_shown_from_the_start_of_the_part(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", [0, 2, 4, 6], Fraction(1), rate=Fraction(1, 2))
    frames = list(reader(path, trim="3-7"))
    assert numbers(frames) == [1, 2, 3] and times(frames) == [0, 1, 3]
    frames = list(reader(path, trim="3-7", fps="2"))
    assert numbers(frames) == [1, 1, 2, 2, 2, 2, 3, 3] and times(frames) == [Fraction(i, 2) for i in range(8)]


def test_nothing_in_a_part_is_an_error_of_the_option(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(10))
    with pytest.raises(OptionsError, match=r"in\.mp4: has no frame from 9 s on, the last is at 0\.36 s; change trim"):
        list(reader(path, trim="9-"))
    for bad in ("2-1", "1-1"):
        with pytest.raises(OptionsError, match="ends before it starts"):
            reader(path, trim=bad)


@pytest.mark.parametrize("fps", ["15", "24", "60", "30", "23.976", "29.97", "120"])
def test_another_rate_keeps_time_and_frames(tmp_path: Path, fps: str) -> None:
    path = count_clip(tmp_path / "in.mkv", range(30), Fraction(1, 30), rate=Fraction(30))
    clip = reader(path, fps=fps)
    rate = clip.rate
    frames = list(clip)
    assert rate is not None and clip.time_base == 1 / rate
    assert times(frames) == [i / rate for i in range(len(frames))]
    assert abs(len(frames) / rate - 1) <= 1 / rate
    assert numbers(frames) == [int((i / rate + MS / 2) * 30) for i in range(len(frames))]
    assert clip.window == (Fraction(0), None) and clip.resampled


def test_repeated_frames_are_pictures_of_their_own(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(4))
    plain = [planes(f.picture) for f in reader(path) if isinstance(f, VideoFrame)]
    kept: list[VideoFrame] = []
    for frame in reader(path, fps="100"):
        assert isinstance(frame, VideoFrame)
        before = planes(frame.picture)
        assert all(np.array_equal(a, b) for a, b in zip(before, plain[frame.index // 4], strict=True))
        if frame.index % 3 == 0:
            frame.write(Box(4, 40, 60, 60), np.ones((20, 56, 3), np.float32), np.ones((20, 56), np.float32))
        kept.append(frame)
    for frame in kept:
        same = np.array_equal(planes(frame.picture)[0], plain[frame.index // 4][0])
        assert same == (frame.index % 3 != 0)
        assert (frame.picture.pts, frame.picture.time_base) == (frame.index, Fraction(1, 100))


@pytest.mark.parametrize(
    ("scale", "size", "stored"),
    [("80x", (80, 32), (80, 32)), ("x128", (320, 128), (320, 128)), ("100x90", (100, 90), (100, 90)),
     ("81x", (80, 32), (80, 32))],
)  # fmt: skip
def test_a_size_is_kept_even_and_in_shape(
    tmp_path: Path, scale: str, size: tuple[int, int], stored: tuple[int, int]
) -> None:
    path = count_clip(tmp_path / "in.mp4", range(6))
    frames = list(reader(path, scale=scale))
    assert numbers(frames) == list(range(6))
    for frame in frames:
        assert isinstance(frame, VideoFrame)
        assert (frame.width, frame.height) == size
        assert (frame.picture.width, frame.picture.height) == stored
        assert frame.picture.time_base == Fraction(1, 12800)


def test_sizes_are_meant_as_shown(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "in.mp4", pts=range(2), width=160, height=64, rotation=(90, False, False))
    frame = next(iter(reader(path, scale="32x")))
    assert (frame.width, frame.height) == (32, 80)
    wide = make_clip(tmp_path / "wide.mp4", pts=range(2), width=88, height=64, aspect=Fraction(16, 11))
    clip = reader(wide, scale="64x")
    frame = next(iter(clip))
    assert isinstance(frame, VideoFrame)
    assert (frame.width, frame.height, frame.picture.width, frame.picture.height) == (64, 32, 64, 32)
    assert clip.sample_aspect == 1 and reader(wide).sample_aspect == Fraction(16, 11)
    odd = make_clip(tmp_path / "odd.mkv", pts=range(2), width=641, height=359, codec="ffv1", options={})
    for scale, size in (("x179", (320, 178)), ("321x", (320, 180)), ("641x359", (640, 358))):
        frame = next(iter(reader(odd, scale=scale)))
        assert (frame.width, frame.height) == size
    plain = make_clip(tmp_path / "444.mkv", pts=range(2), codec="ffv1", options={}, pixel_format="yuv444p")
    frame = next(iter(reader(plain, scale="47x31")))
    assert (frame.width, frame.height) == (47, 31)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "gray", "gbrp10le", "yuva420p", "yuv444p12le"])
@pytest.mark.parametrize("full", [1, 2])
@pytest.mark.parametrize("scale", ["48x", "192x"])
def test_scaling_changes_no_colour(tmp_path: Path, pixel_format: str, full: int, scale: str) -> None:
    def flat(number: int, width: int, height: int, name: str) -> av.VideoFrame:
        frame = av.VideoFrame(width, height, name)
        for i, plane in enumerate(frame.planes):
            deep = frame.format.components[0].bits
            rows = np.frombuffer(plane, np.uint8 if deep == 8 else np.uint16)  # type: ignore[call-overload]
            rows[:] = (37 + 50 * i + number) * (1 << (deep - 8)) + (1 if deep > 8 else 0)
        frame.color_range = full
        return frame

    path = count_clip(
        tmp_path / "in.mkv", range(3), codec="ffv1", options={}, pixel_format=pixel_format, size=(96, 64), draw=flat,
        color_range=full,
    )  # fmt: skip
    plain, small = list(reader(path)), list(reader(path, scale=scale))
    for old, new in zip(plain, small, strict=True):
        assert isinstance(old, VideoFrame) and isinstance(new, VideoFrame)
        assert new.picture.color_range == old.picture.color_range
        for a, b in zip(planes(old.picture), planes(new.picture), strict=True):
            assert b.min() == b.max() == a[0, 0]


def test_interlaced_moments_are_not_mixed_by_scaling(tmp_path: Path) -> None:
    def woven(number: int, width: int, height: int, name: str) -> av.VideoFrame:
        frame = numbered(number, width, height, name)
        luma = np.frombuffer(frame.planes[0], np.uint8).reshape(height, -1)  # type: ignore[call-overload]
        luma[0::2, :width], luma[1::2, :width] = 60, 180
        return frame

    options = {"crf": "1", "x264-params": "tff=1"}
    path = count_clip(tmp_path / "in.mkv", range(3), draw=woven, options=options, flags=INTERLACED)
    for scale, height in (("80x32", 32), ("x128", 128), ("x96", 96)):
        for frame in reader(path, scale=scale):
            assert isinstance(frame, VideoFrame) and frame.picture.height == height
            luma = planes(frame.picture)[0].astype(int)
            assert np.abs(luma[0::2] - 60).max() <= 4 and np.abs(luma[1::2] - 180).max() <= 4


@pytest.mark.parametrize(("width", "height"), [(320, 128), (96, 64), (64, 160)])
def test_a_change_of_size_is_fitted_to_the_first(tmp_path: Path, width: int, height: int) -> None:
    """As browsers record when the network or the phone's position changes."""
    first = count_clip(tmp_path / "a.webm", range(5), codec="libvpx", options={}, size=(160, 64))
    other = count_clip(tmp_path / "b.webm", range(8), codec="libvpx", options={}, size=(width, height))
    path = tmp_path / "in.webm"
    with av.open(str(path), "w") as out, av.open(str(first)) as a, av.open(str(other)) as b:
        stream = out.add_stream_from_template(a.streams.video[0])
        for source, shift in ((a, 0), (b, 200)):
            for packet in source.demux(video=0):
                if packet.size and packet.pts is not None and packet.dts is not None:
                    packet.stream = stream
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    out.mux(packet)
    clip = reader(path)
    frames = list(clip)
    assert [(f.width, f.height) for f in frames] == [(160, 64)] * 13
    assert times(frames) == [Fraction(i, 25) for i in range(13)]
    got = numbers(frames[:5])
    inner = (160, 64) if width == 320 else (96, 64) if width == 96 else (26, 64)
    left = (160 - inner[0]) // 4 * 2
    for frame in frames[5:]:
        rgb = frame.read(frame.box)
        got.append(number_in(rgb[:, left : left + inner[0]]) if inner[0] > 30 else frame.index - 5)
        assert rgb[:, : max(left - 2, 0)].max(initial=0) < 12
        assert rgb[:, left + 2].max() > 30
    assert got == [*range(5), *range(8)]
    assert clip.notes == ("8 frames of another size or pixel format were fitted to the first",)


@pytest.mark.parametrize("pts", [[0], [7]])
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "ts"])
def test_one_frame_is_a_clip(tmp_path: Path, suffix: str, pts: list[int]) -> None:
    codec = "libvpx-vp9" if suffix == "webm" else "libx264"
    path = count_clip(tmp_path / f"in.{suffix}", pts, codec=codec, options={})
    assert numbers(reader(path)) == [0]
    assert numbers(reader(path, fps="15")) == [0] and len(list(reader(path, fps="50"))) in (1, 2)
    assert len(list(reader(path, fps="0.5"))) == 1


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1), Fraction(120), Fraction(240), Fraction(30000, 1001)])
def test_rates_from_slow_to_fast(tmp_path: Path, rate: Fraction) -> None:
    path = count_clip(tmp_path / "in.mp4", range(12), 1 / rate, rate=rate)
    clip = reader(path)
    frames = list(clip)
    assert numbers(frames) == list(range(12)) and times(frames) == [i / rate for i in range(12)]
    assert clip.rate == rate and clip.frame_count == 12 and clip.notes == ()
    assert numbers(reader(path, fps=str(rate))) == list(range(12))


def test_packets_without_times_follow_the_rate(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.h264", range(12), options={"bf": "0", "crf": "20"})
    clip = reader(path)
    frames = list(clip)
    assert numbers(frames) == list(range(12))
    assert len({b - a for a, b in zip(times(frames)[:-1], times(frames)[1:], strict=True)}) == 1


def test_a_clip_with_sound_only_in_name_is_no_clip(tmp_path: Path) -> None:
    path = tmp_path / "in.mkv"
    whole = count_clip(tmp_path / "whole.mkv", range(5))
    with av.open(str(whole)) as source, av.open(str(path), "w") as out:
        out.add_stream_from_template(source.streams.video[0])
        out.start_encoding()
    with pytest.raises(MediaError, match=r"in\.mkv: .*; "):
        probe(path)


def test_a_change_of_pixel_format_is_brought_to_the_first(tmp_path: Path) -> None:
    first = count_clip(tmp_path / "a.h264", range(5), options={"bf": "0", "crf": "12"})
    other = count_clip(tmp_path / "b.h264", range(6), options={"bf": "0", "crf": "12"}, pixel_format="yuv444p")
    path = tmp_path / "in.h264"
    path.write_bytes(first.read_bytes() + other.read_bytes())
    clip = reader(path)
    frames = list(clip)
    assert numbers(frames) == [*range(5), *range(6)]
    assert {f.picture.format.name for f in frames if isinstance(f, VideoFrame)} == {"yuv420p"}
    assert clip.notes[-1] == "6 frames of another size or pixel format were fitted to the first"
