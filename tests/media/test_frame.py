"""Reading and editing boxes: exact colours, and not one sample changed that should not be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import GeometryError, MediaError, ModelError
from mien.media.frame import Frame, ImageFrame, VideoFormat, VideoFrame
from mien.media.normalize import planar_format
from mien.media.orientation import Orientation
from mien.media.planes import PlaneFormat
from mien.types import Box
from tests.media.clips import planes

W, H = 46, 38
LUMA = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
FORMATS = [
    *("yuv420p", "yuv422p", "yuv444p", "yuv440p", "gray", "gbrp", "yuva420p"),
    *("yuv420p10le", "yuv422p10le", "yuv444p12le", "gray10le", "gbrp10le", "yuv420p16le"),
]


def noise(pixel_format: str, seed: int = 0, width: int = W, height: int = H, **tags: int) -> av.VideoFrame:
    """A frame whose every sample is random, out-of-gamut colours included."""
    frame = av.VideoFrame(width, height, pixel_format)
    rng = np.random.default_rng(seed)
    depth = frame.format.components[0].bits
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8 if depth == 8 else np.uint16)  # type: ignore[call-overload]
        rows[:] = rng.integers(0, 1 << depth, rows.size)
    for name, value in tags.items():
        setattr(frame, name, value)
    return frame


def smooth(pixel_format: str, **tags: int) -> av.VideoFrame:
    """A frame of soft colours, well in gamut."""
    frame = noise(pixel_format, **tags)
    depth = frame.format.components[0].bits
    for i, plane in enumerate(frame.planes):
        size = 1 if depth == 8 else 2
        rows = np.frombuffer(plane, np.uint8 if depth == 8 else np.uint16).reshape(plane.height, -1)  # type: ignore[call-overload]
        y, x = np.mgrid[0 : plane.height, 0 : plane.line_size // size]
        level = 110 + 20 * np.sin(x / (5 + i)) + 10 * np.cos(y / 4) + 10 * (i > 0)
        rows[:] = level * (1 << (depth - 8))
    return frame


def wrap(picture: av.VideoFrame, siting: tuple[float, float] = (0.0, 0.5), turn: int = 1) -> VideoFrame:
    layout = PlaneFormat.of(picture, siting)
    assert layout is not None
    return VideoFrame(picture, VideoFormat(layout, Orientation.from_exif(turn)), 3, Fraction(1, 5))


def reference(picture: av.VideoFrame, siting: tuple[float, float] = (0.0, 0.5)) -> npt.NDArray[np.float64]:
    """(H, W, 3) RGB 0–1, unclipped, in float64, from the definition of the standards."""
    fmt = picture.format
    depth = fmt.components[0].bits
    peak, step = (1 << depth) - 1, 1 << (depth - 8)
    samples = [p.astype(np.float64) for p in planes(picture)]
    if fmt.is_rgb:
        return np.stack([samples[2], samples[0], samples[1]], axis=-1) / peak
    full = picture.color_range == 2 or (len(samples) == 1 and picture.color_range != 1)
    black, luma, chroma = (0, peak, peak) if full else (16 * step, 219 * step, 224 * step)
    y = (samples[0] - black) / luma
    if len(samples) == 1:
        return np.repeat(y[..., None], 3, axis=-1)
    u, v = ((_grown(s, y.shape, siting) - (1 << (depth - 1))) / chroma for s in samples[1:3])
    kr, kb = LUMA[picture.colorspace if picture.colorspace in LUMA else 1 if picture.height >= 720 else 6]
    r, b = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    return np.stack([r, (y - kr * r - kb * b) / (1 - kr - kb), b], axis=-1)


def _grown(plane: npt.NDArray[np.float64], shape: tuple[int, ...], siting: tuple[float, float]) -> npt.NDArray[Any]:
    for axis, place in ((0, siting[1]), (1, siting[0])):
        if plane.shape[axis] != shape[axis]:
            at = np.clip((np.arange(shape[axis]) - place) / 2, 0, plane.shape[axis] - 1)
            low, part = np.floor(at).astype(int), at - np.floor(at)
            high = np.minimum(low + 1, plane.shape[axis] - 1)
            weights = part[:, None] if axis == 0 else part[None]
            plane = np.take(plane, low, axis) * (1 - weights) + np.take(plane, high, axis) * weights
    return plane


@st.composite
def boxes(draw: st.DrawFn, width: int = W, height: int = H) -> Box:
    """Boxes of any size at any place, the frame's edges and odd positions included."""
    x0, y0 = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return Box(x0, y0, draw(st.integers(x0 + 1, width)), draw(st.integers(y0 + 1, height)))


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("tags", [{"colorspace": 1, "color_range": 1}, {"colorspace": 5, "color_range": 2}])
@settings(max_examples=15, deadline=None)
@given(box=boxes(), seed=st.integers(0, 99))
def test_read_is_float_arithmetic(pixel_format: str, tags: dict[str, int], box: Box, seed: int) -> None:
    picture = noise(pixel_format, seed, **tags)
    frame = wrap(picture)
    read = frame.read(box)
    expected = np.clip(reference(picture)[box.y0 : box.y1, box.x0 : box.x1], 0, 1)
    assert read.shape == (box.height, box.width, 3)
    if picture.format.components[0].bits == 8:
        assert read.dtype == np.uint8
        assert np.abs(read - expected * 255).max() <= 0.5 + 1e-3
    else:
        assert read.dtype == np.float32
        assert np.abs(read - expected).max() < 1e-5


