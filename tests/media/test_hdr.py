"""PQ and HLG: shown as ordinary pictures, edited, and not one sample changed that should not be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.media import open_reader
from mien.media.frame import VideoFormat, VideoFrame
from mien.media.hdr import HLG, KNEE, PQ, WHITE, ToneMap
from mien.media.planes import PlaneFormat
from mien.types import Box
from tests.media.clips import make_clip, planes

Floats = npt.NDArray[np.float64]
TRANSFERS = [PQ, HLG]
NAMES = ["PQ", "HLG"]


def nits(signal: Floats, transfer: int) -> Floats:
    """Light of a signal (…, 3) on a display of 1,000 nits, from the texts of ST 2084 and BT.2100, in float64."""
    if transfer == PQ:
        m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
        root = signal ** (1 / m2)
        return np.asarray(10000 * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1))
    a = 0.17883277
    b, c = 1 - 4 * a, 0.5 - a * np.log(4 * a)
    scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    luma = scene @ [0.2627, 0.6780, 0.0593]
    return np.asarray(1000 * scene * luma[..., None] ** 0.2)


def bt709(light: Floats) -> Floats:
    """BT.2020 light as BT.709's, by way of XYZ, from the chromaticities of the primaries."""

    def to_xyz(primaries: list[tuple[float, float]]) -> Floats:
        columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in primaries]).T
        white = np.array([0.3127 / 0.3290, 1, (1 - 0.3127 - 0.3290) / 0.3290])
        return np.asarray(columns * np.linalg.solve(columns, white))

    wide = to_xyz([(0.708, 0.292), (0.170, 0.797), (0.131, 0.046)])
    narrow = to_xyz([(0.64, 0.33), (0.30, 0.60), (0.15, 0.06)])
    return np.asarray(light @ np.linalg.solve(narrow, wide).T)


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_is_no_brighter_than_the_knee_is_shown_as_it_is(transfer: int, seed: int) -> None:
    signal = np.random.default_rng(seed).uniform(0, 0.55, (4, 4, 3))
    light = bt709(nits(signal, transfer)) / WHITE
    plain = ((light > 0) & (light < KNEE)).all(-1)
    shown = ToneMap(transfer).to_sdr(signal.astype(np.float32)).astype(np.float64)
    assert np.abs(shown**2.4 - light)[plain].max(initial=0) < 2e-4


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
def test_highlights_keep_their_order_and_fit(transfer: int) -> None:
    ramp = np.repeat(np.linspace(0, 1, 1024, dtype=np.float32)[None, :, None], 3, axis=2)
    shown = ToneMap(transfer).to_sdr(ramp)[0]
    assert np.abs(shown - shown[:, :1]).max() < 2e-4  # grey stays grey
    assert (np.diff(shown[8:, 0]) > 0).all()
    assert shown[0].max() == 0 and shown[-1].min() > 0.9995
    light = nits(ramp.astype(np.float64), transfer)[0, :, 0] / WHITE
    assert 0.87 < np.interp(1.0, light, shown[:, 0]) < 0.93  # an ordinary picture's white


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_there_and_back_is_the_same(transfer: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tones = ToneMap(transfer)
    grey = rng.uniform(0.02, 0.95, (8, 8, 1))
    rgb = np.clip(grey * rng.uniform(0.6, 1, (8, 8, 3)), 0, 1).astype(np.float32)
    assert np.abs(tones.to_sdr(tones.from_sdr(rgb)) - rgb).max() < 5e-4
    signal = rng.uniform(0, 1, (16, 16, 3)).astype(np.float32)
    shown = tones.to_sdr(signal)
    told = ((shown > 1e-3) & (shown < 1)).all(-1)
    assert np.abs(tones.from_sdr(shown) - signal)[told].max(initial=0) < 1e-3  # within a code of 10 bits


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_an_edit_changes_what_is_edited_and_nothing_else(transfer: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tones = ToneMap(transfer)
    signal = rng.uniform(0, 1, (16, 16, 3)).astype(np.float32)
    rgb = tones.to_sdr(signal)
    where = rng.random((16, 16)) < 0.3
    rgb[where] = rng.uniform(0.1, 0.8, 3).astype(np.float32)
    made = tones.edited(signal, rgb)
    assert np.array_equal(made[~where], signal[~where])
    far = where & (np.abs(rgb - tones.to_sdr(signal)).max(-1) > 0.05)
    assert np.abs(tones.to_sdr(made) - rgb)[far].max(initial=0) < 2e-3


def hdr_frame(transfer: int, seed: int = 0, pixel_format: str = "yuv420p10le", luma: int | None = None) -> VideoFrame:
    """Noise in every code, or grey with a little noise about a code of luma."""
    picture = av.VideoFrame(48, 36, pixel_format)
    rng = np.random.default_rng(seed)
    for number, plane in enumerate(picture.planes):
        rows = np.frombuffer(plane, np.uint16)  # type: ignore[call-overload]
        middle = 512 if number else luma
        rows[:] = rng.integers(0, 1024, rows.size) if luma is None else rng.integers(-9, 10, rows.size) + middle
    picture.colorspace, picture.color_range, picture.color_primaries, picture.color_trc = 9, 1, 9, transfer
    layout = PlaneFormat.of(picture)
    assert layout is not None
    return VideoFrame(picture, VideoFormat(layout, tones=ToneMap.of(transfer, 9)), 0, Fraction(0))


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
@pytest.mark.parametrize("pixel_format", ["yuv420p10le", "yuv444p10le", "gbrp10le"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), x=st.integers(0, 40), y=st.integers(0, 30))
def test_writing_what_was_read_changes_no_sample(transfer: int, pixel_format: str, seed: int, x: int, y: int) -> None:
    frame = hdr_frame(transfer, seed, pixel_format)
    before = planes(frame.picture)
    box = Box(x, y, 48, 36)
    frame.write(box, frame.read(box), np.ones((box.height, box.width), np.float32))
    assert all(np.array_equal(a, b) for a, b in zip(before, planes(frame.picture), strict=True))


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
def test_a_face_is_pasted_as_bright_as_it_is_meant(transfer: int) -> None:
    frame = hdr_frame(transfer, luma=300)
    before = planes(frame.picture)
    skin = np.array([0.75, 0.55, 0.45], np.float32)
    mask = np.zeros((36, 48), np.float32)
    mask[8:28, 10:40] = 1
    frame.write(frame.box, np.broadcast_to(skin, (36, 48, 3)), mask)
    off = np.abs(frame.read(frame.box)[12:24, 14:36] - skin)
    assert off.mean() < 0.002 and off.max() < 0.02
    y, u, v = (p.astype(np.float64) for p in planes(frame.picture))
    luma, blue, red = (y[12:24, 14:36] - 64) / 876, (u[8, 10] - 512) / 896, (v[8, 10] - 512) / 896
    rgb = np.array([luma.mean() + 1.4746 * red, 0, luma.mean() + 1.8814 * blue])
    rgb[1] = (luma.mean() - 0.2627 * rgb[0] - 0.0593 * rgb[2]) / 0.6780
    assert np.abs(bt709(nits(rgb[None], transfer))[0] / WHITE - skin.astype(np.float64) ** 2.4).max() < 0.01
    after = planes(frame.picture)
    assert np.array_equal(before[0][mask == 0], after[0][mask == 0])


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
def test_an_edit_in_a_bright_picture_is_no_brighter_than_the_picture(transfer: int) -> None:
    """Differences between light skins stay what they are; nothing becomes a lamp."""
    code = 600 if transfer == PQ else 820  # brighter than an ordinary picture's white
    frame = hdr_frame(transfer, luma=code)
    light = float(nits(np.full((1, 3), (code - 64) / 876), transfer)[0, 0])
    shown = frame.read(frame.box)
    exposure = float(shown.mean()) ** 2.4 * WHITE / light
    assert light > WHITE > light * exposure
    for level in (0.7, 0.8, 0.9, 1.0):
        frame = hdr_frame(transfer, luma=code)
        frame.write(frame.box, np.full((36, 48, 3), level, np.float32), np.ones((36, 48), np.float32))
        y = (planes(frame.picture)[0].astype(np.float64) - 64) / 876
        made = float(nits(np.full((1, 3), y.mean()), transfer)[0, 0])
        assert made == pytest.approx(level**2.4 * WHITE / exposure, rel=0.02)
        assert made < 2.4 * light


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
def test_a_lamp_beside_an_edit_keeps_its_light(transfer: int) -> None:
    frame = hdr_frame(transfer, luma=300)
    rows = np.frombuffer(frame.picture.planes[0], np.uint16).reshape(36, -1)  # type: ignore[call-overload]
    rows[:2, :2] = 940
    before = planes(frame.picture)
    rgb = frame.read(frame.box)
    rgb[10:20, 10:20] *= np.float32(0.8)
    frame.write(frame.box, rgb, np.ones((36, 48), np.float32))
    after = planes(frame.picture)
    assert np.array_equal(before[0][:9], after[0][:9])
    assert (after[0][12:18, 12:18] < before[0][12:18, 12:18]).all()


@pytest.mark.parametrize("transfer", TRANSFERS, ids=NAMES)
def test_thumbnails_show_what_is_read(tmp_path: Path, transfer: int) -> None:
    path = make_clip(tmp_path / "in.mkv", pts=range(2), pixel_format="yuv420p10le", color=(9, 1, 9, transfer))
    frame = next(iter(open_reader(path)))
    read = frame.read(frame.box)
    assert read.dtype == np.float32
    assert np.abs(frame.thumbnail(1000) - read * 255).mean() < 2
    small = frame.thumbnail(24)
    assert small.dtype == np.uint8 and small.shape == (16, 24, 3)
    assert abs(float(small.mean()) - float(read.mean()) * 255) < 6
    plain = make_clip(tmp_path / "sdr.mkv", pts=range(2), pixel_format="yuv420p10le", color=(9, 1, 9, 14))
    assert isinstance(frame, VideoFrame) and frame.format.tones == ToneMap(transfer)
    other = next(iter(open_reader(plain)))
    assert isinstance(other, VideoFrame) and other.format.tones is None


def test_replacing_the_picture_keeps_it_hdr() -> None:
    frame = hdr_frame(PQ)
    rgb = np.full((36, 48, 3), (0.6, 0.5, 0.4), np.float32)
    frame.replace(rgb)
    assert np.abs(frame.read(frame.box) - rgb).max() < 0.004
    assert frame.picture.color_trc == PQ
