"""Photos: read upright in any mode, written whole, and only the face changed."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageCms, ImageOps

from mien.errors import MediaError, OptionsError, OutputError
from mien.media import ImageFrame, open_reader, open_writer, probe
from mien.media.image import read_image
from mien.media.image_webp import WebpCompression
from mien.media.image_writer import write_image
from mien.options import SwapOptions
from mien.types import Box

OPTIONS = SwapOptions()
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def pixels(
    channels: int, dtype: type[np.unsignedinteger[Any]] = np.uint8, width: int = 30, height: int = 20
) -> npt.NDArray[Any]:
    peak = int(np.iinfo(dtype).max)
    return np.random.default_rng(channels).integers(0, peak + 1, (height, width, channels)).astype(dtype)


def edit(frame: ImageFrame) -> Box:
    """Paint a box, and say which."""
    box = Box(5, 4, 14, 11)
    frame.write(box, np.full((7, 9, 3), 0.75, np.float32), np.ones((7, 9), np.float32))
    return box


def outside(array: npt.NDArray[Any], box: Box) -> npt.NDArray[Any]:
    """The pixels beyond the box."""
    keep = np.ones(array.shape[:2], bool)
    keep[box.y0 : box.y1, box.x0 : box.x1] = False
    return np.asarray(array[keep])


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_png_to_png_changes_only_the_box(tmp_path: Path, mode: str) -> None:
    array = pixels(len(mode))
    source, made = tmp_path / "in.png", tmp_path / "out.png"
    Image.fromarray(array[..., 0] if mode == "L" else array).save(source, icc_profile=PROFILE, dpi=(300, 300))
    with open_reader(source) as reader, open_writer(made, reader, OPTIONS) as writer:
        for frame in reader:
            assert isinstance(frame, ImageFrame)
            box = edit(frame)
            writer.write(frame)
    with Image.open(made) as image:
        assert image.mode == mode
        result = np.asarray(image).reshape(array.shape)
        assert image.info.get("icc_profile") == (PROFILE if "RGB" in mode else None)
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.01)
    assert np.array_equal(outside(result, box), outside(array, box))
    inside = result[box.y0 : box.y1, box.x0 : box.x1]
    assert (inside[..., :1] == 191).all()
    if mode.endswith("A"):
        assert np.array_equal(result[..., -1], array[..., -1])


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_stay_sixteen(tmp_path: Path, suffix: str, channels: int) -> None:
    array = pixels(channels, np.uint16)
    source = tmp_path / f"in{suffix}"
    cv2.imwrite(str(source), array if channels == 1 else array[..., [2, 1, 0, 3][:channels]])
    frame = read_image(source)
    assert frame.array.dtype == np.uint16
    assert np.array_equal(frame.array, array)
    assert probe(source).depth == 16

    box = edit(frame)
    write_image(frame, tmp_path / f"out{suffix}", OPTIONS)
    back = read_image(tmp_path / f"out{suffix}").array
    assert np.array_equal(outside(back, box), outside(array, box))
    assert (back[box.y0 : box.y1, box.x0 : box.x1, 0] == 49151).all()


def test_sixteen_bit_png_keeps_profile_and_exif(tmp_path: Path) -> None:
    frame = ImageFrame(pixels(3, np.uint16))
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    frame.meta = type(frame.meta)(exif=exif.tobytes(), icc=PROFILE)
    write_image(frame, tmp_path / "out.png", OPTIONS)
    with Image.open(tmp_path / "out.png") as image:
        assert image.info["icc_profile"] == PROFILE
        assert image.getexif()[0x010F] == "Maker"


def test_sixteen_bits_are_rounded_where_the_format_holds_eight(tmp_path: Path) -> None:
    frame = ImageFrame(np.array([[[0, 128, 129], [257 * 7, 257 * 7 + 200, 65535]]], np.uint16))
    reader = open_reader(_saved(tmp_path / "in.png", pixels(3)))
    with open_writer(tmp_path / "out.webp", reader, OPTIONS) as writer:
        frame.meta = type(frame.meta)(webp=WebpCompression(lossless=True))
        writer.write(frame)
    assert np.asarray(Image.open(tmp_path / "out.webp")).tolist() == [[[0, 0, 1], [7, 8, 255]]]
    assert writer.notes == ["WEBP holds 8 bits: the photo's 16 were rounded"]


def _saved(path: Path, array: npt.NDArray[Any], **keywords: Any) -> Path:
    Image.fromarray(array).save(path, **keywords)
    return path


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_once(tmp_path: Path, suffix: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "Maker"
    smooth = np.asarray(Image.fromarray(pixels(3, width=6, height=4)).resize((48, 32)))
    source = _saved(tmp_path / f"in{suffix}", smooth, exif=exif.tobytes(), quality=95)
    with Image.open(source) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    info, frame = probe(source), read_image(source)
    assert np.array_equal(frame.array, expected)
    assert (info.width, info.height) == (frame.width, frame.height)

    write_image(frame, tmp_path / f"out{suffix}", OPTIONS)
    with Image.open(tmp_path / f"out{suffix}") as image:
        assert image.getexif().get(0x0112, 1) == 1
        assert image.getexif()[0x010F] == "Maker"
        assert image.size == (frame.width, frame.height)
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - expected).mean() < 6


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3])
def test_orientation_of_sixteen_bits(tmp_path: Path, suffix: str, channels: int) -> None:
    array = pixels(channels, np.uint16)
    source = tmp_path / f"in{suffix}"
    if suffix == ".png":
        exif = Image.Exif()
        exif[0x0112] = 6
        frame = ImageFrame(array)
        frame.meta = type(frame.meta)(exif=exif.tobytes())
        write_image(frame, source, OPTIONS)
    else:
        cv2.imwrite(str(source), array if channels == 1 else array[..., ::-1], [cv2.IMWRITE_TIFF_COMPRESSION, 1])
        _tag_orientation(source, 6)
    assert np.array_equal(read_image(source).array, np.rot90(array, 3))
    assert (probe(source).width, probe(source).height) == (20, 30)


def _tag_orientation(path: Path, value: int) -> None:
    """Turn the FillOrder-like tag that every such TIFF of OpenCV has (PlanarConfiguration = 1) into Orientation."""
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<HHI", 284, 3, 1))
    data[at : at + 12] = struct.pack("<HHIHH", 274, 3, 1, value, 0)
    path.write_bytes(data)


@pytest.mark.parametrize(("subsampling", "kept"), [(0, 0), (1, 1), (2, 2)])
def test_jpeg_keeps_its_subsampling_and_takes_the_quality(tmp_path: Path, subsampling: int, kept: int) -> None:
    source = _saved(tmp_path / "in.jpg", pixels(3), subsampling=subsampling, quality=50)
    frame = read_image(source)
    sizes = []
    for quality in (60, 95):
        write_image(frame, tmp_path / "out.jpg", SwapOptions(image_quality=quality))
        sizes.append((tmp_path / "out.jpg").stat().st_size)
        with Image.open(tmp_path / "out.jpg") as image:
            assert {(1, 1): 0, (2, 1): 1, (2, 2): 2}[image.layer[0][1:3]] == kept  # type: ignore[attr-defined]
    assert sizes[0] < sizes[1]


def test_other_formats_get_444(tmp_path: Path) -> None:
    write_image(read_image(_saved(tmp_path / "in.png", pixels(3))), tmp_path / "out.jpeg", OPTIONS)
    with Image.open(tmp_path / "out.jpeg") as image:
        assert image.layer[0][1:3] == (1, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mode", "suffix", "expected"),
    [
        *(("1", ".png", 1), ("P", ".png", 3), ("LA", ".png", 2), ("I;16", ".png", 1)),
        *(("1", ".tif", 1), ("P", ".tif", 3), ("PA", ".tif", 4), ("LA", ".tif", 2), ("CMYK", ".tif", 3)),
        *(("YCbCr", ".tif", 3), ("I;16", ".tif", 1), ("L", ".jpg", 1), ("CMYK", ".jpg", 3), ("YCbCr", ".jpg", 3)),
    ],
)
def test_every_mode_is_read_with_its_colours(tmp_path: Path, mode: str, suffix: str, expected: int) -> None:
    base = Image.fromarray(pixels(3, width=8, height=8)).resize((32, 32))
    image = base.convert("L").convert("I;16") if mode == "I;16" else base.convert(mode)
    source = tmp_path / f"in{suffix}"
    image.save(source, quality=100, subsampling=0) if suffix == ".jpg" else image.save(source)
    with Image.open(source) as stored:
        reference = stored.convert("RGB" if expected >= 3 else "L") if mode != "I;16" else stored.copy()
    frame = read_image(source)
    colours = np.asarray(reference).reshape(32, 32, -1)
    assert frame.array.shape[2] == expected
    assert np.array_equal(frame.array[..., : colours.shape[2]], colours)
    write_image(frame, tmp_path / "out.png", OPTIONS)
    assert np.array_equal(read_image(tmp_path / "out.png").array, frame.array)


def test_a_transparent_palette_colour_stays_transparent(tmp_path: Path) -> None:
    image = Image.fromarray(pixels(3)).quantize(8)
    image.save(tmp_path / "in.png", transparency=3)
    frame = read_image(tmp_path / "in.png")
    assert frame.array.shape[2] == 4
    assert np.array_equal(frame.array[..., 3] == 0, np.asarray(image) == 3)


def test_a_cmyk_profile_is_used_and_not_attached_to_rgb(tmp_path: Path) -> None:
    Image.fromarray(pixels(4), "CMYK").save(tmp_path / "in.jpg", icc_profile=b"\0" * 16 + b"CMYK" + b"\0" * 108)
    frame = read_image(tmp_path / "in.jpg")
    assert frame.array.shape[2] == 3
    write_image(frame, tmp_path / "out.png", OPTIONS)
    with Image.open(tmp_path / "out.png") as image:
        assert "icc_profile" not in image.info


def test_transparency_on_white_where_the_format_has_none(tmp_path: Path) -> None:
    array = np.zeros((4, 4, 4), np.uint8)
    array[:2] = (200, 100, 0, 255)
    reader = open_reader(_saved(tmp_path / "in.png", array))
    with open_writer(tmp_path / "out.bmp", reader, OPTIONS) as writer:
        for frame in reader:
            writer.write(frame)
    made = np.asarray(Image.open(tmp_path / "out.bmp"))
    assert (made[:2] == (200, 100, 0)).all() and (made[2:] == 255).all()
    assert writer.notes == ["BMP holds no transparency: the photo was put on white"]


@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_modern_formats_there_and_back(tmp_path: Path, suffix: str) -> None:
    smooth = np.asarray(Image.fromarray(pixels(3, width=8, height=6)).resize((64, 48)))
    write_image(ImageFrame(smooth), tmp_path / f"a{suffix}", OPTIONS)
    frame = read_image(tmp_path / f"a{suffix}")
    assert np.abs(frame.array.astype(int) - smooth).mean() < 8
    assert probe(tmp_path / f"a{suffix}").kind == "image"


def test_lossless_webp_stays_lossless(tmp_path: Path) -> None:
    array = pixels(4)
    frame = read_image(_saved(tmp_path / "in.webp", array, lossless=True, exact=True))
    write_image(frame, tmp_path / "out.webp", OPTIONS)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out.webp")), array)


def test_the_extension_of_the_input_does_not_matter(tmp_path: Path) -> None:
    array = pixels(3)
    for name in ("photo.mp4", "photo", "photo.txt"):
        path = tmp_path / name
        Image.fromarray(array).save(path, format="PNG")
        assert probe(path).codec == "png"
        assert np.array_equal(read_image(path).array, array)


@pytest.mark.parametrize("name", ["a b.png", "ü ☃ 😀.png", "x[1].png", "%d.png", "-s.png", "'q\".png"])
def test_awkward_names(tmp_path: Path, name: str) -> None:
    array = pixels(3, np.uint16)
    write_image(ImageFrame(array), tmp_path / name, OPTIONS)
    assert np.array_equal(read_image(tmp_path / name).array, array)


def test_an_output_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_image(ImageFrame(pixels(3)), Path("out.png"), OPTIONS)
    assert [p.name for p in tmp_path.iterdir()] == ["out.png"]


def test_unsupported_extensions_list_the_supported(tmp_path: Path) -> None:
    for name in ("out.svg", "out", "out.xyz"):
        with pytest.raises(OptionsError, match=r"\.png, \.jpg"):
            write_image(ImageFrame(pixels(3)), tmp_path / name, OPTIONS)
    reader = open_reader(_saved(tmp_path / "in.png", pixels(3)))
    with pytest.raises(OptionsError, match=r"is a photo, .*out\.mp4 would be a video; use \.png"):
        open_writer(tmp_path / "out.mp4", reader, OPTIONS)


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.png"
    out.write_bytes(b"precious")

    write = Path.write_bytes

    def fail(self: Path, _: bytes) -> None:
        write(self, b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OutputError, match=r"out\.png: cannot be written \(No space left on device\)"):
        write_image(ImageFrame(pixels(3)), out, OPTIONS)
    assert [p.name for p in tmp_path.iterdir()] == ["out.png"]
    assert out.read_bytes() == b"precious"


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    frame = ImageFrame(pixels(3))
    with pytest.raises(OutputError, match="does not exist"):
        write_image(frame, tmp_path / "no" / "out.png", OPTIONS)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        write_image(frame, tmp_path / "folder.png", OPTIONS)
    with pytest.raises(OutputError, match="too long"):
        write_image(frame, tmp_path / ("x" * 300 + ".png"), OPTIONS)


def test_the_writer_writes_on_close_and_nothing_on_an_exception(tmp_path: Path) -> None:
    reader = open_reader(_saved(tmp_path / "in.png", pixels(3)))
    frame = next(iter(reader))
    with pytest.raises(KeyboardInterrupt), open_writer(tmp_path / "out.png", reader, OPTIONS) as writer:
        writer.write(frame)
        raise KeyboardInterrupt
    assert not (tmp_path / "out.png").exists()
    with pytest.raises(OutputError, match="no photo"), open_writer(tmp_path / "out.png", reader, OPTIONS):
        pass


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "tiff", "png16"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_truncated_photos_are_errors_that_name_the_file(tmp_path: Path, kind: str, share: float) -> None:
    whole, cut = tmp_path / f"whole.{kind[:3]}", tmp_path / "cut.img"
    if kind == "png16":
        cv2.imwrite(str(whole), pixels(3, np.uint16, 200, 200))
    else:
        Image.fromarray(pixels(3, width=200, height=200)).save(whole, format={"jpg": "JPEG"}.get(kind, kind))
    data = whole.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(MediaError, match=r"cut\.img: "):
        probe(cut)
        read_image(cut)


def test_huge_photos_are_an_error_not_a_crash(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(MediaError, match=r"bomb\.png: .*more.* pixels.*; raise max_pixels"):
        probe(path)


def test_a_gif_of_one_picture_is_a_photo(tmp_path: Path) -> None:
    Image.fromarray(pixels(3)).save(tmp_path / "still.gif")
    assert probe(tmp_path / "still.gif").kind == "image"


def test_a_reader_can_be_iterated_again(tmp_path: Path) -> None:
    array = pixels(3)
    with open_reader(_saved(tmp_path / "in.png", array)) as reader:
        assert (reader.kind, reader.frame_count) == ("image", 1)
        for frame in reader:
            edit(frame)  # type: ignore[arg-type]
        again = next(iter(reader))
        assert isinstance(again, ImageFrame)
        assert np.array_equal(again.array, array)
        assert (again.index, again.time) == (0, None)


def test_exif_thumbnail_of_the_old_face_is_dropped(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.fromarray(pixels(3, width=16, height=12)).save(file, "JPEG")
    thumb = file.getvalue()
    entries = [(0x0103, 3, 1, 6), (0x0201, 4, 1, 8 + 2 + 12 + 4 + 2 + 36 + 4), (0x0202, 4, 1, len(thumb))]
    ifd0 = struct.pack("<HHHIII", 1, 0x0112, 3, 1, 1, 26)
    ifd1 = struct.pack("<H", 3) + b"".join(struct.pack("<HHII", *e) for e in entries) + struct.pack("<I", 0)
    exif = b"Exif\0\0II*\0" + struct.pack("<I", 8) + ifd0 + ifd1 + thumb
    source = _saved(tmp_path / "in.jpg", pixels(3), exif=exif)
    assert thumb in source.read_bytes()
    write_image(read_image(source), tmp_path / "out.jpg", OPTIONS)
    assert thumb not in (tmp_path / "out.jpg").read_bytes()