@pytest.mark.parametrize(("height", "tag", "like"), [(720, 2, 1), (719, 2, 6), (720, 5, 5), (480, 1, 1), (480, 9, 9)])
def test_untagged_is_bt709_from_720_lines_and_bt601_below(height: int, tag: int, like: int) -> None:
    picture = noise("yuv444p", width=16, height=height, colorspace=tag)
    box = Box(0, 0, 16, 9)
    read = wrap(picture).read(box)
    picture.colorspace = like
    assert np.abs(read - np.clip(reference(picture)[:9], 0, 1) * 255).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("siting", [(0.0, 0.5), (0.5, 0.5), (0.0, 0.0), (0.5, 0.0), (0.0, 1.0)])
def test_read_honours_where_chroma_sits(siting: tuple[float, float]) -> None:
    picture = noise("yuv420p", colorspace=1)
    read = wrap(picture, siting).read(Box(3, 5, 40, 37))
    expected = np.clip(reference(picture, siting)[5:37, 3:40], 0, 1) * 255
    assert np.abs(read - expected).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("pixel_format", FORMATS)
@settings(max_examples=15, deadline=None)
@given(box=boxes(), seed=st.integers(0, 99), turn=st.integers(1, 8), data=st.data())
def test_write_changes_no_sample_that_the_mask_leaves_out(
    pixel_format: str, box: Box, seed: int, turn: int, data: st.DataObject
) -> None:
    picture = noise(pixel_format, seed)
    before = planes(picture)
    frame = wrap(picture, turn=turn)
    shown = data.draw(boxes(frame.width, frame.height))
    rng = np.random.default_rng(seed)
    rgb = rng.random((shown.height, shown.width, 3)).astype(np.float32)
    mask = (rng.random(rgb.shape[:2]) * (rng.random(rgb.shape[:2]) > 0.6)).astype(np.float32)
    frame.write(shown, rgb, mask)

    touched = np.zeros((frame.height, frame.width), bool)
    touched[shown.y0 : shown.y1, shown.x0 : shown.x1] = mask > 0
    touched = frame.format.orientation.undo(touched.astype(np.uint8)).astype(bool)
    for i, (old, new) in enumerate(zip(before, planes(picture), strict=True)):
        assert np.array_equal(old[~_cells(touched, old.shape)], new[~_cells(touched, old.shape)]), i
    if "yuva" in pixel_format:
        assert np.array_equal(before[3], planes(picture)[3])


