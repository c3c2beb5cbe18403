"""Images: every mode, depth and orientation comes back as it was, with another face."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import ExifTags, Image

from tests.corpus.colours import display_p3
from tests.corpus.conftest import Bench
from tests.corpus.look import digest, tree
from tests.corpus.scene import PATCH, Array, Pixels, assert_only_box_changed, number_in, outside, scene, stamp

FACE = (slice(PATCH[1], PATCH[3]), slice(PATCH[0], PATCH[2]))
# What stored pixels a picture has that EXIF shows upright.
STORED = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: p[::-1, ::-1],
    4: lambda p: p[::-1],
    5: lambda p: p.transpose(1, 0, 2),
    6: lambda p: p.transpose(1, 0, 2)[::-1],
    7: lambda p: p[::-1, ::-1].transpose(1, 0, 2),
    8: lambda p: p.transpose(1, 0, 2)[:, ::-1],
}
SAVING: dict[str, dict[str, Any]] = {
    "jpg": {"quality": 96, "subsampling": 0}, "png": {}, "webp": {"lossless": True, "exact": True}, "tif": {}
}  # fmt: skip


def shown(path: Path) -> Array:
    """The picture as any viewer shows it."""
    from PIL import ImageOps

    with Image.open(path) as image:
        turned = ImageOps.exif_transpose(image)
        return np.asarray(turned if turned.mode in ("RGB", "RGBA", "L", "LA") else turned.convert("RGB"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", SAVING)
def test_exif_orientation_is_obeyed_once(bench: Bench, tmp_path: Path, suffix: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation], exif[ExifTags.Base.Artist] = orientation, "Ada"
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](scene(7))))
    target = tmp_path / f"in.{suffix}"
    stored.save(target, exif=exif, **SAVING[suffix])
    before = shown(target)
    assert number_in(before) == 7
    made = bench.swap(target, f"out.{suffix}" if suffix != "jpg" else "out.png")
    after = shown(made)
    assert number_in(after) == 7
    assert_only_box_changed(before, after)
    with Image.open(made) as image:
        assert image.getexif().get(ExifTags.Base.Artist) == "Ada"


def grey() -> Array:
    return np.asarray(cv2.cvtColor(scene(), cv2.COLOR_RGB2GRAY))


def steps() -> Array:
    """(240, 320) transparency of 0, 128 and 255 in stripes that cross the face."""
    return np.repeat(np.array([0, 128, 255, 128], np.uint8), 80)[None].repeat(240, 0)


def deep(channels: int) -> Array:
    """16-bit pixels whose low bytes matter."""
    rng = np.random.default_rng(3)
    base = np.dstack([scene(), steps()]) if channels == 4 else scene() if channels == 3 else grey()[..., None]
    made = base.astype(np.uint16) * 257
    low = rng.integers(-100, 100, made[..., :3].shape)
    made[..., :3] = np.clip(made[..., :3] + low, 0, 65535)
    return made[..., 0] if channels == 1 else made


def save_deep(path: Path, array: Array) -> None:
    if array.ndim == 3:
        code = cv2.COLOR_RGBA2BGRA if array.shape[2] == 4 else cv2.COLOR_RGB2BGR
        array = np.asarray(cv2.cvtColor(array, code))
    cv2.imwrite(str(path), array)


def read_deep(path: Path) -> Array:
    array = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert array is not None
    if array.ndim == 2:
        return np.asarray(array)
    return np.asarray(cv2.cvtColor(array, cv2.COLOR_BGRA2RGBA if array.shape[2] == 4 else cv2.COLOR_BGR2RGB))


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_stay_sixteen(bench: Bench, tmp_path: Path, suffix: str, channels: int) -> None:
    target = tmp_path / f"in.{suffix}"
    save_deep(target, deep(channels))
    before = read_deep(target)
    assert np.array_equal(before, deep(channels))
    after = read_deep(bench.swap(target, f"out.{suffix}"))
    assert after.dtype == np.uint16
    if channels == 4:
        assert np.array_equal(before[..., 3], after[..., 3])
        assert_only_box_changed(before[..., :3], after[..., :3])
    else:
        assert_only_box_changed(before, after)
    inside = after[FACE].reshape(-1, after.shape[2] if after.ndim == 3 else 1)[:, 0]
    assert (inside % 257 != 0).mean() > 0.5, "the face was painted in 8 bits"


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_eight_bit_modes_are_kept(bench: Bench, tmp_path: Path, mode: str) -> None:
    color = scene() if mode.startswith("RGB") else grey()
    pixels = np.dstack([color, steps()]) if mode.endswith("A") else color
    target = tmp_path / "in.png"
    Image.fromarray(pixels).save(target)
    with Image.open(bench.swap(target, "out.png")) as image:
        assert image.mode == mode
        after = np.asarray(image)
    if mode.endswith("A"):
        assert np.array_equal(after[..., -1], steps())
        assert_only_box_changed(pixels[..., :-1], after[..., :-1])
    else:
        assert_only_box_changed(pixels, after)


def test_alpha_takes_no_part_in_finding_the_face(bench: Bench, tmp_path: Path) -> None:
    """Where it is transparent, the colours below are kept, and the face is that of an opaque picture."""
    Image.fromarray(scene()).save(tmp_path / "opaque.png")
    Image.fromarray(np.dstack([scene(), steps()])).save(tmp_path / "clear.png")
    opaque, clear = (bench.swap(tmp_path / name, name) for name in ("opaque.png", "clear.png"))
    with Image.open(opaque) as a, Image.open(clear) as b:
        assert np.array_equal(np.asarray(a), np.asarray(b)[..., :3])


def test_one_bit_photos_are_returned_as_one_bit_or_grey(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.png"
    large = cv2.resize(grey(), (1280, 960), interpolation=cv2.INTER_CUBIC)
    Image.fromarray(large).convert("1").save(target)
    with Image.open(target) as image:
        assert image.mode == "1"
        before = np.asarray(image.convert("L"))
    with Image.open(bench.swap(target, "out.png")) as image:
        assert image.mode in ("1", "L")
        after = np.asarray(image.convert("L"))
    box = PATCH[0] * 4, PATCH[1] * 4, PATCH[2] * 4, PATCH[3] * 4
    keep = outside(960, 1280, box)
    assert np.array_equal(before[keep], after[keep])
    assert (before[~keep] != after[~keep]).mean() > 0.02


@pytest.mark.parametrize("suffix", ["png", "tif", "gif"])
def test_palette_photos_are_returned_with_a_palette(bench: Bench, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"in.{suffix}"
    Image.fromarray(scene()).quantize(256, dither=Image.Dither.NONE).save(target)
    with Image.open(target) as image:
        assert image.mode == "P"
        before = np.asarray(image.convert("RGB"))
    with Image.open(bench.swap(target, f"out.{'png' if suffix == 'gif' else suffix}")) as image:
        assert image.mode == "P"
        after = np.asarray(image.convert("RGB"))
    keep = outside(240, 320)
    assert np.array_equal(before[keep], after[keep])
    assert (before[~keep] != after[~keep]).any(-1).mean() > 0.1


def test_a_transparent_colour_of_a_palette_stays_transparent(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.png"
    image = Image.fromarray(scene()).quantize(255, dither=Image.Dither.NONE)
    indices = np.asarray(image).copy()
    indices[200:, :100] = 255
    made = Image.fromarray(indices)
    made.putpalette([*(image.getpalette() or [])[: 255 * 3], 1, 2, 3])
    made.save(target, transparency=255)
    with Image.open(bench.swap(target, "out.png")) as done:
        after = np.asarray(done.convert("RGBA"))
    assert (after[200:, :100, 3] == 0).all()
    assert (after[:200, :, 3] == 255).all()


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_cmyk_photos_are_swapped_in_their_colours(bench: Bench, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"in.{suffix}"
    Image.fromarray(scene()).convert("CMYK").save(target, quality=97)
    with Image.open(target) as image:
        before = np.asarray(image.convert("RGB"))
    for name in ("out.png", f"out.{suffix}"):
        with Image.open(bench.swap(target, name)) as image:
            after = np.asarray(image.convert("RGB"))
        off = np.abs(after.astype(float) - before)
        assert off[outside(240, 320)].mean() <= (0 if name == "out.png" else 4)
        assert off[FACE].mean() > 3


def test_the_profile_and_the_exif_are_kept(bench: Bench, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Artist], exif[ExifTags.Base.DateTime] = "Ada", "2020:01:02 03:04:05"
    target = tmp_path / "in.png"
    Image.fromarray(scene()).save(target, icc_profile=display_p3(), exif=exif, dpi=(300, 300))
    for suffix in ("png", "jpg", "webp", "tif", "avif", "heic"):
        with Image.open(bench.swap(target, f"out.{suffix}")) as image:
            assert image.info.get("icc_profile") == display_p3(), suffix
            assert image.getexif().get(ExifTags.Base.Artist) == "Ada", suffix
            assert image.getexif().get(ExifTags.Base.DateTime) == "2020:01:02 03:04:05", suffix


def tables(path: Path) -> list[int]:
    """All numbers of a JPEG's quantisation tables: lower is finer."""
    with Image.open(path) as image:
        return [value for _, table in sorted(image.quantization.items()) for value in table]  # type: ignore[attr-defined]


