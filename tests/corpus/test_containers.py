"""Time and shape: what containers say, leave unsaid, or say wrongly. Only the frames are believed."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from tests.corpus.conftest import Bench
from tests.corpus.film import copy, film, stream_out
from tests.corpus.look import assert_untouched, audio_packets, digest, look

GOP = {"g": "10", "keyint_min": "10", "bf": "0", "crf": "12", "sc_threshold": "0", "preset": "veryfast"}


@pytest.mark.parametrize("kind", ["mkv", "ts"])
def test_frames_before_the_first_key_frame_are_left_out(bench: Bench, tmp_path: Path, kind: str) -> None:
    codec = {"mkv": "libx264", "ts": "mpeg2video"}[kind]
    options = GOP if kind == "mkv" else {"g": "10", "b": "4000000", "sc_threshold": "1000000000"}
    whole = film(tmp_path / f"whole.{kind}", pts=range(25), codec=codec, options=options, audio=("aac",))
    start = look(whole).times[0]
    target = copy(
        whole, tmp_path / f"in.{kind}",
        lambda packet: packet.stream.type != "video" or packet.pts * packet.time_base > start + Fraction(1, 100),
    )  # fmt: skip
    made = bench.swap(target)
    after = look(made)
    # MPEG-2 decoders show damaged pictures; only what follows the first key frame is sure to be whole.
    sure = [number for number in after.numbers if number is not None and number >= 10]
    assert sure == list(range(10, 25))
    first = dict(zip(after.numbers, after.times, strict=True))[10]
    assert [t - first for t in after.times if t >= first] == pytest.approx([i / 25 for i in range(15)], abs=0.0011)
    # Sound and picture are as far apart as they were.
    before_apart = audio_packets(target)[0][0] - look(whole).times[10]
    assert audio_packets(made)[0][0] - first == pytest.approx(before_apart, abs=0.0011)
    assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]


@pytest.mark.parametrize(("name", "muxer", "codec"), [
    ("in.webm", "webm", "libvpx-vp9"), ("in.mkv", "matroska", "libx264"), ("in.mp4", "mp4", "libx264"),
])  # fmt: skip
def test_a_clip_without_a_duration_is_whole(bench: Bench, tmp_path: Path, name: str, muxer: str, codec: str) -> None:
    options = {"crf": "12", "deadline": "realtime", "cpu-used": "8"} if codec == "libvpx-vp9" else {"crf": "12"}
    target = stream_out(
        tmp_path / name, muxer, codec=codec, options=options, pts=[40 * i for i in range(15)],
        time_base=Fraction(1, 1000), audio=("libopus",),
    )  # fmt: skip
    before, made = look(target), bench.swap(target)
    if muxer != "mp4":
        assert before.duration is None
    after = look(made)
    assert after.numbers == list(range(15))
    assert after.times == before.times
    assert_untouched(before, after)
    assert after.duration == pytest.approx(float(after.times[-1]) + 0.04, abs=0.06)
    assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]
    assert bench.report.frames == 15


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Threads made from here on see that many cores, and decoders make as many threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("trim", ["", "0.5-0.9"])
@pytest.mark.parametrize(("kind", "codec"), [("mpg", "mpeg2video"), ("ts", "mpeg2video"), ("ts", "libx264")])
def test_the_number_of_threads_changes_nothing(bench: Bench, tmp_path: Path, kind: str, codec: str, trim: str) -> None:
    options = {"g": "12", "bf": "2", "b": "3000000"} if codec == "mpeg2video" else {"g": "12", "bf": "2", "crf": "12"}
    target = film(tmp_path / f"in.{kind}", pts=range(30), codec=codec, options=options, audio=("mp2",))
    made = []
    for count in (1, 2):
        with cores(count):
            made.append(bench.swap(target, f"{count}.mkv", trim=trim))
    assert digest(made[0]) == digest(made[1])
    before, after = look(target), look(made[0])
    first = before.times[0]
    wanted = [n for n, t in zip(before.numbers, before.times, strict=True) if not trim or 0.5 <= t - first < 0.9]
    assert after.numbers == wanted
    # The first frame of a trim is shown from the start on, so it may last longer.
    assert after.times[1] - after.times[0] <= Fraction(81, 1000)
    assert [t - after.times[1] for t in after.times[1:]] == pytest.approx(
        [i / 25 for i in range(len(wanted) - 1)], abs=0.0011
    )


def patched(path: Path, made: Path, box: bytes, at: int, value: bytes) -> Path:
    """A copy of an MP4 with other bytes at an offset of each box of that name."""
    data = bytearray(path.read_bytes())
    place = data.find(box)
    assert place > 0
    while place > 0:
        data[place + 4 + at : place + 4 + at + len(value)] = value
        place = data.find(box, place + 4)
    made.write_bytes(data)
    return made


@pytest.mark.parametrize("claim", [0, 1, 10**9])
def test_the_duration_in_the_header_is_not_believed(bench: Bench, tmp_path: Path, claim: int) -> None:
    honest = film(tmp_path / "honest.mp4", pts=range(10))
    target = honest
    for index, (box, at) in enumerate([(b"mvhd", 16), (b"mdhd", 16), (b"tkhd", 20)]):
        target = patched(target, tmp_path / f"{index}.mp4", box, at, struct.pack(">I", claim))
    made = bench.swap(target, "out.mp4", crf=0)
    before, after = look(honest), look(made)
    assert after.numbers == list(range(10))
    assert after.times == before.times
    assert_untouched(before, after)
    assert after.duration == pytest.approx(0.4, abs=0.01)


def test_the_size_in_the_header_is_not_believed(bench: Bench, tmp_path: Path) -> None:
    honest = film(tmp_path / "honest.mp4", pts=range(6))
    wrong = patched(honest, tmp_path / "wrong.mp4", b"avc1", 24, struct.pack(">HH", 64, 4096))
    before, after = look(honest), look(bench.swap(wrong))
    assert (after.width, after.height) == (320, 240)
    assert after.numbers == list(range(6))
    assert_untouched(before, after)


def test_the_count_in_the_header_is_not_believed(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", pts=[40 * i for i in range(8)], time_base=Fraction(1, 1000), rate=Fraction(250))
    after = look(bench.swap(target))
    assert after.numbers == list(range(8))
    assert bench.report.frames == 8
    assert bench.report.frames_with_faces == 8


def test_a_clip_longer_than_allowed_is_refused_whatever_its_header_says(bench: Bench, tmp_path: Path) -> None:
    told = film(tmp_path / "told.mp4", pts=range(40))
    untold = stream_out(tmp_path / "untold.mkv", "matroska", pts=range(40))
    for target in (told, untold):
        bench.fails(target, target.name, "1 s", flags=("--max-duration", "1"))


@pytest.mark.parametrize(("flags", "words"), [
    (("--max-pixels", "50000"), ("320×240", "max-pixels")),
    (("--max-fps", "20"), ("20", "max-fps")),
    (("--max-streams", "2"), ("3", "max-streams")),
])  # fmt: skip
def test_limits_are_kept(bench: Bench, tmp_path: Path, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    target = film(tmp_path / "in.mkv", pts=range(25), audio=("aac", "aac"))
    error = bench.fails(target, "in.mkv", words[0], flags=flags)
    assert words[1].replace("-", "_") in error.replace("-", "_")


def test_a_rate_that_no_header_tells_is_limited_too(bench: Bench, tmp_path: Path) -> None:
    """A thousand frames per second, in a file whose header says 25."""
    target = stream_out(tmp_path / "in.mkv", "matroska", pts=range(60), time_base=Fraction(1, 1000))
    bench.fails(target, "in.mkv", flags=("--max-fps", "50"))