def _cells(touched: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """True for the samples of a plane of `shape` whose cell holds a touched pixel."""
    fy, fx = round(touched.shape[0] / shape[0]), round(touched.shape[1] / shape[1])
    padded = np.pad(touched, ((0, shape[0] * fy - touched.shape[0]), (0, shape[1] * fx - touched.shape[1])))
    return np.asarray(padded.reshape(shape[0], fy, shape[1], fx).any((1, 3)))


@pytest.mark.parametrize("pixel_format", FORMATS)
@settings(max_examples=15, deadline=None)
@given(box=boxes(), seed=st.integers(0, 99))
def test_writing_what_was_read_changes_nothing(pixel_format: str, box: Box, seed: int) -> None:
    picture = noise(pixel_format, seed)
    before = planes(picture)
    frame = wrap(picture)
    frame.write(box, frame.read(box), np.ones((box.height, box.width), np.float32))
    assert all(np.array_equal(a, b) for a, b in zip(before, planes(picture), strict=True))


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("turn", [1, 6])
def test_written_colour_is_read_back(pixel_format: str, turn: int) -> None:
    frame = wrap(noise(pixel_format, colorspace=1), turn=turn)
    colour = np.array([0.6, 0.4, 0.3], np.float32)
    if pixel_format.startswith("gray"):
        colour[:] = 0.45
    box = Box(5, 7, 31, 30)
    frame.write(box, np.broadcast_to(colour, (23, 26, 3)), np.ones((23, 26), np.float32))
    inner = frame.read(Box(8, 10, 28, 27)).astype(np.float64)
    if inner.max() > 1:
        inner /= 255
    tolerance = 2.1 / 255 if frame.format.planes.depth == 8 else 0.003
    assert np.abs(inner - colour).max() < tolerance


def test_a_half_mask_blends_half_way() -> None:
    frame = wrap(smooth("yuv444p", colorspace=1))
    box = Box(4, 4, 20, 20)
    old = frame.read(box).astype(np.float64)
    frame.write(box, np.full((16, 16, 3), 0.5, np.float32), np.full((16, 16), 0.5, np.float32))
    assert np.abs(frame.read(box) - (old + 127.5) / 2).max() <= 2


def test_uint8_and_float_edits_agree() -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    mask = np.ones((20, 20), np.float32)
    made = []
    for new in (rgb, rgb.astype(np.float32) / 255):
        picture = noise("yuv420p")
        wrap(picture).write(Box(3, 3, 23, 23), new, mask)
        made.append(planes(picture))
    assert all(np.array_equal(a, b) for a, b in zip(*made, strict=True))


def test_a_highlight_beyond_white_does_not_shine_through() -> None:
    picture = smooth("yuv420p", colorspace=1)
    luma = picture.planes[0]
    np.frombuffer(luma, np.uint8).reshape(luma.height, -1)[10:20, 10:20] = 255  # type: ignore[call-overload]
    frame = wrap(picture)
    frame.write(Box(0, 0, W, H), np.full((H, W, 3), 0.4, np.float32), np.ones((H, W), np.float32))
    assert np.abs(frame.read(Box(0, 0, W, H)).astype(int) - 102).max() <= 1


def test_ten_bits_keep_their_precision() -> None:
    picture = smooth("yuv420p10le", colorspace=1)
    before = planes(picture)[0]
    frame = wrap(picture)
    box = Box(0, 0, W, H)
    frame.write(box, np.clip(frame.read(box) + np.float32(1 / 876), 0, 1), np.ones((H, W), np.float32))
    # One 876th of the luma range is one code of ten bits, a quarter of one of eight.
    assert np.array_equal(planes(picture)[0], before + 1)


def test_an_empty_mask_changes_nothing_and_copies_nothing() -> None:
    for picture in (noise("yuv420p"), noise("gbrp")):
        before = planes(picture)
        wrap(picture).write(Box(0, 0, W, H), np.full((H, W, 3), np.nan, np.float32), np.zeros((H, W), np.float32))
        assert all(np.array_equal(a, b) for a, b in zip(before, planes(picture), strict=True))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_empty_mask_leaves_a_photo_as_it_was(channels: int) -> None:
    array = np.random.default_rng(0).integers(0, 256, (10, 12, channels), np.uint8)
    frame = ImageFrame(array.copy())
    frame.write(Box(2, 1, 9, 8), np.ones((7, 7, 3), np.float32), np.zeros((7, 7), np.float32))
    np.testing.assert_array_equal(frame.array, array)


def test_a_pixel_beside_the_mask_keeps_its_chroma_cell() -> None:
    picture = noise("yuv420p")
    before = planes(picture)
    mask = np.zeros((8, 8), np.float32)
    mask[3, 3] = 1
    wrap(picture).write(Box(10, 10, 18, 18), np.zeros((8, 8, 3), np.float32), mask)
    for i, (old, new) in enumerate(zip(before, planes(picture), strict=True)):
        places = np.argwhere(old != new).tolist()
        assert places == ([[13, 13]] if i == 0 else [[6, 6]])


def test_chroma_at_the_edges_of_an_odd_frame_is_replaced_in_full() -> None:
    frame = wrap(noise("yuv420p", width=47, height=39, colorspace=1))
    frame.write(Box(0, 0, 47, 39), np.full((39, 47, 3), 0.5, np.float32), np.ones((39, 47), np.float32))
    assert np.abs(frame.read(Box(0, 0, 47, 39)).astype(int) - 127).max() <= 1


@pytest.mark.parametrize("bad", [Box(-1, 0, 5, 5), Box(0, 0, W + 1, 5), Box(5, 5, 5, 9), Box(0, H - 1, 4, H + 1)])
def test_boxes_beyond_the_frame_are_errors(bad: Box) -> None:
    photo: Frame = ImageFrame(np.zeros((H, W, 3), np.uint8))
    for frame in (wrap(noise("yuv420p")), photo):
        with pytest.raises(GeometryError, match="clip it first"):
            frame.read(bad)
        with pytest.raises(GeometryError):
            frame.write(bad, np.zeros((5, 5, 3), np.float32), np.zeros((5, 5), np.float32))


def test_edits_of_another_shape_or_not_finite_are_errors() -> None:
    photo: Frame = ImageFrame(np.zeros((H, W, 3), np.uint8))
    for frame in (wrap(noise("yuv420p")), photo):
        with pytest.raises(GeometryError, match="needs rgb"):
            frame.write(Box(0, 0, 4, 4), np.zeros((4, 5, 3), np.float32), np.zeros((4, 4), np.float32))
        with pytest.raises(ModelError, match="not finite"):
            frame.write(Box(0, 0, 4, 4), np.full((4, 4, 3), np.nan, np.float32), np.ones((4, 4), np.float32))


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "gbrp", "yuva420p"])
@pytest.mark.parametrize("turn", [1, 8])
def test_replace_takes_another_picture_and_size(pixel_format: str, turn: int) -> None:
    picture = noise(pixel_format, colorspace=1)
    picture.pts, picture.time_base = 77, Fraction(1, 1000)
    frame = wrap(picture, turn=turn)
    for height, width in ((frame.height, frame.width), (50, 64)):
        y, x = np.mgrid[0:height, 0:width].astype(np.float32)
        rgb = np.stack([0.4 + 0.001 * x, 0.5 + 0.002 * y, 0.5 + 0 * x], axis=-1).astype(np.float32)
        frame.replace(rgb)
        assert (frame.width, frame.height) == (width, height)
        read = frame.read(frame.box).astype(np.float64) / (255 if frame.format.planes.depth == 8 else 1)
        assert np.abs(read - rgb).max() < 2.5 / 255
        assert (frame.picture.pts, frame.picture.time_base) == (77, Fraction(1, 1000))
        assert (frame.picture.format.name, frame.picture.colorspace) == (pixel_format, 1)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p", "yuv420p10le", "gbrp", "gray"])
