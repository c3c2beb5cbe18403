"""Photos too large, broken, tiny or misnamed; and options that do or do not suit a photo."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mien.errors import InputError, MediaError, OptionsError
from mien.media import ImageFrame, open_reader, open_writer, probe
from mien.media.image_pixels import resized, scaled_size
from mien.media.image_writer import write_image
from mien.media.limits import Limits
from mien.options import AnalyzeOptions, SwapOptions
from tests.media.pictures import noise, only, png, png_chunk, save_all, smooth

KINDS = ("png", "jpg", "webp", "tif", "bmp", "gif", "heic", "avif", "png16", "tif16")


def photo(folder: Path, kind: str, side: int = 100) -> Path:
    """A photo with something in it."""
    path = folder / f"whole.{kind.removesuffix('16')}"
    dtype = np.uint16 if kind.endswith("16") else np.uint8
    array = noise(3, dtype, side, side)
    write_image(ImageFrame(array), path, SwapOptions())
    return path


def test_max_pixels_holds_for_every_format_before_decoding(tmp_path: Path) -> None:
    options = AnalyzeOptions(max_pixels=9_999)
    for kind in KINDS:
        path = photo(tmp_path, kind)
        with pytest.raises(MediaError, match=rf"{path.name}: .*100×100 .*9999 pixels; raise max_pixels"):
            open_reader(path, options)
        with open_reader(path, AnalyzeOptions(max_pixels=10_000)) as reader:
            assert len(list(reader)) == 1


def test_a_bomb_is_refused_from_its_header_in_little_memory(tmp_path: Path) -> None:
    for side in (14_200, 60_000):
        path = tmp_path / f"{side}.png"
        path.write_bytes(png(np.zeros((1, 1), np.uint8), 0, size=(side, side)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(MediaError, match=r"\.png: .* raise max_pixels or make it smaller") as caught:
            probe(path)
        assert "\n" not in str(caught.value)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_more_than_pillow_allows_is_fine_where_the_limit_says_so(tmp_path: Path) -> None:
    path = tmp_path / "large.bmp"
    Image.new("1", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[18:26] = struct.pack("<ii", 20_000, 10_000)  # 200 megapixels, over Pillow's own limit
    path.write_bytes(data)
    limit = Image.MAX_IMAGE_PIXELS
    info = probe(path)
    assert (info.width, info.height) == (20_000, 10_000)
    assert limit == Image.MAX_IMAGE_PIXELS
    with pytest.raises(MediaError, match="max_pixels"):
        probe(path, Limits.of(AnalyzeOptions(max_pixels=199_999_999)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9])
def test_cut_photos_are_one_clear_error(tmp_path: Path, kind: str, share: float) -> None:
    data = photo(tmp_path, kind).read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(MediaError) as caught:
        list(open_reader(cut))
    text = str(caught.value)
    assert text.startswith(f"{cut}: ") and "; " in text and "\n" not in text


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KINDS), st.integers(0, 2**32))
def test_flipped_bits_are_a_picture_or_one_clear_error(tmp_path: Path, kind: str, seed: int) -> None:
    whole = tmp_path / f"{kind}.whole"
    if not whole.exists():
        whole.write_bytes(photo(tmp_path, kind, 24).read_bytes())
    data, chance = bytearray(whole.read_bytes()), random.Random(seed)
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(min(len(data), chance.choice((64, 4096))))] ^= 1 << chance.randrange(8)
    (tmp_path / "flipped").write_bytes(data)
    try:
        for frame in open_reader(tmp_path / "flipped", AnalyzeOptions(max_pixels=1_000_000)):
            assert frame.width * frame.height <= 1_000_000
    except InputError as error:
        assert str(error).startswith(f"{tmp_path / 'flipped'}: ") and "\n" not in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_one_pixel_goes_there_and_back(tmp_path: Path, kind: str) -> None:
    deep = kind.endswith("16")
    array = np.full((1, 1, 3), 200, np.uint16 if deep else np.uint8)
    path = tmp_path / f"one.{kind.removesuffix('16')}"
    write_image(ImageFrame(array), path, SwapOptions())
    frame = only(path)
    assert (frame.width, frame.height) == (1, 1)
    assert np.abs(frame.array[..., :3].astype(int) - 200).max() <= (0 if kind not in ("heic", "avif") else 8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["photo", "photo.mp4", "photo.gif", "photo.jpg", "photo.txt", "ü[1] %d 😀.xyz"])
def test_the_content_decides(tmp_path: Path, kind: str, name: str) -> None:
    source = photo(tmp_path, kind, 16)
    path = tmp_path / name
    path.write_bytes(source.read_bytes())
    info = probe(path)
    assert (info.kind, info.width, info.height) == ("image", 16, 16)
    assert np.array_equal(only(path).array, only(source).array)


def test_damaged_exif_is_no_reason_to_refuse(tmp_path: Path) -> None:
    bad = b"Exif\0\0II*\0\x08\0\0\0\x03\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\xff\xff\xff\xff"
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", exif=bad)
    assert only(tmp_path / "in.jpg").array.shape[2] == 3


def test_a_bomb_of_text_is_an_error(tmp_path: Path) -> None:
    text = png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(80_000_000)))
    (tmp_path / "in.png").write_bytes(png(noise(3), 2, text))
    with pytest.raises(MediaError, match=r"in\.png: "):
        list(open_reader(tmp_path / "in.png"))


def test_photo_options(tmp_path: Path) -> None:
    path = photo(tmp_path, "png")
    for name, value in (("trim", "1-2"), ("max_seconds", 3.0), ("fps", "25")):
        with pytest.raises(OptionsError, match=rf"whole\.png: is a photo; leave out {name}"):
            open_reader(path, AnalyzeOptions(**{name: value}))


@pytest.mark.parametrize(
    ("scale", "size"), [("50x", (50, 33)), ("x80", (120, 80)), ("30x40", (30, 40)), ("60x40", (60, 40)), ("", (60, 40))]
)
def test_scale(tmp_path: Path, scale: str, size: tuple[int, int]) -> None:
    source, options = tmp_path / "in.png", SwapOptions(scale=scale)
    Image.fromarray(smooth()).save(source)
    with open_reader(source, options) as reader, open_writer(tmp_path / "out.png", reader, options) as writer:
        for frame in reader:
            assert (frame.width, frame.height) == size
            writer.write(frame)
    with Image.open(tmp_path / "out.png") as image:
        assert image.size == size
        how = Image.Resampling.BOX if size[0] * size[1] < 2400 else Image.Resampling.BICUBIC
        expected = np.asarray(Image.fromarray(smooth()).resize(size, how)).astype(int)
        assert np.abs(np.asarray(image) - expected).mean() < 3


def test_a_scale_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="raise max_pixels"):
        open_reader(photo(tmp_path, "png"), AnalyzeOptions(scale="40000x40000"))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_hidden_colours_do_not_bleed_when_scaled(dtype: type) -> None:
    peak = int(np.iinfo(dtype).max)
    array: npt.NDArray[Any] = np.zeros((40, 40, 4), dtype)
    array[:, :20] = (peak, 0, 0, peak)
    array[:, 20:] = (0, peak, 0, 0)  # green, but not to be seen
    for size in (7, 90):
        made = resized(array, size, size)
        seen = made[..., 3] > peak // 100
        assert (made[seen][:, 0] >= peak * 0.98).all() and (made[seen][:, 1] <= peak * 0.02).all()
        assert made[..., 3].mean() == pytest.approx(peak / 2, rel=0.02)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(2, 5000))
def test_sizes_keep_the_shape(width: int, height: int, side: int) -> None:
    assert scaled_size(width, height, None) == (width, height)
    across, down = scaled_size(width, height, (side, None))
    assert across == side and down == max(1, round(height * side / width))
    across, down = scaled_size(width, height, (None, side))
    assert down == side and across == max(1, round(width * side / height))


def test_several_frames_do_not_fit_formats_of_one(tmp_path: Path) -> None:
    source = save_all(tmp_path / "a.webp", [smooth(), smooth(seed=1)], duration=100)
    with open_reader(source) as reader:
        for suffix in (".jpg", ".bmp", ".heic", ".avif"):
            with pytest.raises(OptionsError, match=r"out\..*: holds one picture, .* use \.gif, \.webp, \.png"):
                open_writer(tmp_path / f"out{suffix}", reader, SwapOptions())
    with pytest.raises(OptionsError, match=r"a\.webp: is a webp sequence, .*out\.mp4 would be a video; use \.gif"):
        open_reader(source, output=tmp_path / "out.mp4")


def test_opencv_reads_in_silence(tmp_path: Path, python: tuple[str, ...]) -> None:
    cv2.imwrite(str(tmp_path / "in.tif"), noise(3, np.uint16))
    data = (tmp_path / "in.tif").read_bytes()
    (tmp_path / "cut.tif").write_bytes(data[:-30])
    code = """
import sys
from mien.media import open_reader
for name in sys.argv[1:]:
    try:
        print(len(list(open_reader(name))))
    except ValueError as error:
        print(type(error).__name__)
"""
    names = [str(tmp_path / name) for name in ("in.tif", "cut.tif")]
    run = subprocess.run([*python, "-c", code, *names], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("1\nMediaError\n", "")
