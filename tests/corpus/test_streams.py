"""Streams: everything beside the video comes along, byte for byte where the container allows."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import pytest

from tests.corpus.conftest import Bench
from tests.corpus.film import Film, film
from tests.corpus.look import assert_untouched, audio_packets, look, tags, tracks
from tests.corpus.test_shape import TURNS, as_stored

LINES = "1\n00:00:00,080 --> 00:00:00,200\nHello <i>you</i>\n\n2\n00:00:00,280 --> 00:00:00,400\nWorld\n"
CHAPTERS = ((0, 200, "One"), (200, 400, "Two"))
TAGS = {"title": "A title", "comment": "A comment", "creation_time": "2020-01-02T03:04:05.000000Z"}
RICH = Film(audio=("aac", "aac"), subtitles=LINES, chapters=CHAPTERS, metadata=TAGS, attachment=b"font" * 50)


def languages(path: Path) -> list[str | None]:
    with av.open(str(path)) as container:
        return [stream.language for stream in container.streams.audio]


def chapters(path: Path) -> list[tuple[float, float, str]]:
    with av.open(str(path)) as container:
        return [
            (float(c["start"] * c["time_base"]), float(c["end"] * c["time_base"]), c["metadata"]["title"])
            for c in container.chapters()
            if c["time_base"]
        ]


def subtitles(path: Path) -> list[tuple[Fraction, Fraction, bytes]]:
    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        packets = [p for p in container.demux(stream) if p.size > 2]
        return [((p.pts or 0) * p.time_base, (p.duration or 0) * p.time_base, bytes(p)) for p in packets]


def packets(path: Path, track: int = 0) -> list[bytes]:
    return [data for _, data in audio_packets(path, track)]


def test_two_audio_tracks_are_kept_byte_for_byte(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", audio=("aac", "aac"))
    for name in ("out.mp4", "out.mkv", "out.mov"):
        made = bench.swap(target, name)
        assert languages(made) == ["eng", "fra"]
        for track in (0, 1):
            assert packets(made, track) == packets(target, track) != []
            away = [
                a - b for (a, _), (b, _) in zip(audio_packets(made, track), audio_packets(target, track), strict=True)
            ]
            assert max(away) - min(away) <= Fraction(1, 500)


def test_subtitles_are_kept(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    assert subtitles(bench.swap(target)) == subtitles(target)
    assert [line[2] for line in subtitles(target)] == [b"Hello <i>you</i>", b"World"]


def test_subtitles_are_converted_where_the_container_needs_it_and_that_is_said(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    made = subtitles(bench.swap(target, "out.mp4"))
    assert [(start, length) for start, length, _ in made] == [(start, length) for start, length, _ in subtitles(target)]
    assert [line[2][2:].partition(b"\0")[0] for line in made] == [b"Hello you", b"World"]
    assert any("subtitle" in note for note in bench.report.notes)
    assert any("attachment" in note or "ttf" in note for note in bench.report.notes), bench.report.notes


def test_chapters_are_kept(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    for name in ("out.mkv", "out.mp4"):
        assert chapters(bench.swap(target, name)) == [(0.0, 0.2, "One"), (0.2, 0.4, "Two")]


def test_chapters_follow_a_trim(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    made = bench.swap(target, "cut.mkv", trim="0.12-0.32")
    assert look(made).numbers == list(range(3, 8))
    assert [title for _, _, title in chapters(made)] == ["One", "Two"]
    assert [time for *span, _ in chapters(made) for time in span] == pytest.approx([0.0, 0.08, 0.08, 0.2])
    (first, *_), (second, *_) = (line for line in subtitles(made))
    assert (float(first), float(second)) == pytest.approx((0.0, 0.16), abs=0.041)


def test_attachments_are_kept(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    with av.open(str(bench.swap(target))) as container:
        (attached,) = [stream for stream in container.streams if stream.type == "attachment"]
        assert isinstance(attached, av.stream.AttachmentStream)
        assert (attached.name, attached.mimetype, attached.data) == ("font.ttf", "font/ttf", b"font" * 50)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv"])
def test_creation_metadata_is_kept(bench: Bench, tmp_path: Path, suffix: str) -> None:
    target = film(tmp_path / f"in.{suffix}", metadata=TAGS)
    made = bench.swap(target, f"out.{suffix}")
    assert {key: tags(made).get(key) for key in TAGS} == TAGS


def test_rotation_is_kept_with_the_rest(bench: Bench, tmp_path: Path) -> None:
    matrix = TURNS["270"]
    target = film(tmp_path / "in.mp4", RICH, subtitles="", attachment=b"", turn=matrix, draw=partial(as_stored, matrix))
    made = bench.swap(target, "out.mp4")
    assert look(made).rotation == look(target).rotation != 0
    assert {key: tags(made).get(key) for key in TAGS} == TAGS
    assert packets(made, 1) == packets(target, 1)


def test_a_clip_without_sound_stays_without(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4")
    for name in ("out.mp4", "out.mkv", "out.mov", "out.webm"):
        made = bench.swap(target, name)
        assert [kind for kind, _ in tracks(made)] == ["video"]
        assert bench.report.notes == ()
        assert look(made).numbers == list(range(10))


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_sound_that_is_longer_than_the_picture_is_whole(bench: Bench, tmp_path: Path, name: str) -> None:
    target = film(tmp_path / "in.mp4", pts=range(5), audio=("aac",), audio_seconds=2.0)
    made = bench.swap(target, name)
    assert packets(made) == packets(target)
    assert audio_packets(made)[-1][0] > Fraction(19, 10)
    assert look(made).numbers == list(range(5))


def test_sound_that_is_shorter_than_the_picture_is_as_short(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(20), audio=("aac",), audio_seconds=0.2)
    made = bench.swap(target, "out.mp4")
    assert packets(made) == packets(target)
    assert look(made).numbers == list(range(20))


KEPT: list[tuple[str, str, str]] = [
    ("pcm_s16le", "in.mov", "out.mov"),
    ("pcm_s16le", "in.mov", "out.mkv"),
    ("libopus", "in.mkv", "out.mkv"),
    ("libopus", "in.mkv", "out.webm"),
    ("libopus", "in.mkv", "out.mp4"),
    ("flac", "in.mkv", "out.mkv"),
    ("ac3", "in.mkv", "out.mp4"),
    ("aac", "in.mp4", "out.mkv"),
]


@pytest.mark.parametrize(("codec", "source", "name"), KEPT)
def test_sound_is_copied_where_the_container_allows(
    bench: Bench, tmp_path: Path, codec: str, source: str, name: str
) -> None:
    target = film(tmp_path / source, audio=(codec,))
    made = bench.swap(target, name)
    assert tracks(made)[1] == tracks(target)[1]
    assert b"".join(packets(made)) == b"".join(packets(target)) != b""
    assert bench.report.notes == ()


@pytest.mark.parametrize(("codec", "source", "name", "becomes"), [
    ("pcm_s16le", "in.mov", "out.mp4", ("aac", "pcm_s16le")), ("aac", "in.mp4", "out.webm", ("opus", "libopus")),
])  # fmt: skip
def test_sound_is_converted_where_it_must_be_and_that_is_said(
    bench: Bench, tmp_path: Path, codec: str, source: str, name: str, becomes: tuple[str, ...]
) -> None:
    target = film(tmp_path / source, audio=(codec,), pts=range(25))
    made = bench.swap(target, name)
    kept = tracks(made)[1][1]
    assert kept in becomes
    if kept != codec:
        assert any("audio track" in note and "converted" in note for note in bench.report.notes)
    assert loudness(made) == pytest.approx(loudness(target), rel=0.1)
    assert audio_packets(made)[-1][0] == pytest.approx(1.0, abs=0.06)


def loudness(path: Path) -> Any:
    """Root mean square of the middle of the sound, 0–1."""
    import numpy as np

    with av.open(str(path)) as container:
        resampler = av.AudioResampler("fltp", "mono", 48000)
        parts = [p for frame in container.decode(audio=0) for p in resampler.resample(frame)]
        sound = np.concatenate([part.to_ndarray()[0] for part in parts])
    return float(np.sqrt((sound[12000:36000] ** 2).mean()))


def test_every_stream_at_once(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", RICH)
    made = bench.swap(target)
    kinds = [kind for kind, _ in tracks(target)]
    assert sorted(kinds) == ["attachment", "audio", "audio", "subtitle", "video"]
    assert [kind for kind, _ in tracks(made)] == kinds
    assert packets(made, 0) == packets(target, 0)
    assert packets(made, 1) == packets(target, 1)
    assert_untouched(look(target), look(made))
    assert bench.report.notes == ()
