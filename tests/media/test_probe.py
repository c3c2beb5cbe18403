"""What a file is: by content, and with one clear error when it is nothing."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mien.errors import InputError, MediaError
from mien.media import MediaInfo, open_reader, probe
from mien.media.info import ColorTags
from tests.media.clips import make_clip


def test_a_video_is_described(tmp_path: Path) -> None:
    path = make_clip(
        tmp_path / "clip.mp4",
        pts=range(25),
        rotation=(90, False, False),
        color=(1, 1, 1, 1),
        aspect=Fraction(4, 3),
        audio="aac",
        tracks=("eng", "fra"),
    )
    info = probe(path)
    assert info == MediaInfo(
        path=path,
        kind="video",
        container="mov,mp4,m4a,3gp,3g2,mj2",
        codec="h264",
        pixel_format="yuv420p",
        depth=8,
        width=64,
        height=96,
        rotation=90,
        fps=Fraction(25),
        frames=25,
        duration=info.duration,
        sample_aspect=Fraction(4, 3),
        color=ColorTags(1, 1, 1, 1),
        display_matrix=(0, -65536, 0, 65536, 0, 0, 0, 0, 1073741824),
        time_base=Fraction(1, 12800),
        audio_tracks=2,
    )
    assert info.duration == pytest.approx(1.0, abs=0.1)


def test_frames_are_estimated_where_the_container_does_not_count(tmp_path: Path) -> None:
    info = probe(make_clip(tmp_path / "clip.mkv", pts=range(50)))
    assert info.frames == pytest.approx(50, abs=1)
    assert info.depth == 8


@pytest.mark.parametrize(
    "name", ["clip", "clip.jpg", "clip.txt", "a:b.mp4", "http:x.mp4", "%d.mkv", "[1] ü 😀.mp4", "-i"]
)
def test_the_name_does_not_matter(tmp_path: Path, name: str) -> None:
    source = make_clip(tmp_path / "real.mp4", pts=range(3))
    path = tmp_path / name
    path.write_bytes(source.read_bytes())
    assert probe(path).kind == "video"
    assert len(list(open_reader(str(path)))) == 3


def test_a_path_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_clip(tmp_path / "clip.mp4", pts=range(3))
    monkeypatch.chdir(tmp_path)
    assert probe("clip.mp4").path == Path("clip.mp4")


def test_what_is_no_media_is_an_error_with_name_reason_and_next_step(tmp_path: Path) -> None:
    whole = make_clip(tmp_path / "whole.mp4", pts=range(30), audio="aac").read_bytes()
    files = {
        "empty.mp4": b"",
        "text.mp4": b"hello world\n" * 500,
        "text.txt": b"hello world\n" * 500,
        "list.m3u8": b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nwhole.mp4\n#EXT-X-ENDLIST\n",
        "list.ffconcat": b"ffconcat version 1.0\nfile whole.mp4\n",
        "random.mp4": random.Random(0).randbytes(50_000),
        "cut.mp4": whole[: len(whole) // 2],
        "head.png": b"\x89PNG\r\n\x1a\n",
        "sub.srt": b"1\n00:00:00,100 --> 00:00:00,500\nHello\n",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(MediaError) as caught:
            probe(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ") and "; " in text and "\n" not in text
        assert isinstance(caught.value, InputError) and isinstance(caught.value, ValueError)
    with pytest.raises(MediaError, match=r"none\.mp4: cannot be opened \(No such file or directory\); check the name"):
        probe(tmp_path / "none.mp4")
    with pytest.raises(MediaError, match="is not a file"):
        probe(tmp_path)


def test_a_playlist_does_not_open_what_it_names(tmp_path: Path) -> None:
    make_clip(tmp_path / "secret.ts", pts=range(10))
    path = tmp_path / "in.mp4"
    path.write_bytes(b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.ts\n#EXT-X-ENDLIST\n")
    before = os.stat(tmp_path / "secret.ts").st_atime_ns
    with pytest.raises(MediaError):
        open_reader(path)
    assert os.stat(tmp_path / "secret.ts").st_atime_ns == before


def test_sound_alone_is_no_target(tmp_path: Path) -> None:
    path = tmp_path / "sound.m4a"
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("aac", rate=48000, layout="mono")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts = 48000, 0
        out.mux([*stream.encode(frame), *stream.encode(None)])
    with pytest.raises(MediaError, match="holds no video track; give a photo or a video"):
        probe(path)
