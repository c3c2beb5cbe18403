"""From file to file: samples outside the boxes, sound, times and tags are the source's own."""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.codec.context import Flags

from mien.errors import MediaError
from mien.media import Frame, VideoFrame, VideoReader, open_reader, open_writer, probe
from mien.options import SwapOptions
from mien.types import Box
from tests.media.clips import decode, joined, make_clip, planes, sound, times
from tests.media.work import FFV1, X264, assert_equal_outside, convert


@pytest.mark.parametrize(
    ("pixel_format", "options"),
    [
        ("yuv420p", {"bf": "2", "refs": "3", "crf": "23", "g": "250"}),
        ("yuv420p", {"bf": "3", "refs": "3", "b-pyramid": "normal", "crf": "30"}),
        ("yuv422p", {"bf": "2", "refs": "3"}),
        ("yuv444p", {"bf": "2", "refs": "3"}),
        ("yuv420p10le", {"bf": "2", "refs": "3"}),
        ("yuv422p10le", {"bf": "2", "refs": "3"}),
    ],
)
def test_only_the_box_changes(tmp_path: Path, pixel_format: str, options: dict[str, str]) -> None:
    source = make_clip(tmp_path / "in.mkv", pts=range(40), pixel_format=pixel_format, options=options, audio="aac")
    box = Box(31, 17, 64, 48)
    assert convert(source, tmp_path / "out.mkv", FFV1, box) == []
    before, after = decode(source), decode(tmp_path / "out.mkv")
    assert len(before) == len(after) == 40
    for a, b in zip(before, after, strict=True):
        assert_equal_outside(a, b, box)
    assert sound(source) == sound(tmp_path / "out.mkv")
    assert times(source) == times(tmp_path / "out.mkv")
    assert probe(tmp_path / "out.mkv").pixel_format == pixel_format


def test_small_corner_edits_do_not_reach_later_frames(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(60), options={"bf": "3", "refs": "4", "g": "60"})
    box = Box(0, 0, 5, 5)
    convert(source, tmp_path / "out.mkv", FFV1, box)
    for a, b in zip(decode(source), decode(tmp_path / "out.mkv"), strict=True):
        assert_equal_outside(a, b, box)