@pytest.mark.parametrize("turn", [1, 6])
def test_thumbnail_shows_the_same_picture(pixel_format: str, turn: int) -> None:
    frame = wrap(smooth(pixel_format, colorspace=5), turn=turn)
    assert frame.thumbnail(1000).shape == (frame.height, frame.width, 3)
    full = frame.thumbnail(1000).astype(np.float64)
    read = frame.read(frame.box).astype(np.float64)
    read = read if read.max() > 1 else read * 255
    assert np.abs(full - read).mean() < 1
    assert abs((full - read).mean()) < 0.4
    small = frame.thumbnail(23)
    assert max(small.shape[:2]) == 23
    assert small.dtype == np.uint8 and small.flags.c_contiguous
    assert abs(small.mean() - read.mean()) < 1


def test_ycgco_which_libswscale_lacks() -> None:
    picture = smooth("yuv444p", colorspace=8, color_range=2)
    y, cg, co = (p.astype(np.float64) - (128 if i else 0) for i, p in enumerate(planes(picture)))
    expected = np.clip(np.stack([y - cg + co, y + cg, y - cg - co], axis=-1), 0, 255)
    frame = wrap(picture)
    assert np.abs(frame.read(frame.box) - expected).max() <= 1
    assert np.array_equal(frame.thumbnail(1000), frame.read(frame.box))
    assert frame.thumbnail(20).shape == (17, 20, 3)


