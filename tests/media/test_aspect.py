"""Pixels that are not square: faces are seen in their true shape, and edits land where they were made."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.media import VideoFrame, open_reader, probe
from mien.media.aspect import Stretch
from mien.media.frame import VideoFormat
from mien.media.orientation import Orientation
from mien.media.planes import PlaneFormat
from mien.types import Box
from tests.media.clips import make_clip, picture, planes

ASPECTS = [Fraction(16, 11), Fraction(4, 3), Fraction(10, 11), Fraction(3, 4), Fraction(2)]


def framed(drawn: av.VideoFrame, aspect: Fraction, turn: int = 1) -> VideoFrame:
    drawn.colorspace = 1
    layout, orientation = PlaneFormat.of(drawn), Orientation.from_exif(turn)
    assert layout is not None
    shown = 1 / aspect if orientation.transpose else aspect
    stretch = Stretch.of(shown, *orientation.size(drawn.width, drawn.height))
    return VideoFrame(drawn, VideoFormat(layout, orientation, stretch=stretch), 0, Fraction(0))


def disc(width: int, height: int, aspect: Fraction) -> av.VideoFrame:
    """A bright disc that is round where pixels are `aspect` times as wide as high."""
    y, x = np.mgrid[0:height, 0:width] + 0.5
    far = np.hypot((x - width / 2) * float(aspect), y - height / 2)
    grey = np.where(far < height / 4, 220, 40).astype(np.uint8)
    return av.VideoFrame.from_ndarray(np.dstack([grey] * 3), "rgb24").reformat(format="yuv444p", dst_colorspace=1)


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("turn", [1, 6, 3])
def test_a_disc_is_round(aspect: Fraction, turn: int) -> None:
    frame = framed(disc(160, 120, aspect), aspect, turn)
    for image in (frame.read(frame.box), frame.thumbnail(1000), frame.thumbnail(60)):
        rows, columns = np.nonzero(image[..., 0] > 130)
        assert np.ptp(rows) == pytest.approx(np.ptp(columns), abs=2)
    wide, high = (float(aspect) * 160, 120.0) if aspect > 1 else (160.0, 120 / float(aspect))
    assert (frame.width, frame.height) == tuple(round(v) for v in ((wide, high) if turn != 6 else (high, wide)))


def test_shapes_that_no_camera_makes_are_taken_for_mistakes() -> None:
    for aspect in (Fraction(1), Fraction(5), Fraction(1, 5), Fraction(100), Fraction(1, 100_000)):
        assert Stretch.of(aspect, 100, 100) is None


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("turn", [1, 8])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_edits_touch_nothing_else(aspect: Fraction, turn: int, data: st.DataObject) -> None:
    drawn = picture(46, 38, data.draw(st.integers(0, 50)))
    before = planes(drawn)
    frame = framed(drawn, aspect, turn)
    width, height = frame.width, frame.height
    x0, y0 = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    box = Box(x0, y0, data.draw(st.integers(x0 + 1, width)), data.draw(st.integers(y0 + 1, height)))
    ones = np.ones((box.height, box.width), np.float32)
    frame.write(box, frame.read(box), ones)
    assert all(np.array_equal(a, b) for a, b in zip(before, planes(drawn), strict=True))

    frame.write(box, np.ones((box.height, box.width, 3), np.float32), ones)
    mask = np.zeros((height, width), np.float32)
    mask[box.y0 : box.y1, box.x0 : box.x1] = 1
    stretch = frame.format.stretch
    assert stretch is not None
    rows = (np.arange(height) + 0.5) / stretch.y - 0.5
    columns = (np.arange(width) + 0.5) / stretch.x - 0.5
    touched = frame.format.orientation.apply((before[0] != planes(drawn)[0]).astype(np.uint8))
    for y, x in np.argwhere(touched):
        # A sample changes only if a pixel of the box lies within one pixel of it.
        near = (np.abs(rows - y) < 1 / stretch.y)[:, None] & (np.abs(columns - x) < 1 / stretch.x)[None]
        assert (mask[near] > 0).any()


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("turn", [1, 6])
def test_what_is_written_is_read_back(aspect: Fraction, turn: int) -> None:
    frame = framed(picture(96, 64, 3), aspect, turn)
    y, x = np.mgrid[0 : frame.height, 0 : frame.width].astype(np.float32)
    rgb = np.stack([0.5 + 0.2 * np.sin(x / 9), 0.5 + 0.2 * np.cos(y / 8), 0.5 + 0.1 * np.sin((x + y) / 11)], axis=-1)
    frame.write(frame.box, rgb, np.ones(rgb.shape[:2], np.float32))
    inner = (slice(6, -6), slice(6, -6))
    off = np.abs(frame.read(frame.box).astype(np.float64) - rgb * 255)[inner]
    assert off.max() < 6 and off.mean() < 1.5


@pytest.mark.parametrize("aspect", [Fraction(16, 11), Fraction(3, 4)])
def test_a_clip_is_shown_in_its_shape_and_keeps_its_samples(tmp_path: Path, aspect: Fraction) -> None:
    path = make_clip(tmp_path / "in.mp4", pts=range(3), width=88, height=64, aspect=aspect, rotation=(90, False, False))
    reader = open_reader(path)
    frame = next(iter(reader))
    assert isinstance(frame, VideoFrame)
    info = probe(path)
    assert (info.width, info.height, info.sample_aspect) == (64, 88, aspect)
    long = round(88 * aspect) if aspect > 1 else 88
    assert (frame.width, frame.height) == (64 if aspect > 1 else round(64 / aspect), long)
    assert (frame.picture.width, frame.picture.height) == (88, 64)


@pytest.mark.parametrize("aspect", [Fraction(16, 11), Fraction(3, 4)])
def test_replacing_the_picture_keeps_shape(aspect: Fraction) -> None:
    frame = framed(picture(88, 64, 1), aspect)
    size = (frame.width, frame.height)
    frame.replace(np.full((frame.height, frame.width, 3), 0.5, np.float32))
    assert (frame.width, frame.height) == size and frame.picture.width == 88
    frame.replace(np.full((2 * size[1], 2 * size[0], 3), 0.5, np.float32))
    assert (frame.picture.width, frame.picture.height) == (176, 128)
    assert (frame.width, frame.height) == (2 * size[0], 2 * size[1])
