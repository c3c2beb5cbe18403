"""Damaged streams: what cannot be decoded is counted, times are kept, and the result is the same each time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from mien.errors import MediaError
from mien.media import VideoReader, open_reader
from mien.media.decode import Decoder
from mien.media.limits import Limits
from tests.media.clips import planes
from tests.media.counter import count_clip, numbers

CODECS: dict[str, tuple[str, dict[str, str]]] = {
    "libx264": ("mkv", {"g": "12", "bf": "2", "crf": "20"}),
    "libx265": ("mkv", {"x265-params": "log-level=none:keyint=12:bframes=2", "crf": "20"}),
    "mpeg4": ("mkv", {"g": "12", "bf": "2"}),
    "mpeg2video": ("ts", {"g": "12", "bf": "2"}),
    "libvpx-vp9": ("webm", {"g": "12", "deadline": "realtime", "cpu-used": "8"}),
}


def packets(path: Path) -> list[tuple[int, int]]:
    """(place in the file, size) of the video's packets."""
    with av.open(str(path)) as container:
        return [(p.pos, p.size) for p in container.demux(video=0) if p.size and p.pos is not None]


def damaged(path: Path, places: Sequence[tuple[int, int]], seed: int = 0, flips: int = 8) -> Path:
    """A copy with bits flipped in packets."""
    rng, data = random.Random(seed), bytearray(path.read_bytes())
    for at, size in places:
        skip = min(size - 1, 20)
        for _ in range(flips):
            data[at + skip + rng.randrange(size - skip)] ^= 1 << rng.randrange(8)
    made = path.with_name(f"damaged-{seed}{path.suffix}")
    made.write_bytes(data)
    return made


def seen(path: Path, threads: int) -> tuple[list[Any], Any]:
    decoder = Decoder(path, Limits(), threads)
    frames = [(p.pts, p.is_corrupt, [plane.tobytes() for plane in planes(p)]) for p in decoder.pictures()]
    return frames, decoder.damage


@pytest.mark.parametrize("codec", CODECS)
def test_threads_and_repeats_make_no_difference(tmp_path: Path, codec: str) -> None:
    suffix, options = CODECS[codec]
    whole = count_clip(tmp_path / f"in.{suffix}", range(48), codec=codec, options=options, size=(320, 192))
    places = packets(whole)
    for seed in range(3):
        path = damaged(whole, random.Random(seed).sample(places, 1 + 2 * seed), seed)
        first, damage = seen(path, 1)
        for threads in (2, 4, 4, 0):
            again, told = seen(path, threads)
            assert [pts for pts, _, _ in again] == [pts for pts, _, _ in first] and len(first) > 30
            assert (told.lost, told.concealed) == (damage.lost, damage.concealed)
            # Of a slice that ends too soon libavcodec's H.265 leaves the rest as the memory was, and is silent.
            assert codec == "libx265" or again == first


@pytest.mark.parametrize("codec", ["libx264", "mpeg2video"])
@pytest.mark.parametrize("suffix", ["ts", "mpg", "mkv"])
def test_streams_without_exact_places_read_alike(tmp_path: Path, codec: str, suffix: str) -> None:
    path = count_clip(tmp_path / f"in.{suffix}", range(40), codec=codec, options={"g": "12", "bf": "2"})
    first, damage = seen(path, 1)
    assert not damage and len(first) == 40
    assert all(seen(path, threads)[0] == first for threads in (2, 3, 8, 0))
    reader = open_reader(path)
    assert numbers(reader) == numbers(reader) == list(range(40))
    assert all(not frame.is_corrupt for frame in Decoder(path, Limits()).pictures())


def test_a_hole_keeps_the_time_of_what_follows(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mp4", range(40), options={"g": "10", "bf": "0"})
    data = bytearray(path.read_bytes())
    for at, size in packets(path)[12:15]:
        data[at + 4 : at + size] = bytes(size - 4)
    path.write_bytes(data)
    reader = open_reader(path)
    assert isinstance(reader, VideoReader)
    frames = list(reader)
    got = numbers(frames)
    assert reader.decode_errors == 40 - len(frames) == 3
    assert reader.notes == ("3 damaged packets of the target were left out",) or len(reader.notes) == 2
    assert [f.index for f in frames] == list(range(37))
    for frame, number in zip(frames, got, strict=True):
        if frame.time is not None and not 12 <= frame.time * 25 < 20:
            assert frame.time == Fraction(number, 25)
    assert {f.time * 25 for f in frames if f.time is not None} == set(range(40)) - {12, 13, 14}


@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9", "mpeg2video"])
def test_a_stream_that_begins_amid_a_group_begins_at_its_first_whole_frame(tmp_path: Path, codec: str) -> None:
    whole = count_clip(tmp_path / "in.mkv", range(40), codec=codec, options={"g": "10", "bf": "0"})
    cut = tmp_path / "cut.mkv"
    with av.open(str(whole)) as source, av.open(str(cut), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size and packet.pts is not None and packet.pts * packet.time_base >= Fraction(14, 25):
                packet.stream = stream
                out.mux(packet)
    reader = open_reader(cut)
    assert isinstance(reader, VideoReader)
    frames = list(reader)
    assert numbers(frames) == list(range(20, 40))
    times = [frame.time for frame in frames]
    assert times == [times[0] + Fraction(i, 25) for i in range(20)] if times[0] is not None else False
    assert reader.decode_errors == 6
    assert reader.notes == ("6 damaged packets of the target were left out",)


def test_a_file_that_ends_early_gives_what_is_there_and_says_so(tmp_path: Path) -> None:
    path = count_clip(tmp_path / "in.mkv", range(60), options={"g": "12", "bf": "2"})
    with path.open("r+b") as file:
        file.truncate(packets(path)[40][0])
    reader = open_reader(path)
    assert isinstance(reader, VideoReader)
    got = numbers(reader)
    assert got == list(range(len(got))) and 36 <= len(got) <= 41
    assert any("ends early (at 1." in note for note in reader.notes), reader.notes


def test_a_flood_of_errors_ends_soon_with_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mien.media.decode.FLOOD", 60)
    path = count_clip(tmp_path / "in.mkv", range(200), options={"g": "50", "bf": "0"})
    data = bytearray(path.read_bytes())
    for at, size in packets(path)[30:]:
        data[at + 4 : at + size] = b"\xff" * (size - 4)
    path.write_bytes(data)
    reader = open_reader(path)
    assert isinstance(reader, VideoReader)
    with pytest.raises(MediaError, match=r"is too damaged \(\d+ packets cannot be decoded, \d+ frames can\); get") as e:
        list(reader)
    assert "\n" not in str(e.value)
    assert reader.decode_errors <= 61 + 30
    assert capfd.readouterr() == ("", "")
