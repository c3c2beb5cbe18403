"""Alpha: read, kept through edits, and never mixed up with colour."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from mien.media import VideoFrame, VideoReader, open_reader, probe
from mien.media.video import Place
from mien.options import AnalyzeOptions
from mien.types import Box
from tests.media.clips import planes
from tests.media.counter import count_clip, numbered, numbers


def clear(number: int, width: int, height: int, pixel_format: str) -> av.VideoFrame:
    """A numbered picture whose alpha rises over its width."""
    opaque = numbered(number, width, height).reformat(format="rgba").to_ndarray()
    opaque[..., 3] = np.linspace(0, 255, width).astype(np.uint8)
    return av.VideoFrame.from_ndarray(opaque, "rgba").reformat(format=pixel_format)


CLIPS = {
    "vp9.webm": ("libvpx-vp9", "yuva420p", {"crf": "10", "b": "0", "cpu-used": "8", "auto-alt-ref": "0", "g": "5"}),
    "vp8.webm": ("libvpx", "yuva420p", {"crf": "4", "b": "4M", "auto-alt-ref": "0", "g": "5"}),
    "prores.mov": ("prores_ks", "yuva444p10le", {"profile": "4444", "alpha_bits": "16"}),
    "ffv1.mkv": ("ffv1", "yuva420p", {}),
    "qtrle.mov": ("qtrle", "argb", {}),
}


@pytest.mark.parametrize("name", CLIPS)
def test_alpha_is_read_and_kept(tmp_path: Path, name: str) -> None:
    codec, pixel_format, options = CLIPS[name]
    path = count_clip(tmp_path / name, range(12), codec=codec, pixel_format=pixel_format, options=options, draw=clear)
    info = probe(path)
    assert info.pixel_format.startswith(("yuva", "argb")) or info.pixel_format == pixel_format
    reader = VideoReader(path, info)
    frames = list(reader)
    assert numbers(frames) == list(range(12))
    for frame in frames:
        assert isinstance(frame, VideoFrame)
        assert frame.picture.format.name.startswith(("yuva4", "gbrap"))
        before = planes(frame.picture)
        peak = (1 << frame.format.planes.depth) - 1
        assert np.abs(before[3][30] / peak - np.linspace(0, 1, 160)).max() < 0.03
        frame.write(Box(10, 34, 90, 60), np.full((26, 80, 3), 0.9, np.float32), np.ones((26, 80), np.float32))
        after = planes(frame.picture)
        assert np.array_equal(before[3], after[3])
        assert not np.array_equal(before[0], after[0])
    pts = frames[7].picture.pts
    assert pts is not None and numbers(reader.frames(Place(7, pts))) == list(range(7, 12))


def test_scaling_scales_alpha_too(tmp_path: Path) -> None:
    codec, pixel_format, options = CLIPS["vp9.webm"]
    path = count_clip(
        tmp_path / "in.webm", range(3), codec=codec, pixel_format=pixel_format, options=options, draw=clear
    )
    for frame in open_reader(path, AnalyzeOptions(scale="80x", fps="50")):
        assert isinstance(frame, VideoFrame)
        alpha = planes(frame.picture)[3]
        assert alpha.shape == (32, 80)
        assert np.abs(alpha[16] / 255 - np.linspace(0, 1, 80)).max() < 0.04
