"""What lies beside the video: sound, subtitles, chapters, attachments, tags."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Disposition

from mien.media import probe
from tests.media.clips import Clip, joined, make_clip, sound, times
from tests.media.work import convert

RICH = Clip(
    pts=tuple(range(50)),
    audio="aac",
    tracks=("eng", "fra"),
    subtitles="1\n00:00:00,100 --> 00:00:00,500\nHello <i>you</i>\n\n2\n00:00:01,000 --> 00:00:01,500\nWorld\n",
    metadata={"title": "T", "comment": "C", "creation_time": "2020-01-02T03:04:05.000000Z", "com.apple.maker": "x"},
    video_metadata={"language": "deu"},
    chapters=[(0, 800, "One"), (800, 2000, "Two")],
)


def describe(path: Path) -> dict[str, Any]:
    with av.open(str(path)) as container:
        chapters = [
            (float(c["start"] * (c["time_base"] or 0)), float(c["end"] * (c["time_base"] or 0)), c["metadata"])
            for c in container.chapters()
        ]
        tags = {k.lower(): v for k, v in container.metadata.items()}
        return {
            "languages": [(s.type, s.language) for s in container.streams if s.type in ("video", "audio", "subtitle")],
            "default": [bool(s.disposition & Disposition.default) for s in container.streams.audio],
            "chapters": chapters,
            "tags": {k: tags.get(k) for k in ("title", "comment", "creation_time", "com.apple.maker")},
        }


def test_tracks_chapters_and_tags_are_kept_in_mkv(tmp_path: Path) -> None:
    clip = RICH
    clip.attachment = b"font" * 100
    source, made = make_clip(tmp_path / "in.mkv", clip), tmp_path / "out.mkv"
    assert convert(source, made) == []
    assert describe(made) == describe(source)
    assert describe(made)["tags"]["com.apple.maker"] == "x"
    assert describe(made)["languages"] == [
        ("video", "deu"),
        ("audio", "eng"),
        ("audio", "fra"),
        ("subtitle", None),
    ]
    assert [c[2] for c in describe(made)["chapters"]] == [{"title": "One"}, {"title": "Two"}]
    for track in (0, 1):
        assert sound(made, track) == sound(source, track)
    with av.open(str(made)) as container:
        attachment = container.streams.attachments[0]
        assert (attachment.name, attachment.mimetype, attachment.data) == ("font.ttf", "font/ttf", b"font" * 100)
    assert lines(made) == lines(source)


def lines(path: Path) -> list[tuple[float, float, bytes]]:
    """Start, duration and text of each subtitle."""
    with av.open(str(path)) as container:
        made = []
        for packet in container.demux(container.streams.subtitles[0]):
            subtitles = packet.decode() if packet.size else []
            for subtitle in subtitles:
                start = float(packet.pts * packet.time_base) if packet.pts is not None else -1.0
                text = subtitle.dialogue  # type: ignore[union-attr]
                made.append((start, float((packet.duration or 0) * packet.time_base), text))
        return made


def test_mkv_to_mp4_converts_what_mp4_cannot_hold_and_says_so(tmp_path: Path) -> None:
    clip = RICH
    clip.attachment = b"font"
    source, made = make_clip(tmp_path / "in.mkv", clip), tmp_path / "out.mp4"
    notes = convert(source, made)
    assert notes == [
        "subtitle track 3 (srt) was converted to mov_text, since mp4 cannot hold it as it is",
        "attachment track 4 (font.ttf) was left out, since mp4 cannot hold it; use .mkv to keep it",
    ]
    old, new = describe(source), describe(made)
    assert new["tags"] == old["tags"]
    assert new["chapters"] == old["chapters"]
    assert [x for x in new["languages"] if x[0] == "audio"] == [("audio", "eng"), ("audio", "fra")]
    assert [joined(sound(made, i)) for i in (0, 1)] == [joined(sound(source, i)) for i in (0, 1)]
    assert [(a, b, t.replace(b"{\\i0}", b"")) for a, b, t in lines(made)] == [
        (0.1, 0.4, b"Hello {\\i1}you"),
        (1.0, 0.5, b"World"),
    ]


def test_mp4_to_mp4_keeps_tracks_chapters_and_any_tag(tmp_path: Path) -> None:
    clip = RICH
    clip.attachment = None
    mkv = make_clip(tmp_path / "in.mkv", clip)
    source, made = tmp_path / "in.mp4", tmp_path / "out.mp4"
    convert(mkv, source)
    assert convert(source, made) == []
    assert describe(made) == describe(source)
    assert lines(made) == lines(source)
    assert sound(made, 1) == sound(source, 1)


@pytest.mark.parametrize("source", ["mp4", "mkv"])
def test_webm_gets_vp9_and_opus(tmp_path: Path, source: str) -> None:
    clip = RICH
    clip.attachment = None
    clip.subtitles = RICH.subtitles if source == "mkv" else None
    path, made = make_clip(tmp_path / f"in.{source}", clip), tmp_path / "out.webm"
    notes = convert(path, made)
    assert [n.split(" was ")[0] for n in notes[:2]] == ["audio track 1 (aac)", "audio track 2 (aac)"]
    with av.open(str(made)) as container:
        assert container.streams.video[0].codec_context.name == "vp9"
        assert [s.codec_context.name for s in container.streams.audio] == ["opus", "opus"]
        pieces = [f.to_ndarray() for f in container.decode(audio=0)]
    heard = np.concatenate(pieces, axis=1)[0]
    assert times(made) == times(path)
    start = sound(made)[0].pts
    assert abs(start) < Fraction(1, 20)
    wave = heard[4800:9600] / np.abs(heard).max()
    pitch = np.argmax(np.abs(np.fft.rfft(wave * np.hanning(len(wave))))) * 48000 / len(wave)
    assert pitch == pytest.approx(300, abs=10)
    assert len(heard) == pytest.approx(2 * 48000, abs=4000)


def test_pcm_in_mov_is_copied_and_opus_in_mkv_too(tmp_path: Path) -> None:
    for suffix, codec in (("mov", "pcm_s16le"), ("mkv", "libopus"), ("mkv", "flac")):
        source = make_clip(tmp_path / f"{codec}.{suffix}", pts=range(30), audio=codec)
        made = tmp_path / f"{codec}-out.{suffix}"
        assert convert(source, made) == []
        assert joined(sound(made)) == joined(sound(source))
        assert sound(made)[0].pts == sound(source)[0].pts


def test_timecode_is_kept(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.mov", pts=range(8), video_metadata={"timecode": "01:02:03:04"})
    for suffix in ("mov", "mp4"):
        assert convert(source, tmp_path / f"out.{suffix}") == []
        with av.open(str(tmp_path / f"out.{suffix}")) as container:
            assert container.streams.video[0].metadata["timecode"] == "01:02:03:04"


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_cover_art_is_kept(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / "in.mp4"
    with av.open(str(make_clip(tmp_path / "plain.mp4", pts=range(8)))) as plain, av.open(str(source), "w") as out:
        video = out.add_stream_from_template(plain.streams.video[0], opaque=True)
        cover = out.add_stream("mjpeg", width=32, height=32, pix_fmt="yuvj420p")
        cover.disposition = Disposition.attached_pic
        frame = av.VideoFrame(32, 32, "yuvj420p")
        art = cover.encode(frame) + cover.encode(None)
        data = b"".join(bytes(p) for p in art)
        for packet in plain.demux():
            if packet.size:
                packet.stream = video
                out.mux(packet)
        out.mux(art)
    made = tmp_path / f"out.{suffix}"
    assert probe(source).codec == "h264"
    assert convert(source, made) == []
    with av.open(str(made)) as container:
        covers = [s for s in container.streams.video if s.disposition & Disposition.attached_pic]
        assert len(covers) == 1
        assert b"".join(bytes(p) for p in container.demux(covers[0]) if p.size) == data


def test_transport_streams_start_at_zero(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "in.ts", pts=range(100, 120), audio="aac", audio_start=4 * 48000)
    assert times(source)[0] >= 4
    made = tmp_path / "out.mp4"
    convert(source, made)
    shift = times(source)[0] - times(made)[0]
    assert abs(times(made)[0]) < Fraction(1, 10)
    assert [t + shift for t in times(made)] == times(source)
    old, new = sound(source), sound(made)
    assert abs((old[0].pts - new[0].pts) - shift) < Fraction(1, 1000)
    assert len(old) == len(new)
