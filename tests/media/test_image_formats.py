"""What travels with the pixels: compression, profiles, EXIF, XMP, text, depth."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mien.errors import MediaError
from mien.media import ImageFrame, probe
from mien.media.image_jpeg import JpegSettings
from mien.media.image_meta import ImageMeta
from mien.media.image_tiff import TiffWriter
from mien.media.image_webp import compression
from mien.media.image_writer import write_image
from mien.options import SwapOptions
from tests.media.pictures import PROFILE, edit, inside, noise, only, png, png_chunk, rework, smooth

QUIET = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description dc:title="A" tiff:Orientation="6"/>%s</x:xmpmeta>'


def exif() -> bytes:
    made = Image.Exif()
    made[0x010F], made[0x0112] = "Maker", 1
    made.get_ifd(0x8769)[0x9003] = "2020:01:02 03:04:05"
    made.get_ifd(0x8769)[0x829A] = 0.005
    made.get_ifd(0x8825)[1], made.get_ifd(0x8825)[2] = "N", (51.0, 30.0, 12.5)
    return made.tobytes()


def described(path: Path) -> tuple[object, ...]:
    with Image.open(path) as image:
        tags = image.getexif()
        details, place = tags.get_ifd(0x8769), tags.get_ifd(0x8825)
        return tags[0x010F], details[0x9003], float(details[0x829A]), place[1], tuple(float(v) for v in place[2])


# JPEG -----------------------------------------------------------------------------------------------------------


def tables(path: Path) -> list[list[int]]:
    with Image.open(path) as image:
        return [list(image.quantization[layer[3]]) for layer in image.layer]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize(("quality", "asked"), [(98, 95), (60, 95), (98, 30)])
def test_jpeg_is_as_fine_as_it_was_and_as_is_asked(tmp_path: Path, mode: str, quality: int, asked: int) -> None:
    source, made = tmp_path / "in.jpg", tmp_path / "out.jpg"
    Image.fromarray(smooth()).convert(mode).save(source, quality=quality)
    Image.new(mode, (8, 8)).save(tmp_path / "asked.jpg", quality=asked)
    rework(source, made, image_quality=asked)
    finer = source if quality > asked else tmp_path / "asked.jpg"
    assert tables(made) == tables(finer)


def test_foreign_tables_are_never_made_coarser(tmp_path: Path) -> None:
    theirs = [[1] * 32 + [99] * 32, [99] * 32 + [1] * 32]
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", qtables=theirs)
    Image.new("RGB", (8, 8)).save(tmp_path / "asked.jpg", quality=95)
    rework(tmp_path / "in.jpg", tmp_path / "out.jpg")
    made, source, asked = (np.array(tables(tmp_path / n)) for n in ("out.jpg", "in.jpg", "asked.jpg"))
    assert np.array_equal(made, np.minimum(source, asked))


def test_progressive_and_comment_are_kept(tmp_path: Path) -> None:
    for progressive in (False, True):
        source = tmp_path / f"{progressive}.jpg"
        Image.fromarray(smooth()).save(source, progressive=progressive, comment=b"hello")
        rework(source, tmp_path / "out.jpg")
        with Image.open(tmp_path / "out.jpg") as image:
            assert bool(image.info.get("progressive")) is progressive
            assert image.info["comment"] == b"hello"


@pytest.mark.parametrize("channels", [1, 3])
def test_a_progressive_jpeg_of_noise_finds_room(tmp_path: Path, channels: int) -> None:
    frame = ImageFrame(noise(channels, width=400, height=300))
    frame.meta = ImageMeta(jpeg=JpegSettings(tables=((1,) * 64,) * 3, progressive=True))
    write_image(frame, tmp_path / "out.jpg", SwapOptions())
    assert np.abs(only(tmp_path / "out.jpg").array.astype(int) - frame.array).max() <= 6


def test_rgb_jpegs_stay_rgb(tmp_path: Path) -> None:
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", keep_rgb=True)
    rework(tmp_path / "in.jpg", tmp_path / "out.jpg")
    with Image.open(tmp_path / "out.jpg") as image:
        assert [layer[0] for layer in image.layer] == [82, 71, 66]  # type: ignore[attr-defined]


def test_of_several_pictures_the_main_one_is_kept_and_the_rest_told(tmp_path: Path) -> None:
    first, second = Image.fromarray(smooth()), Image.fromarray(smooth(seed=1))
    first.save(tmp_path / "in.jpg", "MPO", save_all=True, append_images=[second])
    notes = rework(tmp_path / "in.jpg", tmp_path / "out.jpg", edited=False)
    assert notes == ["the file holds 2 pictures: only the main one was kept"]
    assert np.abs(only(tmp_path / "out.jpg").array.astype(int) - smooth()).mean() < 4


# WebP -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quality", [20, 50, 75, 80, 90, 95, 99])
def test_the_quality_of_a_webp_is_estimated(quality: int) -> None:
    file = io.BytesIO()
    Image.fromarray(smooth(200, 150)).save(file, "WEBP", quality=quality)
    known = compression(file.getvalue())
    assert not known.lossless
    assert abs(known.quality - quality) <= 4 + (100 - quality) / 6


def test_webp_is_as_fine_as_it_was(tmp_path: Path) -> None:
    Image.fromarray(smooth(200, 150)).save(tmp_path / "in.webp", quality=99)
    rework(tmp_path / "in.webp", tmp_path / "out.webp", image_quality=30)
    assert compression((tmp_path / "out.webp").read_bytes()).quality >= 99


@pytest.mark.parametrize("alpha", [False, True])
def test_lossless_webp_is_exact_outside(tmp_path: Path, alpha: bool) -> None:
    array = noise(4 if alpha else 3)
    Image.fromarray(array).save(tmp_path / "in.webp", lossless=True, exact=True)
    rework(tmp_path / "in.webp", tmp_path / "out.webp")
    with Image.open(tmp_path / "out.webp") as image:
        made = np.asarray(image.convert("RGBA" if alpha else "RGB"))
    assert np.array_equal(made[~inside()], array[~inside()])
    if alpha:
        assert np.array_equal(made[..., 3], array[..., 3])


# Metadata -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deep", [False, True], ids=["8", "16"])
@pytest.mark.parametrize("suffix", [".tif", ".png"])
def test_lossless_files_keep_all_that_is_beside_the_pixels(tmp_path: Path, suffix: str, deep: bool) -> None:
    frame = ImageFrame(noise(3, np.uint16 if deep else np.uint8))
    xmp = (XMP % b"").replace(b'tiff:Orientation="6"', b"")
    frame.meta = ImageMeta(exif=exif(), icc=PROFILE, dpi=(300.0, 150.0), xmp=xmp)
    write_image(frame, tmp_path / f"in{suffix}", SwapOptions())
    notes = rework(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    assert notes == []
    after = only(tmp_path / f"out{suffix}")
    assert np.array_equal(after.array[~inside()], frame.array[~inside()])
    assert after.meta.icc == PROFILE
    assert after.meta.dpi == pytest.approx((300, 150), abs=0.02)
    assert after.meta.xmp == xmp
    assert described(tmp_path / f"out{suffix}") == ("Maker", "2020:01:02 03:04:05", 0.005, "N", (51.0, 30.0, 12.5))


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp", ".avif", ".heic"])
def test_every_format_keeps_exif_and_xmp(tmp_path: Path, suffix: str) -> None:
    thumbnails = b"<xmp:Thumbnails><rdf:Alt>old face</rdf:Alt></xmp:Thumbnails>"
    file = io.BytesIO()
    Image.fromarray(smooth()).save(file, "JPEG", exif=exif(), xmp=XMP % thumbnails, icc_profile=PROFILE)
    (tmp_path / "in").write_bytes(file.getvalue())
    rework(tmp_path / "in", tmp_path / f"out{suffix}")
    assert described(tmp_path / f"out{suffix}")[0] == "Maker"
    after = only(tmp_path / f"out{suffix}").meta
    assert after.icc == PROFILE
    assert b'dc:title="A"' in after.xmp and b"old face" not in after.xmp and b"Orientation" not in after.xmp
    assert b"old face" not in (tmp_path / f"out{suffix}").read_bytes()


def test_an_orientation_in_xmp_alone_is_applied_once(tmp_path: Path) -> None:
    array = noise(3)
    chunk = png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % b"")
    (tmp_path / "in.png").write_bytes(png(array, 2, chunk))
    rework(tmp_path / "in.png", tmp_path / "out.png", edited=False)
    with Image.open(tmp_path / "out.png") as image:
        assert image.getexif().get(0x0112, 1) == 1
        assert np.array_equal(np.asarray(image), np.rot90(array, 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_keeps_colour_chunks_and_text_once(tmp_path: Path, dtype: type, capfd: pytest.CaptureFixture[str]) -> None:
    gamma, chroma = struct.pack(">I", 55555), struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
    text = (b"tEXt", b"Title\0A photo"), (b"zTXt", b"Note\0\0x\x9c\x03\x00\x00\x00\x00\x01")
    international = (b"iTXt", "Author\0\0\0\0\0Åsa ☃".encode())
    ours = [(b"gAMA", gamma), (b"cHRM", chroma), *text, international]
    others = [(b"caBX", b"signed"), (b"tIME", bytes(7)), (b"zTXt", b"Raw profile type exif\0\0x\x9c\x03\0\0\0\0\1")]
    extra = b"".join(png_chunk(kind, data) for kind, data in (*ours, *others))
    (tmp_path / "in.png").write_bytes(png(noise(3, dtype), 2, extra))
    rework(tmp_path / "in.png", tmp_path / "out.png")
    data = (tmp_path / "out.png").read_bytes()
    for kind, body in ours:
        assert data.count(png_chunk(kind, body)) == 1
    for kind, body in others:
        assert png_chunk(kind, body) not in data
    assert probe(tmp_path / "out.png").depth == np.dtype(dtype).itemsize * 8
    assert capfd.readouterr() == ("", "")


def test_exif_too_long_for_a_jpeg_is_told(tmp_path: Path) -> None:
    frame = ImageFrame(smooth())
    long = Image.Exif()
    long[0x010E] = "x" * 70_000
    frame.meta = ImageMeta(exif=long.tobytes(), xmp=b"y" * 70_000)
    write_image(frame, tmp_path / "in.png", SwapOptions())
    notes = rework(tmp_path / "in.png", tmp_path / "out.jpg")
    assert notes == ["the photo's EXIF or XMP is longer than a JPEG holds and was left out"]


# Depth ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bit_png_of_every_kind_is_exact(tmp_path: Path, channels: int) -> None:
    array = noise(channels, np.uint16)
    (tmp_path / "in.png").write_bytes(png(array, {1: 0, 2: 4, 3: 2, 4: 6}[channels]))
    rework(tmp_path / "in.png", tmp_path / "out.png")
    data = (tmp_path / "out.png").read_bytes()
    assert (data[24], data[25]) == (16, {1: 0, 2: 4, 3: 2, 4: 6}[channels])
    made = only(tmp_path / "out.png").array
    assert np.array_equal(made[~inside()], array.reshape(made.shape)[~inside()])
    grey = 0.299 * 0.75 + 0.587 * 0.5 + 0.114 * 0.25
    assert np.abs(made[inside()][:, 0] - (grey if channels < 3 else 0.75) * 65535).max() <= 1
    if channels in (2, 4):
        assert np.array_equal(made[..., -1], array[..., -1])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_transparent_colour_of_sixteen_bits(tmp_path: Path, channels: int) -> None:
    array = noise(channels, np.uint16)
    key = np.atleast_1d(array[2, 3]).astype(">u2").tobytes()
    (tmp_path / "in.png").write_bytes(png(array, 0 if channels == 1 else 2, png_chunk(b"tRNS", key)))
    frame = only(tmp_path / "in.png")
    assert frame.array.shape[2] == channels + 1
    clear = (array.reshape(20, 30, -1) == array.reshape(20, 30, -1)[2, 3]).all(-1)
    assert np.array_equal(frame.array[..., -1], np.where(clear, 0, 65535))


def test_a_tiff_with_strange_tags_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    array = noise(3, np.uint16)
    with (tmp_path / "in.tif").open("w+b") as file:
        TiffWriter(file).add(array, tags={65000: "hello", 42112: "<GDAL/>"})
    rework(tmp_path / "in.tif", tmp_path / "out.tif")
    assert np.array_equal(only(tmp_path / "out.tif").array[~inside()], array[~inside()])
    assert capfd.readouterr() == ("", "")


def test_a_small_copy_in_a_tiff_is_neither_a_page_nor_kept(tmp_path: Path) -> None:
    array = noise(3)
    with (tmp_path / "in.tif").open("w+b") as file:
        writer = TiffWriter(file)
        writer.add(noise(3, width=6, height=4), tags={254: 1})
        writer.add(array)
    assert probe(tmp_path / "in.tif").kind == "image"
    assert (probe(tmp_path / "in.tif").width, only(tmp_path / "in.tif").width) == (30, 30)
    rework(tmp_path / "in.tif", tmp_path / "out.tif")
    with Image.open(tmp_path / "out.tif") as image:
        assert getattr(image, "n_frames", 1) == 1
        assert np.array_equal(np.asarray(image)[~inside()], array[~inside()])


def test_sixteen_bit_cmyk_is_read_with_eight_and_told(tmp_path: Path) -> None:
    samples = noise(4)
    with (tmp_path / "in.tif").open("w+b") as file:
        TiffWriter(file).add(samples.astype(np.uint16) * 257, "CMYK")
    notes = rework(tmp_path / "in.tif", tmp_path / "out.tif")
    assert notes == ["the photo's 16 bits were read as 8"]
    with Image.open(tmp_path / "out.tif") as image:
        assert image.mode == "CMYK"
        assert np.array_equal(np.asarray(image)[~inside()], samples[~inside()])


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bit_pnm(tmp_path: Path, channels: int) -> None:
    array = noise(channels, np.uint16)
    head = b"P5" if channels == 1 else b"P6"
    (tmp_path / "in.pnm").write_bytes(head + b"\n# made by hand\n30 20\n65535\n" + array.astype(">u2").tobytes())
    rework(tmp_path / "in.pnm", tmp_path / "out.png")
    assert np.array_equal(only(tmp_path / "out.png").array.reshape(array.shape)[~inside()], array[~inside()])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_ten_bit_heic_stays_ten(tmp_path: Path, channels: int) -> None:
    soft = cv2.resize(noise(3, np.uint16, 6, 4), (64, 48), interpolation=cv2.INTER_CUBIC)
    array = soft[..., 0] if channels == 1 else np.dstack([soft, soft[..., :1]])[..., :channels]
    write_image(ImageFrame(np.ascontiguousarray(array)), tmp_path / "in.heic", SwapOptions(image_quality=100))
    info, frame = probe(tmp_path / "in.heic"), only(tmp_path / "in.heic")
    assert (info.depth, frame.meta.depth, frame.peak) == (10, 10, 65535)
    assert np.array_equal(frame.array & 63, frame.array >> 10)  # ten bits, spread so that the peak stays the peak
    assert np.abs(frame.array.astype(int) - array.reshape(frame.array.shape)).mean() < 65535 * 0.02
    assert rework(tmp_path / "in.heic", tmp_path / "out.heic") == []
    assert probe(tmp_path / "out.heic").depth == 10
    assert rework(tmp_path / "in.heic", tmp_path / "out.jpg") == [
        *(["JPEG holds no transparency: the photo was put on white"] if channels == 4 else []),
        "JPEG holds 8 bits: the photo's 10 were rounded",
    ]


def test_eight_bit_heic_stays_eight(tmp_path: Path) -> None:
    write_image(ImageFrame(smooth(64, 48)), tmp_path / "in.heic", SwapOptions())
    assert rework(tmp_path / "in.heic", tmp_path / "out.heic") == []
    assert probe(tmp_path / "out.heic").depth == 8


def test_hdr_photos_are_refused(tmp_path: Path) -> None:
    pq = png_chunk(b"cICP", bytes([9, 16, 0, 1]))
    (tmp_path / "in.png").write_bytes(png(noise(3, np.uint16), 2, pq))
    with pytest.raises(MediaError, match=r"in\.png: is an HDR photo \(PQ\), .*; convert it to SDR"):
        probe(tmp_path / "in.png")


def test_thirty_two_bit_photos_are_refused(tmp_path: Path) -> None:
    for mode in ("F", "I"):
        Image.new(mode, (8, 8), 70000).save(tmp_path / "in.tif")
        with pytest.raises(MediaError, match=r"in\.tif: .*not supported; convert it to 16-bit PNG"):
            only(tmp_path / "in.tif")


@QUIET
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 3, 4]), st.booleans(), st.integers(0, 999))
def test_tiff_and_png_give_back_any_samples(
    tmp_path: Path, width: int, height: int, channels: int, deep: bool, seed: int
) -> None:
    array = noise(channels, np.uint16 if deep else np.uint8, width, height, seed)
    for suffix in (".tif", ".png"):
        write_image(ImageFrame(array), tmp_path / f"x{suffix}", SwapOptions())
        made = only(tmp_path / f"x{suffix}").array
        if suffix == ".tif" and deep and channels == 2:  # written as RGBA
            made = made[..., [0, 3]]
        assert np.array_equal(made, array.reshape(made.shape))


def test_what_was_edited_is_what_is_written(tmp_path: Path) -> None:
    frame = ImageFrame(noise(3))
    edit(frame)
    write_image(frame, tmp_path / "x.png", SwapOptions())
    assert (only(tmp_path / "x.png").array[inside()] == (191, 128, 64)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_an_orientation_in_the_xmp_of_a_tiff(tmp_path: Path, dtype: type) -> None:
    array = noise(3, dtype)
    frame = ImageFrame(array)
    frame.meta = ImageMeta(xmp=XMP % b"")
    write_image(frame, tmp_path / "in.tif", SwapOptions())
    data = bytearray((tmp_path / "in.tif").read_bytes())
    at = data.rindex(struct.pack("<HHI", 274, 3, 1))
    data[at : at + 12] = struct.pack("<HHIHH", 266, 3, 1, 1, 0)  # FillOrder in its place
    (tmp_path / "in.tif").write_bytes(data)
    assert np.array_equal(only(tmp_path / "in.tif").array, np.rot90(array, 3))
    assert (probe(tmp_path / "in.tif").width, probe(tmp_path / "in.tif").height) == (20, 30)
