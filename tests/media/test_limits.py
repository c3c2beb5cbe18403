"""A target may not ask for more than the limits, whatever its header says."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import av
import pytest

from mien.errors import MediaError
from mien.media import VideoReader, open_reader, probe
from mien.media.clock import Clock, Pace
from mien.media.limits import Limits
from mien.options import AnalyzeOptions
from tests.media.clips import make_clip
from tests.media.counter import count_clip


def test_the_defaults_are_those_of_the_options() -> None:
    options = AnalyzeOptions()
    assert Limits() == Limits.of(None) == Limits.of(options)
    for field in dataclasses.fields(Limits):
        assert getattr(Limits(), field.name) == getattr(options, field.name)
    chosen = AnalyzeOptions(max_pixels=5000, max_duration=2, max_fps=30, max_streams=3)
    assert Limits.of(chosen) == Limits(5000, 2, 30, 3)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(max_pixels=10_239), "frames of 160×64 are more than 10239 pixels; raise max_pixels or make it smaller"),
        (Limits(max_duration=1), "lasts 1 s or more, over the limit of 1 s; raise max_duration or cut it"),
        (Limits(max_fps=24), "has 25 frames per second or more, over the limit of 24; raise max_fps or convert it"),
        (Limits(max_streams=1), "holds 2 tracks, over the limit of 1; raise max_streams or remove tracks"),
    ],
)  # fmt: skip
def test_what_asks_for_more_is_not_opened(tmp_path: Path, limits: Limits, text: str) -> None:
    path = make_clip(tmp_path / "in.mp4", width=160, pts=range(30), audio="aac")
    with pytest.raises(MediaError, match=f"in.mp4: {text}"):
        probe(path, limits)
    assert probe(path, Limits(160 * 64, 2, 25, 2)).frames == 30


def test_attached_files_are_no_tracks(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "in.mkv", pts=range(3), attachment=b"font")
    assert probe(path, Limits(max_streams=1)).kind == "video"


def test_the_header_is_not_trusted(tmp_path: Path) -> None:
    """Matroska's duration is patched; the frames' own times decide."""
    path = count_clip(tmp_path / "in.mkv", range(75))
    data = path.read_bytes()
    at = data.index(b"\x44\x89\x88") + 3  # Duration, a double of 8 bytes
    path.write_bytes(data[:at] + b"\x40\x24" + bytes(6) + data[at + 8 :])  # 10 ms
    reader = open_reader(path, AnalyzeOptions(max_duration=2))
    taken: list[int] = []
    with pytest.raises(MediaError, match="lasts 2 s or more, over the limit of 2 s"):
        taken.extend(frame.index for frame in reader)
    assert taken == list(range(51))


def test_too_many_frames_in_a_second_are_refused_as_they_come(tmp_path: Path) -> None:
    times = [*(100 * i for i in range(10)), *(1000 + 5 * i for i in range(60))]
    path = count_clip(tmp_path / "in.mkv", times, Fraction(1, 1000))
    reader = VideoReader(path, probe(path, Limits(max_fps=50)), AnalyzeOptions(max_fps=50))
    with pytest.raises(MediaError, match="has 51 frames per second or more, over the limit of 50"):
        list(reader)
    assert len(list(VideoReader(path, probe(path), AnalyzeOptions()))) == 70


def test_a_frame_that_grows_beyond_the_limit_is_not_allocated(tmp_path: Path) -> None:
    """The container tells 64 × 64, the stream holds 640 × 480."""
    large = make_clip(tmp_path / "large.mkv", pts=range(8), width=640, height=480, codec="libvpx-vp9", options={})
    small = make_clip(tmp_path / "small.mkv", pts=range(2), width=64, height=64, codec="libvpx-vp9", options={})
    path = tmp_path / "in.mkv"
    with av.open(str(large)) as source, av.open(str(small)) as like, av.open(str(path), "w") as out:
        stream = out.add_stream_from_template(like.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    with pytest.raises(MediaError, match=r"in\.mkv: .*; "):
        list(open_reader(path, AnalyzeOptions(max_pixels=64 * 64)))
    assert len(list(open_reader(path))) == 8


def test_scaling_keeps_the_limit(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(3))
    with pytest.raises(MediaError, match=r"frames of 1600×640 are more than 100000 pixels"):
        open_reader(path, AnalyzeOptions(scale="1600x", max_pixels=100_000))


def test_missing_repeated_and_early_times_are_mended() -> None:
    clock = Clock(Fraction(1, 1000), 40)
    assert [clock(t) for t in (None, None, 80, 80, 120, 100, 160)] == [0, 40, 80, 81, 120, 121, 160]
    assert clock.mended == 4


def test_a_clock_that_is_set_back_goes_on() -> None:
    clock = Clock(Fraction(1, 1000), 40)
    assert [clock(t) for t in (5000, 5040, 0, 40, 80, 9000)] == [5000, 5040, 5080, 5120, 5160, 14080]
    same = Clock(Fraction(1, 1000), 40)
    assert [same(7) for _ in range(6)] == [7, 8, 9, 49, 89, 129]


def test_pace_counts_by_seconds() -> None:
    pace = Pace(Path("x"), Limits(max_fps=3))
    for time in ("0", "1/2", "9/10", "1", "11/10", "12/10", "2"):
        pace(Fraction(time))
    pace(Fraction(21, 10))
    pace(Fraction(22, 10))
    with pytest.raises(MediaError, match="has 4 frames per second or more"):
        pace(Fraction(23, 10))