def test_frames_that_are_not_edited_are_identical(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(20))
    convert(source, tmp_path / "out.mkv", FFV1)
    for a, b in zip(decode(source), decode(tmp_path / "out.mkv"), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


NTSC = Fraction(1, 30000)
TIMES = {
    "cfr": (tuple(range(20)), Fraction(1, 25)),
    "ntsc": (tuple(1001 * i for i in range(20)), NTSC),
    "vfr": (tuple([500 * i for i in range(12)] + [6000 + 2000 * i for i in range(8)]), NTSC),
    "late": (tuple(15000 + 1001 * i for i in range(20)), NTSC),
    "jitter": (tuple(40 * i + (i * 7) % 11 for i in range(20)), Fraction(1, 1000)),
    "slow": (tuple(2 * i for i in range(6)), Fraction(1)),
    "fast": (tuple(range(30)), Fraction(1, 240)),
}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(("container", "out"), [("mp4", "mp4"), ("mkv", "mkv"), ("mov", "mov"), ("mkv", "mp4")])
def test_times_and_sound_are_kept(tmp_path: Path, name: str, container: str, out: str) -> None:
    pts, time_base = TIMES[name]
    source = make_clip(tmp_path / f"in.{container}", pts=pts, time_base=time_base, audio="aac", audio_start=2400)
    made = tmp_path / f"out.{out}"
    assert convert(source, made) == []
    assert times(made) == times(source)
    assert [p.data for p in sound(made)] == [p.data for p in sound(source)]
    tick = Fraction(1, 48000)
    assert all(abs(a.pts - b.pts) <= tick for a, b in zip(sound(made), sound(source), strict=True))
    if container == out:
        assert sound(made) == sound(source)


@pytest.mark.parametrize("name", ["vfr", "cfr", "ntsc"])
def test_the_clip_lasts_as_long(tmp_path: Path, name: str) -> None:
    pts, time_base = TIMES[name]
    source = make_clip(tmp_path / "in.mp4", pts=pts, time_base=time_base, options={"bf": "0"})
    convert(source, tmp_path / "out.mp4")
    assert length(tmp_path / "out.mp4") == length(source)


def length(path: Path) -> int:
    """Milliseconds, from the MP4's movie header, which FFmpeg's reader corrects for the worse."""
    data = path.read_bytes()
    scale, made = struct.unpack(">II", data[(at := data.index(b"mvhd") + 16) : at + 8])
    assert scale == 1000
    return int(made)


def test_mp4_to_mkv_keeps_sound_and_picture_together(tmp_path: Path) -> None:
    pts, time_base = TIMES["ntsc"]
    source = make_clip(tmp_path / "in.mp4", pts=pts, time_base=time_base, audio="aac")
    convert(source, tmp_path / "out.mkv", FFV1)
    assert sound(source)[0].pts < 0  # AAC's run-in, which MP4 hides by an edit list
    for a, b in zip(times(source), times(tmp_path / "out.mkv"), strict=True):
        assert abs(a - b) <= Fraction(1, 2000)
    old, new = sound(source), sound(tmp_path / "out.mkv")
    assert joined(old) == joined(new)
    assert all(abs(a.pts - b.pts) <= Fraction(1, 2000) for a, b in zip(old, new, strict=True))


TURNS = [(90.0, False, False), (180.0, False, False), (270.0, False, False), (0.0, True, False), (90.0, False, True)]


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("suffix", ["mp4", "mov"])
def test_rotation_is_shown_upright_and_kept(tmp_path: Path, turn: tuple[float, bool, bool], suffix: str) -> None:
    source = make_clip(tmp_path / f"in.{suffix}", pts=range(6), rotation=turn, width=96, height=64)
    made = tmp_path / f"out.{suffix}"
    upright = turn[0] % 180 == 0
    info = probe(source)
    assert (info.width, info.height) == ((96, 64) if upright else (64, 96))
    assert info.rotation in (turn[0], 180 if turn[2] else 0, 270, 90)

    reader = open_reader(source)
    frame = next(iter(reader))
    assert isinstance(frame, VideoFrame)
    stored = planes(frame.picture)[0]
    shown = np.rot90(stored, round(turn[0] / 90))
    shown = shown[:, ::-1] if turn[1] else shown
    shown = shown[::-1] if turn[2] else shown
    grey = frame.read(frame.box).astype(float) @ (0.299, 0.587, 0.114)
    assert np.abs(grey - (shown.astype(float) - 16) * 255 / 219).mean() < 3

    convert(source, made, box=Box(3, 5, 40, 30))
    again = probe(made)
    assert (again.width, again.height, again.rotation, again.mirrored) == (
        info.width,
        info.height,
        info.rotation,
        info.mirrored,
    )
    turned = next(iter(open_reader(made)))
    assert abs(turned.read(Box(10, 10, 30, 25)).astype(float) - (0.9 * 255 * 0.8, 0, 0))[..., 0].mean() < 60


def test_an_edit_lands_where_it_is_seen(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(3), rotation=(90.0, False, False), options={"crf": "1"})
    box = Box(2, 60, 22, 90)
    with open_reader(source) as reader, open_writer(tmp_path / "out.mkv", reader, FFV1) as writer:
        for frame in reader:
            before = frame.read(frame.box)
            frame.write(box, np.zeros((30, 20, 3), np.float32), np.ones((30, 20), np.float32))
            after = frame.read(frame.box)
            assert after[62:88, 4:20].max() <= 2
            away = np.ones(after.shape[:2], bool)
            away[58:92, 0:24] = False
            assert np.array_equal(after[away], before[away])
            writer.write(frame)


@pytest.mark.parametrize(
    ("color", "pixel_format", "suffix"),
    [
        ((1, 1, 1, 1), "yuv420p", "mp4"),
        ((6, 1, 6, 6), "yuv420p", "mkv"),
        ((5, 2, 5, 1), "yuv420p", "mp4"),
        ((9, 1, 9, 16), "yuv420p10le", "mp4"),
        ((9, 1, 9, 18), "yuv420p10le", "mkv"),
        ((9, 1, 9, 18), "yuv420p10le", "mov"),
    ],
)
def test_colour_tags_and_aspect_are_kept(
    tmp_path: Path, color: tuple[int, int, int, int], pixel_format: str, suffix: str
) -> None:
    source = make_clip(
        tmp_path / f"in.{suffix}", pts=range(4), color=color, pixel_format=pixel_format, aspect=Fraction(16, 11)
    )
    for made in (tmp_path / f"out.{suffix}", tmp_path / "lossless.mkv"):
        notes = convert(source, made, FFV1 if made.name == "lossless.mkv" else X264)
        old, new = probe(source), probe(made)
        assert (new.color.matrix, new.color.range, new.color.primaries, new.color.transfer) == color
        assert new.color == old.color
        assert new.pixel_format.replace("yuvj", "yuv") == pixel_format
        if made.name == "lossless.mkv":
            assert notes == ["pixels of 16/11 cannot be told in matroska by ffv1; use .mp4"]
        else:
            assert notes == [] and new.sample_aspect == Fraction(16, 11)


def test_untagged_stays_untagged(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(3))
    convert(source, tmp_path / "out.mp4")
    assert probe(tmp_path / "out.mp4").color == probe(source).color
    assert probe(source).color.matrix == 2


@pytest.mark.parametrize("siting", ["topleft", "center", "left"])
def test_chroma_siting_is_kept(tmp_path: Path, siting: str) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(3), options={"chroma_sample_location": siting})
    convert(source, tmp_path / "out.mp4")
    places = []
    for path in (source, tmp_path / "out.mp4"):
        frame = next(iter(open_reader(path)))
        assert isinstance(frame, VideoFrame)
        places.append((frame.format.planes.siting_x, frame.format.planes.siting_y))
    assert places == [{"topleft": (0.0, 0.0), "center": (0.5, 0.5), "left": (0.0, 0.5)}[siting]] * 2


