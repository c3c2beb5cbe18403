"""Frames from a place on are those of a whole iteration: number, time and samples, however the file is built."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from mien.media import VideoFrame, VideoReader, probe
from mien.media.decode import Decoder
from mien.media.video import Place
from mien.options import AnalyzeOptions
from tests.media.clips import planes
from tests.media.counter import count_clip, numbers

MS = Fraction(1, 1000)
B_FRAMES = {"g": "12", "bf": "3", "b-pyramid": "normal", "crf": "20"}
OPEN = {"g": "12", "bf": "3", "crf": "20", "x264-params": "open-gop=1"}
LONG = {"g": "250", "bf": "2", "crf": "20"}
VFR = [40 * i for i in range(15)] + [600 + 7 * i for i in range(13)] + [2000 + 900 * i for i in range(8)]


def piped(path: Path, muxer: str, options: dict[str, str]) -> Path:
    """A clip written to what cannot go back, as browsers record: no duration, no index."""
    with path.open("wb") as file:

        class Pipe:
            def write(self, data: bytes) -> int:
                return file.write(data)

        with av.open(Pipe(), "w", format=muxer, container_options=options) as out:
            source = count_clip(path.with_suffix(".mkv"), range(36), options=B_FRAMES)
            with av.open(str(source)) as container:
                stream = out.add_stream_from_template(container.streams.video[0])
                for packet in container.demux(video=0):
                    if packet.size:
                        packet.stream = stream
                        out.mux(packet)
    return path


def with_edit_list(path: Path, skipped: int) -> Path:
    """An MP4 whose edit list leaves the first frames out, in the middle of their group."""
    count_clip(path, range(36), options=B_FRAMES)
    data = bytearray(path.read_bytes())
    at = data.index(b"elst")
    version, entries = data[at + 4], struct.unpack_from(">I", data, at + 8)[0]
    assert (version, entries) == (0, 1)
    length, start = struct.unpack_from(">Ii", data, at + 12)
    struct.pack_into(">Ii", data, at + 12, length - 40 * skipped, start + 512 * skipped)
    path.write_bytes(data)
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "B-frames.mp4": lambda p: count_clip(p, range(36), options=B_FRAMES),
    "open.mp4": lambda p: count_clip(p, range(36), options=OPEN),
    "open.mkv": lambda p: count_clip(p, range(36), options=OPEN),
    "long.mov": lambda p: count_clip(p, range(36), options=LONG),
    "vfr.mp4": lambda p: count_clip(p, VFR, MS, options=B_FRAMES),
    "vfr.mkv": lambda p: count_clip(p, VFR, MS, options=OPEN),
    "late.mkv": lambda p: count_clip(p, [5000 + 40 * i for i in range(36)], MS, options=B_FRAMES),
    "edit.mp4": lambda p: with_edit_list(p, 5),
    "ntsc.mp4": lambda p: count_clip(p, [1001 * i for i in range(36)], Fraction(1, 30000), options=B_FRAMES),
    "h265.mp4": lambda p: count_clip(
        p, range(36), codec="libx265", options={"x265-params": "log-level=none:keyint=12:bframes=3:open-gop=1"}
    ),
    "mpeg2.mkv": lambda p: count_clip(p, range(36), codec="mpeg2video", options={"g": "12", "bf": "2"}),
    "vp9.webm": lambda p: count_clip(p, range(36), codec="libvpx-vp9", options={"g": "12", "cpu-used": "8"}),
    "live.webm": lambda p: piped(p, "matroska", {"live": "1"}),
    "fragments.mp4": lambda p: piped(p, "mp4", {"movflags": "frag_keyframe+empty_moov+default_base_moof"}),
    "plain.ts": lambda p: count_clip(p, range(36), options=B_FRAMES),
    "plain.avi": lambda p: count_clip(p, range(36), codec="mpeg4", options={"g": "12"}),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "a part": {"trim": "0.5-1.7"},
    "a rate": {"fps": "30000/1001"},
    "both": {"trim": "0.31-", "fps": "15", "max_seconds": 1},
    "smaller": {"scale": "80x"},
}


def seen(frames: Any) -> list[tuple[int, int, Fraction | None, str]]:
    made = []
    for frame in frames:
        assert isinstance(frame, VideoFrame) and frame.picture.pts is not None
        data = b"".join(plane.tobytes() for plane in planes(frame.picture))
        made.append((frame.index, frame.picture.pts, frame.time, hashlib.md5(data).hexdigest()))
    return made


@pytest.mark.parametrize("name", FILES)
def test_frames_from_a_place_on(tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path / name)
    info = probe(path)
    for what, options in OPTIONS.items():
        reader = VideoReader(path, info, AnalyzeOptions(**options))
        whole = seen(reader)
        assert whole and seen(reader.frames(None)) == whole
        base = reader.time_base
        assert all(time == pts * base for _, pts, time, _ in whole)
        step = 5 if what == "all" else 17
        for at in sorted({0, len(whole) - 1, *range(1, len(whole), step)}):
            place = Place(*whole[at][:2])
            assert seen(reader.frames(place)) == whole[at:], f"{what}: from {place}"


def test_a_place_is_sought_not_decoded_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = count_clip(tmp_path / "in.mp4", range(240), options={"g": "12", "bf": "2"})
    reader = VideoReader(path, probe(path), AnalyzeOptions())
    decoded = 0
    plain = Decoder.pictures

    def counted(self: Decoder, seek: int | None = None) -> Any:
        nonlocal decoded
        for picture in plain(self, seek):
            decoded += 1
            yield picture

    monkeypatch.setattr(Decoder, "pictures", counted)
    pts = 200 * 512
    assert numbers(reader.frames(Place(200, pts))) == list(range(200, 240))
    assert decoded <= 52
    decoded = 0
    part = VideoReader(path, probe(path), AnalyzeOptions(trim="8-9"))
    decoded = 0
    assert numbers(part) == list(range(200, 225))
    assert decoded <= 40


def test_a_place_that_is_not_in_the_file_is_counted_to(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(36), options=B_FRAMES)
    reader = VideoReader(path, probe(path))
    assert numbers(reader.frames(Place(30, 30 * 512 + 1))) == list(range(30, 36))