@pytest.mark.parametrize("quality", [60, 90, 98, 100])
def test_a_jpeg_is_at_least_as_fine_as_its_target(bench: Bench, tmp_path: Path, quality: int) -> None:
    target = tmp_path / "in.jpg"
    Image.fromarray(scene()).save(target, quality=quality, subsampling=0)
    made = bench.swap(target, "out.jpg")
    assert all(new <= old for old, new in zip(tables(target), tables(made), strict=True))
    with Image.open(made) as image, Image.open(target) as old:
        off = np.abs(np.asarray(image).astype(float) - np.asarray(old))[outside(240, 320)]
    assert off.mean() < 2


@pytest.mark.parametrize("suffix", ["heic", "avif"])
def test_modern_formats_are_read_and_written(bench: Bench, tmp_path: Path, suffix: str) -> None:
    from pillow_heif import register_heif_opener

    register_heif_opener()
    target = tmp_path / f"in.{suffix}"
    Image.fromarray(scene(9)).save(target, quality=95)
    with Image.open(target) as image:
        before = np.asarray(image.convert("RGB"))
    with Image.open(bench.swap(target, "out.png")) as image:
        after = np.asarray(image)
    assert number_in(after) == 9
    assert_only_box_changed(before, after)
    with Image.open(bench.swap(target, f"out.{suffix}")) as image:
        assert image.format == {"heic": "HEIF", "avif": "AVIF"}[suffix]
        again = np.asarray(image.convert("RGB"))
    assert np.abs(again.astype(float) - after).mean() < 4