def test_interlacing_is_kept(tmp_path: Path) -> None:
    flags = Flags.interlaced_dct | Flags.interlaced_me
    source = make_clip(tmp_path / "in.mp4", pts=range(6), flags=flags, options={"x264-params": "tff=1"})
    convert(source, tmp_path / "out.mp4")
    for path in (source, tmp_path / "out.mp4"):
        with av.open(str(path)) as container:
            assert all(frame.interlaced_frame for frame in container.decode(video=0))


def test_frame_types_are_chosen_anew(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(30), options={"g": "1", "bf": "0"})
    convert(source, tmp_path / "out.mp4")
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert sum(frame.key_frame for frame in container.decode(video=0)) < 5


@pytest.mark.parametrize(
    ("codec", "pixel_format", "suffix", "kept"),
    [
        ("rawvideo", "rgb24", "nut", "gbrp"),
        ("ffv1", "bgra", "mkv", "gbrap"),
        ("rawvideo", "nv12", "nut", "yuv420p"),
        ("rawvideo", "yuyv422", "nut", "yuv422p"),
        ("mjpeg", "yuvj422p", "avi", "yuv422p"),
        ("mpeg4", "yuv420p", "avi", "yuv420p"),
        ("libvpx-vp9", "yuv420p", "webm", "yuv420p"),
        ("ffv1", "yuva420p", "mkv", "yuva420p"),
        ("ffv1", "yuv411p", "mkv", "yuv422p"),
    ],
)
def test_other_pixel_formats(tmp_path: Path, codec: str, pixel_format: str, suffix: str, kept: str) -> None:
    source = make_clip(tmp_path / f"in.{suffix}", pts=range(5), codec=codec, pixel_format=pixel_format, options={})
    reader = open_reader(source)
    box = Box(8, 8, 33, 31)
    frames = list(reader)
    assert [f.format.planes.depth for f in frames if isinstance(f, VideoFrame)] == [8] * 5
    first = frames[0]
    assert isinstance(first, VideoFrame)
    assert first.picture.format.name == kept
    assert convert(source, tmp_path / "out.mkv", FFV1, box) == []
    after = list(open_reader(tmp_path / "out.mkv"))
    assert len(after) == 5
    for old, new in zip(frames, after, strict=True):
        a, b = old.read(old.box), new.read(new.box)
        a[6:33, 6:35] = b[6:33, 6:35] = 0
        assert np.array_equal(a, b)
    convert(source, tmp_path / "out.mp4", X264, box)
    assert len(times(tmp_path / "out.mp4")) == 5