def test_formats_that_are_not_planar_are_not_wrapped() -> None:
    for name in ("nv12", "rgb24", "yuvj420p", "p010le", "pal8", "yuv410p", "gbrpf32le", "gray10be"):
        assert PlaneFormat.of(av.VideoFrame(16, 16, name)) is None
        assert PlaneFormat.of(av.VideoFrame(16, 16, planar_format(name))) is not None


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_photo_boxes(dtype: type[np.unsignedinteger[Any]], channels: int) -> None:
    peak = int(np.iinfo(dtype).max)
    pixels: npt.NDArray[Any] = np.random.default_rng(0).integers(0, peak + 1, (H, W, channels)).astype(dtype)
    frame = ImageFrame(pixels.copy())
    box, ones = Box(3, 5, 20, 30), np.ones((25, 17), np.float32)
    colours = 3 if channels >= 3 else 1

    read = frame.read(box)
    part = np.broadcast_to(pixels[5:30, 3:20, :colours], (25, 17, 3))
    assert read.dtype == (np.uint8 if dtype is np.uint8 else np.float32)
    assert np.allclose(read, part if dtype is np.uint8 else part / 65535, atol=1e-6)

    frame.write(box, read, ones)
    assert np.array_equal(frame.array, pixels)

    mask = ones.copy()
    mask[:, 8:] = 0
    frame.write(box, np.full((25, 17, 3), 0.2, np.float32), mask)
    assert (frame.array[5:30, 3:11, :colours] == round(0.2 * peak)).all()
    frame.array[5:30, 3:11, :colours] = pixels[5:30, 3:11, :colours]
    assert np.array_equal(frame.array, pixels)


def test_photo_thumbnail_is_an_area_mean_of_its_colours() -> None:
    pixels = np.zeros((40, 80, 4), np.uint16)
    pixels[:, ::2, 0] = 65535
    small = ImageFrame(pixels).thumbnail(40)
    assert small.shape == (20, 40, 3)
    assert (small[..., 0] == 128).all() and (small[..., 1:] == 0).all()


def test_replacing_a_grey_photo_makes_it_rgb_and_keeps_alpha() -> None:
    frame = ImageFrame(np.dstack([np.full((8, 8), 9, np.uint8), np.full((8, 8), 77, np.uint8)]))
    frame.replace(np.full((16, 24, 3), (1.0, 0.5, 0.0), np.float32))
    assert frame.array.shape == (16, 24, 4)
    assert (frame.array == (255, 128, 0, 77)).all()


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 5), np.uint8), np.zeros(4, np.uint8)]
)
def test_arrays_that_are_no_photo(array: npt.NDArray[Any]) -> None:
    with pytest.raises(MediaError):
        ImageFrame(array)
