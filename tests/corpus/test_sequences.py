"""Images: animations and many pages are sequences; each picture is swapped and shown as long as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from tests.corpus.conftest import Bench
from tests.corpus.look import look
from tests.corpus.scene import Array, assert_only_box_changed, number_in, outside, scene

DURATIONS = [40, 100, 200, 40, 500]
PAGES = [Image.fromarray(scene(number)) for number in range(5)]


def pages(path: Path) -> tuple[list[Array], list[int], int | None]:
    """RGB of every picture, milliseconds of each, and how often it repeats."""
    with Image.open(path) as image:
        made = [
            (np.asarray(page.convert("RGB")), int(page.info.get("duration", 0)))
            for page in ImageSequence.Iterator(image)
        ]
        return [rgb for rgb, _ in made], [time for _, time in made], image.info.get("loop")


def assert_swapped(target: Path, made: Path, tolerance: int = 0) -> None:
    """The same pictures for the same times, each with another face."""
    (before, times, loop), (after, new_times, new_loop) = pages(target), pages(made)
    assert [number_in(rgb) for rgb in after] == [0, 1, 2, 3, 4]
    assert new_times == times
    assert new_loop == loop
    for old, new in zip(before, after, strict=True):
        if tolerance:
            keep = outside(240, 320)
            assert np.abs(old[keep].astype(int) - new[keep]).mean() <= tolerance
            assert np.abs(old[~keep].astype(int) - new[~keep]).mean() > 3
        else:
            assert_only_box_changed(old, new)


@pytest.mark.parametrize("loop", [0, 3])
def test_an_animated_webp(bench: Bench, tmp_path: Path, loop: int) -> None:
    target = tmp_path / "in.webp"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:], duration=DURATIONS, loop=loop, lossless=True)
    assert pages(target)[1:] == (DURATIONS, loop)
    assert_swapped(target, bench.swap(target, "out.webp"))
    assert bench.report.frames == 5


def test_an_animated_gif(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.gif"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:], duration=DURATIONS, loop=0)
    assert pages(target)[1:] == (DURATIONS, 0)
    assert_swapped(target, bench.swap(target, "out.gif"), tolerance=6)
    assert bench.report.frames == 5


def test_a_gif_as_a_video_keeps_its_times(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.gif"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:], duration=DURATIONS, loop=0)
    for name in ("out.mp4", "out.mkv"):
        after = look(bench.swap(target, name, encoder="libx264"))
        assert after.numbers == [0, 1, 2, 3, 4]
        starts = [sum(DURATIONS[:i]) / 1000 for i in range(5)]
        assert [float(t - after.times[0]) for t in after.times] == pytest.approx(starts, abs=0.0011)


def test_an_animated_webp_as_a_video_is_an_error(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.webp"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:], duration=DURATIONS, loop=0, lossless=True)
    bench.fails(target, "in.webp", "out.mp4", ".webp", name="out.mp4", code=2)


def test_a_tiff_of_many_pages(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.tif"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:])
    assert_swapped(target, bench.swap(target, "out.tif"))
    assert bench.report.frames == 5


def test_pages_of_different_sizes_are_an_error(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "in.tif"
    other = Image.fromarray(scene(1, width=400, height=300))
    PAGES[0].save(target, save_all=True, append_images=[other, PAGES[2]])
    bench.fails(target, "in.tif", "320×240", "400×300", name="out.tif")


def test_an_animation_as_one_photo_is_an_error(bench: Bench, tmp_path: Path) -> None:
    """A JPEG holds one picture: four must not be lost in silence."""
    target = tmp_path / "in.webp"
    PAGES[0].save(target, save_all=True, append_images=PAGES[1:], duration=DURATIONS, lossless=True)
    bench.fails(target, "in.webp", name="out.jpg", code=2)


def test_a_truncated_animation_is_an_error(bench: Bench, tmp_path: Path) -> None:
    whole = tmp_path / "whole.webp"
    PAGES[0].save(whole, save_all=True, append_images=PAGES[1:], duration=DURATIONS, lossless=True)
    target = tmp_path / "in.webp"
    target.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.7)])
    bench.fails(target, "in.webp", name="out.webp")