def test_odd_sizes_are_kept(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mkv", pts=range(5), width=97, height=59, codec="libvpx-vp9", options={})
    notes = convert(source, tmp_path / "out.mp4", box=Box(60, 30, 97, 59))
    info = probe(tmp_path / "out.mp4")
    assert (info.width, info.height, info.pixel_format) == (97, 59, "yuv444p")
    assert notes == ["libx264 holds yuv444p in place of the target's yuv420p at 97×59"]
    convert(source, tmp_path / "out.mkv", FFV1, Box(60, 30, 97, 59))
    for a, b in zip(decode(source), decode(tmp_path / "out.mkv"), strict=True):
        assert_equal_outside(a, b, Box(60, 30, 97, 59))


def test_ten_bits_through_x264(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(6), pixel_format="yuv420p10le")
    convert(source, tmp_path / "out.mp4", SwapOptions(crf=1, encoder_threads=2, preset="veryfast"))
    assert probe(tmp_path / "out.mp4").pixel_format == "yuv420p10le"
    for a, b in zip(decode(source), decode(tmp_path / "out.mp4"), strict=True):
        assert np.abs(a[0].astype(int) - b[0]).mean() < 4
    frame = next(iter(open_reader(source)))
    assert frame.read(Box(0, 0, 8, 8)).dtype == np.float32


def test_replaced_frames_set_the_size(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(5), audio="aac")
    made = tmp_path / "out.mp4"
    with open_reader(source) as reader, open_writer(made, reader, X264) as writer:
        for frame in reader:
            frame.replace(np.full((120, 160, 3), 0.5, np.float32))
            writer.write(frame)
    info = probe(made)
    assert (info.width, info.height) == (160, 120)
    assert times(made) == times(source)
    assert np.abs(next(iter(open_reader(made))).read(Box(0, 0, 160, 120)).astype(int) - 127).max() <= 2


def test_output_may_be_the_target_itself(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "clip.mp4", pts=range(10), audio="aac")
    heard, seen = sound(source), times(source)
    convert(source, source, box=Box(4, 4, 20, 20))
    assert sound(source) == heard and times(source) == seen
    assert [p.name for p in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_the_same_work_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    source = make_clip(tmp_path / "in.mkv", pts=range(12), audio="libopus")
    hashes = set()
    for i in range(2):
        convert(source, tmp_path / f"out{i}.{suffix}", box=Box(4, 4, 20, 20))
        hashes.add(hashlib.sha256((tmp_path / f"out{i}.{suffix}").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_a_reader_yields_the_same_frames_again(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(10))
    with open_reader(source) as reader:
        assert (reader.kind, reader.frame_count) == ("video", 10)
        first = [(f.index, f.time, f.read(f.box).tobytes()) for f in reader]
        early = iter(reader)
        next(early)
        assert isinstance(reader, VideoReader)
        early.close()  # type: ignore[attr-defined]
        assert [(f.index, f.time, f.read(f.box).tobytes()) for f in reader] == first
    assert [t for _, t, _ in first] == [Fraction(i, 25) for i in range(10)]


def test_threads_give_the_same_pixels(tmp_path: Path) -> None:
    """Decode, edit and encode at once, several frames in flight: as one after another."""
    source = make_clip(tmp_path / "in.mp4", pts=range(80), width=320, height=240, options={"bf": "3", "refs": "4"})
    box = Box(33, 21, 250, 180)
    convert(source, tmp_path / "serial.mkv", FFV1, box)

    def edit(frame: Frame) -> Frame:
        rgb = np.full((box.height, box.width, 3), (0.9, 0.3, 0.1), np.float32)
        frame.thumbnail(64)
        frame.write(box, rgb, np.full(rgb.shape[:2], 0.8, np.float32))
        return frame

    with (
        open_reader(source) as reader,
        open_writer(tmp_path / "threads.mkv", reader, FFV1) as writer,
        ThreadPoolExecutor(3) as pool,
    ):
        waiting: deque[Future[Frame]] = deque()
        for frame in reader:
            waiting.append(pool.submit(edit, frame))
            if len(waiting) > 5:
                writer.write(waiting.popleft().result())
        while waiting:
            writer.write(waiting.popleft().result())
    assert (tmp_path / "threads.mkv").read_bytes() == (tmp_path / "serial.mkv").read_bytes()


def test_damaged_packets_are_counted_and_passed_over(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(30), options={"g": "5", "bf": "0"})
    with av.open(str(source)) as container:
        positions = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(source.read_bytes())
    for at, size in positions[7:9]:
        assert at is not None
        data[at + 4 : at + size] = bytes(size - 4)
    source.write_bytes(data)
    reader = open_reader(source)
    assert isinstance(reader, VideoReader)
    count = len(list(reader))
    assert 25 <= count < 30 or reader.decode_errors
    assert reader.decode_errors > 0


def test_a_stream_that_decodes_to_nothing_is_an_error(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mp4", pts=range(10))
    with av.open(str(source)) as container:
        positions = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(source.read_bytes())
    for at, size in positions:
        assert at is not None
        data[at : at + size] = b"\xff" * size
    source.write_bytes(data)
    with pytest.raises(MediaError, match=r"in\.mp4: no frame can be decoded"):
        open_reader(source)