def test_one_pixel_has_no_face(bench: Bench, tmp_path: Path) -> None:
    for suffix in ("png", "jpg", "webp", "tif", "bmp"):
        target = tmp_path / f"in.{suffix}"
        Image.new("RGB", (1, 1), (200, 150, 120)).save(target)
        bench.fails(target, target.name, "no face", name="out.png")
    for size in ((1, 400), (400, 1), (2, 2)):
        Image.new("RGB", size, (200, 150, 120)).save(tmp_path / "thin.png")
        bench.fails(tmp_path / "thin.png", "thin.png", "no face", name="out.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_hundred_megapixels(bench: Bench, tmp_path: Path) -> None:
    wide, high = 11_600, 8_700
    near = cv2.resize(scene(11), None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)
    big = np.full((high, wide, 3), 117, np.uint8)
    big[4000:4960, 5000:6280] = near
    target = tmp_path / "in.jpg"
    cv2.imwrite(str(target), big[:, :, ::-1])
    made = bench.swap(target, "out.jpg", detect_size=1280)
    with Image.open(made) as image:
        assert image.size == (wide, high)
        part = np.asarray(image.crop((5000, 4000, 6280, 4960)))
        rest = np.asarray(image.crop((0, 0, 2000, 2000)))
    assert number_in(part, (64, 64), (64, 64)) == 11
    face = tuple(slice(4 * each.start, 4 * each.stop) for each in FACE)
    assert np.abs(part[face].astype(float) - near[face]).mean() > 4
    assert (np.abs(rest.astype(int) - 117) <= 1).all()


def test_more_pixels_than_allowed_are_refused_by_the_header_alone(bench: Bench, tmp_path: Path) -> None:
    data = io.BytesIO()
    Image.new("L", (8, 8)).save(data, "PNG")
    import struct
    import zlib

    header = struct.pack(">II", 60_000, 60_000) + data.getvalue()[24:29]
    bomb = data.getvalue()[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + data.getvalue()[33:]
    target = tmp_path / "bomb.png"
    target.write_bytes(bomb)
    bench.fails(target, "bomb.png", name="out.png")
    Image.fromarray(scene()).save(tmp_path / "in.png")
    bench.fails(tmp_path / "in.png", "in.png", name="out.png", flags=("--max-pixels", "50000"))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif", "bmp", "avif", "heic"])
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_truncated_photo_is_an_error(bench: Bench, tmp_path: Path, suffix: str, share: float) -> None:
    from pillow_heif import register_heif_opener

    register_heif_opener()
    whole = tmp_path / f"whole.{suffix}"
    Image.fromarray(scene()).save(whole)
    target = tmp_path / f"in.{suffix}"
    target.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
    bench.fails(target, target.name, name="out.png")


def test_a_photo_with_flipped_bits_is_right_or_an_error(bench: Bench, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    for suffix in ("png", "jpg", "webp", "tif"):
        whole = tmp_path / f"whole.{suffix}"
        Image.fromarray(scene()).save(whole)
        for trial in range(3):
            data = bytearray(whole.read_bytes())
            for place in rng.integers(40, len(data), 12):
                data[place] ^= 1 << int(rng.integers(8))
            target = tmp_path / f"{trial}.{suffix}"
            target.write_bytes(data)
            ended = bench.command("swap", "-s", target, "-t", target, "-o", bench.folder / "out.png", "--quiet")
            assert ended.code in (0, 1), ended
            if ended.code:
                assert ended.err.count("\n") == 1
                assert "unexpected" not in ended.err
                assert tree(bench.folder) == []
            else:
                with Image.open(bench.folder / "out.png") as image:
                    image.load()
                (bench.folder / "out.png").unlink()


def test_an_empty_file_is_an_error(bench: Bench, tmp_path: Path) -> None:
    for name in ("empty.jpg", "empty.png", "empty.mp4", "empty"):
        (tmp_path / name).touch()
        bench.fails(tmp_path / name, name, "empty", name="out.png" if "mp4" not in name else "out.mp4")


def test_a_missing_file_and_a_folder_are_errors(bench: Bench, tmp_path: Path) -> None:
    bench.fails(tmp_path / "nothing.jpg", "nothing.jpg", name="out.png")
    bench.fails(tmp_path, str(tmp_path), name="out.png")


def test_a_file_that_is_no_picture_is_an_error(bench: Bench, tmp_path: Path) -> None:
    for name, data in {
        "text.jpg": b"hello\n" * 50,
        "noise.mp4": bytes(range(256)) * 40,
        "zip.png": b"PK\3\4" + b"\0" * 99,
    }.items():
        (tmp_path / name).write_bytes(data)
        bench.fails(tmp_path / name, name, name="out.png")


@pytest.mark.parametrize("name", ["photo.mp4", "photo.txt", "photo", "photo.jpg.bak", "photo.PNG"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_content_decides_and_not_the_name(bench: Bench, tmp_path: Path, name: str, kind: str) -> None:
    target = tmp_path / name
    Image.fromarray(scene(5)).save(target, format=kind, lossless=True) if kind == "WEBP" else Image.fromarray(
        scene(5)
    ).save(target, format=kind)
    before = digest(target)
    with Image.open(bench.swap(target, "out.png")) as image:
        assert number_in(np.asarray(image)) == 5
    assert digest(target) == before


def test_an_alpha_photo_as_jpeg_is_put_on_white_and_that_is_said(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.png"
    Image.fromarray(np.dstack([scene(), steps()])).save(target)
    with Image.open(bench.swap(target, "out.jpg")) as image:
        after = np.asarray(image)
    assert (after[:, 4:70] >= 245).all()
    assert any("transparen" in note for note in bench.report.notes)


def test_the_scene_itself_is_as_the_tests_believe(tmp_path: Path) -> None:
    drawn: Pixels = scene(1023)
    assert number_in(drawn) == 1023
    stamp(drawn, 0)
    assert number_in(drawn) == 0
