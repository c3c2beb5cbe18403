"""Photos come back in their own mode, and only the changed pixels differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mien.media import probe
from mien.media.image_native import Native
from mien.media.image_palette import fill, reduced
from tests.media.pictures import PROFILE, cmyk_profile, edit, inside, noise, only, rework, smooth

QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def palette_photo(path: Path, colors: int = 20, **keywords: Any) -> Image.Image:
    """A palette photo of random indices, saved."""
    image = Image.fromarray((noise(1) % colors).astype(np.uint8))
    image.putpalette(noise(3, width=colors, height=1, seed=3).tobytes())
    image.save(path, **keywords)
    with Image.open(path) as stored:
        stored.load()
        return stored.copy()


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_a_palette_photo_keeps_its_palette_and_every_index_outside(tmp_path: Path, suffix: str) -> None:
    before = palette_photo(tmp_path / f"in{suffix}")
    rework(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    with Image.open(tmp_path / f"out{suffix}") as after:
        assert after.mode == "P"
        old, new = np.asarray(before), np.asarray(after)
        assert np.array_equal(new[~inside()], old[~inside()])
        assert after.getpalette()[:60] == before.getpalette()[:60]  # type: ignore[index]
        assert (np.asarray(after.convert("RGB"))[inside()] == (191, 128, 64)).all()  # a colour of its own


def test_a_full_palette_is_dithered_to(tmp_path: Path) -> None:
    image = Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30).astype(np.uint8))
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, 1)
    ramp[128:, 2] = 0
    image.putpalette(ramp.tobytes())
    image.save(tmp_path / "in.png")
    rework(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as after:
        assert after.mode == "P"
        assert np.array_equal(np.asarray(after)[~inside()], np.asarray(image)[~inside()])
        mean = np.asarray(after.convert("RGB"))[inside()].mean(0)
    assert np.abs(mean - (191, 128, 64)).max() < 60


@pytest.mark.parametrize("clear", [3, bytes([255, 0, 128, 255, 10])])
def test_transparent_colours_stay_as_transparent_as_they_were(tmp_path: Path, clear: int | bytes) -> None:
    palette_photo(tmp_path / "in.png", 8, transparency=clear)
    rework(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "in.png") as old, Image.open(tmp_path / "out.png") as new:
        assert new.mode == "P"
        assert np.array_equal(np.asarray(old)[~inside()], np.asarray(new)[~inside()])
        old_rgba, new_rgba = np.asarray(old.convert("RGBA")), np.asarray(new.convert("RGBA"))
    assert np.array_equal(old_rgba[..., 3], new_rgba[..., 3])
    seen = inside() & (old_rgba[..., 3] > 0)
    assert (new_rgba[seen][:, :3] == (191, 128, 64)).all()


@pytest.mark.parametrize(("suffix", "mode"), [(".jpg", "RGB"), (".webp", "RGB"), (".tif", "P"), (".bmp", "P")])
def test_other_formats_get_the_colours(tmp_path: Path, suffix: str, mode: str) -> None:
    palette_photo(tmp_path / "in.png")
    rework(tmp_path / "in.png", tmp_path / f"out{suffix}")
    with Image.open(tmp_path / f"out{suffix}") as image:
        assert image.mode == mode


def test_a_transparent_palette_becomes_rgba_where_palettes_are_opaque(tmp_path: Path) -> None:
    palette_photo(tmp_path / "in.png", transparency=3)
    rework(tmp_path / "in.png", tmp_path / "out.tif", edited=False)
    with Image.open(tmp_path / "in.png") as old, Image.open(tmp_path / "out.tif") as new:
        assert new.mode == "RGBA"
        assert np.array_equal(np.asarray(new), np.asarray(old.convert("RGBA")))


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_one_bit_is_dithered_inside_only(tmp_path: Path, suffix: str) -> None:
    bits = noise(1) > 127
    Image.fromarray(bits).save(tmp_path / f"in{suffix}")
    rework(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    with Image.open(tmp_path / f"out{suffix}") as after:
        assert after.mode == "1"
        made = np.asarray(after)
    assert np.array_equal(made[~inside()], bits[~inside()])
    grey = 0.299 * 0.75 + 0.587 * 0.5 + 0.114 * 0.25
    assert made[inside()].mean() == pytest.approx(grey, abs=0.1)


@pytest.mark.parametrize("profile", [None, cmyk_profile()], ids=["bare", "profile"])
def test_cmyk_tiff_keeps_every_sample_outside(tmp_path: Path, profile: bytes | None) -> None:
    samples = noise(4)
    Image.fromarray(samples, "CMYK").save(tmp_path / "in.tif", icc_profile=profile)
    assert probe(tmp_path / "in.tif").pixel_format == "CMYK"
    rework(tmp_path / "in.tif", tmp_path / "out.tif")
    with Image.open(tmp_path / "out.tif") as after:
        assert after.mode == "CMYK"
        assert after.info.get("icc_profile") == profile
        made = np.asarray(after)
    assert np.array_equal(made[~inside()], samples[~inside()])
    assert not np.array_equal(made[inside()], samples[inside()])
    shown = only(tmp_path / "out.tif").array[inside()]
    assert np.abs(shown.astype(int) - (191, 128, 64)).max() <= (1 if profile is None else 6)


def test_a_cmyk_profile_says_how_colours_are_read(tmp_path: Path) -> None:
    ink = np.full((20, 30, 4), (0, 0, 0, 128), np.uint8)
    Image.fromarray(ink, "CMYK").save(tmp_path / "in.tif", icc_profile=cmyk_profile())
    assert np.abs(only(tmp_path / "in.tif").array.astype(int) - (114, 121, 108)).max() <= 3


def test_cmyk_jpeg_stays_cmyk(tmp_path: Path) -> None:
    Image.fromarray(smooth()).convert("CMYK").save(tmp_path / "in.jpg", quality=95, icc_profile=cmyk_profile())
    notes = rework(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert notes == []
    with Image.open(tmp_path / "in.jpg") as old, Image.open(tmp_path / "out.jpg") as new:
        assert new.mode == "CMYK"
        assert new.info["icc_profile"] == cmyk_profile()
        away = ~inside(40, 60)
        away[:16, :24] = False  # blocks that the box touches
        assert np.abs(np.asarray(new).astype(int) - np.asarray(old))[away].max() <= 2
    assert rework(tmp_path / "in.jpg", tmp_path / "out.png") == ["PNG holds no CMYK: the photo was converted to sRGB"]
    with Image.open(tmp_path / "out.png") as image:
        assert image.mode == "RGB" and "icc_profile" not in image.info


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("L", ".png"), ("LA", ".png"), ("L", ".tif"), ("LA", ".tif"), ("L", ".bmp"), ("RGBA", ".tif"), ("RGB", ".bmp")],
)
def test_grey_and_alpha_come_back_exactly(tmp_path: Path, mode: str, suffix: str) -> None:
    array = noise(len(mode))
    Image.fromarray(array).save(tmp_path / f"in{suffix}")
    rework(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    with Image.open(tmp_path / f"out{suffix}") as image:
        assert image.mode == mode
        made = np.asarray(image)
    assert np.array_equal(made[~inside()], array[~inside()])
    if mode.endswith("A"):
        assert np.array_equal(made[..., -1], array[..., -1])


def test_a_still_gif_comes_back_as_one(tmp_path: Path) -> None:
    before = palette_photo(tmp_path / "in.gif", 200, transparency=7)
    rework(tmp_path / "in.gif", tmp_path / "out.gif")
    with Image.open(tmp_path / "out.gif") as after:
        old, new = np.asarray(before.convert("RGBA")), np.asarray(after.convert("RGBA"))
    assert np.array_equal(old[..., 3], new[..., 3])
    assert np.array_equal(old[~inside() & (old[..., 3] > 0)], new[~inside() & (old[..., 3] > 0)])
    assert (new[inside() & (old[..., 3] > 0)][:, :3] == (191, 128, 64)).all()
    assert probe(tmp_path / "out.gif").kind == "image"


def test_modes_survive_a_change_of_size(tmp_path: Path) -> None:
    Image.fromarray(smooth()).quantize(16).save(tmp_path / "p.png")
    Image.fromarray(noise(1, width=60, height=40) > 127).save(tmp_path / "1.png")
    Image.fromarray(smooth()).convert("CMYK").save(tmp_path / "k.tif")
    for name, mode in (("p.png", "P"), ("1.png", "1"), ("k.tif", "CMYK")):
        rework(tmp_path / name, tmp_path / f"out-{name}", edited=False, scale="30x")
        with Image.open(tmp_path / f"out-{name}") as image, Image.open(tmp_path / name) as old:
            assert (image.mode, image.size) == (mode, (30, 20))
            expected = old.convert("RGB").resize((30, 20), Image.Resampling.BOX)
            error = np.asarray(image.convert("RGB")).astype(int) - np.asarray(expected)
            assert abs(error.mean()) < 6


def test_native_finds_only_changed_pixels(tmp_path: Path) -> None:
    palette_photo(tmp_path / "in.png")
    frame = only(tmp_path / "in.png")
    native = frame.meta.native
    assert native is not None and not native.changed(frame.array).any()
    assert native.restored(frame.array) is native
    edit(frame)
    mask = native.changed(frame.array)
    assert mask[inside()].any() and not mask[~inside()].any()


@QUIET
@given(st.data())
def test_palettes_keep_what_is_not_changed(data: st.DataObject) -> None:
    seed, colors = data.draw(st.integers(0, 999)), data.draw(st.integers(1, 256))
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colors, 4)).astype(np.uint8)
    palette[:, 3] = rng.choice([0, 128, 255], colors) if data.draw(st.booleans()) else 255
    native = Native("P", rng.integers(0, colors, (12, 9)).astype(np.uint8), palette)
    array = native.promoted().copy()
    y, x = data.draw(st.integers(0, 11)), data.draw(st.integers(0, 8))
    array[y:, x:, :3] = rng.integers(0, 256, array[y:, x:, :3].shape)
    made = native.restored(array)
    mask = native.changed(array)
    assert np.array_equal(made.array[~mask], native.array[~mask])
    used = np.unique(native.array[~mask])
    assert np.array_equal(made.palette[used], palette[used])
    shown = made.promoted()
    channels = min(shown.shape[2], array.shape[2])
    if array.shape[2] == 4:
        alpha = shown[..., 3] if shown.shape[2] == 4 else np.full(shown.shape[:2], 255)
        assert np.array_equal(alpha, array[..., 3])
    fresh = len(np.unique(array[mask], axis=0))
    if fresh <= 256 - len(used) - 3:
        seen = mask & (array[..., 3] > 0) if array.shape[2] == 4 else mask
        assert np.array_equal(shown[seen][:, :channels], array[seen][:, :channels])


def test_filling_keeps_each_alpha_even_without_room() -> None:
    palette = np.zeros((256, 4), np.uint8)
    palette[:, 0], palette[:, 3] = np.arange(256), 255
    palette[5, 3], palette[6, 3] = 128, 0
    indices = np.full((4, 4), 200, np.uint8)
    indices[0], indices[1] = 5, 6
    exact = fill(indices, palette, [5], np.full((4, 4, 3), 77, np.uint8), np.ones((4, 4), bool))
    assert not exact
    assert palette[indices][..., 3].tolist() == [[128] * 4, [0] * 4, [255] * 4, [255] * 4]
    assert palette[indices][0].tolist() == [[77, 77, 77, 128]] * 4


def test_reducing_colours_gives_at_most_as_many() -> None:
    colors = noise(3, width=500, height=1)[0]
    assert 2 <= len(reduced(colors, 16)) <= 16


def test_grey_profiles_stay_with_grey(tmp_path: Path) -> None:
    grey = bytearray(PROFILE)
    grey[16:20] = b"GRAY"
    Image.fromarray(noise(1)).save(tmp_path / "in.png", icc_profile=bytes(grey))
    rework(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as image:
        assert image.info["icc_profile"] == bytes(grey)
