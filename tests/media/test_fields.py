"""Interlaced 4:2:0: each field has chroma rows of its own, in reading and in writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from av.codec.context import Flags
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mien.media import VideoFrame, open_reader
from mien.types import Box
from tests.media.clips import make_clip, planes

INTERLACED = int(Flags.interlaced_dct | Flags.interlaced_me)


def interlaced(path: Path, height: int = 64, pixel_format: str = "yuv420p", codec: str = "mpeg2video") -> VideoFrame:
    options = {"qscale": "2"} if codec == "mpeg2video" else {"crf": "5", "x264-params": "tff=1"}
    made = make_clip(
        path, codec=codec, height=height, pixel_format=pixel_format, flags=INTERLACED, options=options,
        pts=range(3), color=(1, 1, 1, 1),
    )  # fmt: skip
    frame = next(iter(open_reader(made)))
    assert isinstance(frame, VideoFrame)
    assert frame.picture.interlaced_frame
    return frame


def by_field(picture: Any) -> npt.NDArray[np.float64]:
    """(H, W, 3) RGB 0–255, unclipped, in float64: fields taken apart, chroma a quarter of a row off their middles."""
    luma, *chroma = (p.astype(np.float64) for p in planes(picture))
    made = np.empty((*luma.shape, 3))
    for parity, vertical in ((0, 0.25), (1, 0.75)):
        y = (luma[parity::2] - 16) / 219
        u, v = ((_grown(p[parity::2], y.shape, vertical) - 128) / 224 for p in chroma)
        r, b = y + 1.5748 * v, y + 1.8556 * u
        made[parity::2] = np.stack([r, (y - 0.2126 * r - 0.0722 * b) / 0.7152, b], axis=-1) * 255
    return made


def _grown(plane: npt.NDArray[np.float64], shape: tuple[int, ...], vertical: float) -> npt.NDArray[np.float64]:
    for axis, place in ((0, vertical), (1, 0.0)):
        at = np.clip((np.arange(shape[axis]) - place) / 2, 0, plane.shape[axis] - 1)
        low, part = np.floor(at).astype(int), at - np.floor(at)
        high = np.minimum(low + 1, plane.shape[axis] - 1)
        weights = part[:, None] if axis == 0 else part[None]
        plane = np.take(plane, low, axis) * (1 - weights) + np.take(plane, high, axis) * weights
    return plane


@pytest.mark.parametrize("codec", ["mpeg2video", "libx264"])
def test_fields_are_read_apart(tmp_path: Path, codec: str) -> None:
    frame = interlaced(tmp_path / "in.mkv", codec=codec)
    wanted = np.clip(by_field(frame.picture), 0, 255)
    assert np.abs(frame.read(frame.box) - wanted).max() <= 0.5 + 2e-3
    for box in (Box(3, 5, 40, 38), Box(10, 8, 11, 9), Box(0, 63, 96, 64), Box(7, 0, 50, 2)):
        assert np.abs(frame.read(box) - wanted[box.y0 : box.y1, box.x0 : box.x1]).max() <= 0.5 + 2e-3


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_edit_stays_in_its_field(tmp_path: Path, data: st.DataObject) -> None:
    frame = interlaced(tmp_path / "in.mkv")
    before = planes(frame.picture)
    x0, y0 = data.draw(st.integers(0, 90)), data.draw(st.integers(0, 60))
    box = Box(x0, y0, data.draw(st.integers(x0 + 1, 96)), data.draw(st.integers(y0 + 1, 64)))
    frame.write(box, frame.read(box), np.ones((box.height, box.width), np.float32))
    assert all(np.array_equal(a, b) for a, b in zip(before, planes(frame.picture), strict=True))

    parity = data.draw(st.integers(0, 1))
    mask = np.zeros((64, 96), np.float32)
    mask[box.y0 : box.y1, box.x0 : box.x1] = 1
    mask[parity::2] = 0
    frame.write(frame.box, np.full((64, 96, 3), 0.9, np.float32), mask)
    after = planes(frame.picture)
    assert np.array_equal(after[0][mask == 0], before[0][mask == 0])
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old[parity::2], new[parity::2])


def test_what_is_written_is_read_back_in_both_fields(tmp_path: Path) -> None:
    frame = interlaced(tmp_path / "in.mkv")
    rgb = np.empty((64, 96, 3), np.float32)
    rgb[0::2], rgb[1::2] = (0.7, 0.3, 0.2), (0.2, 0.4, 0.7)
    frame.write(frame.box, rgb, np.ones((64, 96), np.float32))
    inner = (slice(4, 60), slice(4, 92))
    assert np.abs(frame.read(frame.box)[inner] - rgb[inner] * 255).max() <= 2.5
    u = planes(frame.picture)[1]
    assert u[2:30:2].max() < 110 and u[3:31:2].min() > 140


def test_a_whole_picture_is_replaced_by_fields(tmp_path: Path) -> None:
    frame = interlaced(tmp_path / "in.mkv")
    rgb = np.empty((64, 96, 3), np.float32)
    rgb[0::2], rgb[1::2] = (0.7, 0.3, 0.2), (0.2, 0.4, 0.7)
    frame.replace(rgb)
    assert np.abs(frame.read(frame.box) - rgb * 255).max() <= 2


@pytest.mark.parametrize(("height", "pixel_format"), [(62, "yuv420p"), (64, "yuv422p")])
def test_other_interlaced_frames_are_read_as_one(tmp_path: Path, height: int, pixel_format: str) -> None:
    """In 4:2:2 every row has its chroma; a field of an odd number of rows would have half a chroma row."""
    codec = "mpeg2video" if pixel_format == "yuv420p" else "libx264"
    frame = interlaced(tmp_path / "in.mkv", height, pixel_format, codec)
    before = planes(frame.picture)
    frame.write(frame.box, frame.read(frame.box), np.ones((height, 96), np.float32))
    assert all(np.array_equal(a, b) for a, b in zip(before, planes(frame.picture), strict=True))
