"""Animations and pages written frame by frame, whole or not at all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mien.errors import OptionsError, OutputError
from mien.media import ImageFrame, SequenceReader, SequenceWriter, VideoWriter, open_reader, open_writer, probe
from mien.media.image_meta import ImageMeta
from mien.media.image_tiff import TiffWriter
from mien.media.image_webp import compression
from mien.media.info import MediaInfo
from mien.media.sequence_gif import GifMuxer
from mien.options import SwapOptions
from tests.media.clips import make_clip
from tests.media.pictures import PROFILE, Pixels, edit, frames, inside, noise, rework, save_all, shown_by_pillow, smooth
from tests.media.test_sequence import TIMES, apng_16, moving, sequence

QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = ["a.gif", "a.png", "a.webp"]
AWAY = ~inside(40, 60)


def opaque(array: Pixels) -> Pixels:
    """(H, W, 4), clear pixels black."""
    if array.shape[2] == 3:
        array = np.dstack([array, np.full(array.shape[:2], 255, array.dtype)])
    return np.where(array[..., 3:] > 0, array, 0)


def seconds(made: Sequence[ImageFrame]) -> list[Fraction | None]:
    return [frame.meta.duration for frame in made]


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("target", [".gif", ".png", ".webp"])
@pytest.mark.parametrize("name", NAMES)
def test_times_loops_and_pictures_are_kept(tmp_path: Path, name: str, target: str, alpha: bool) -> None:
    source = sequence(tmp_path / name, moving(alpha=alpha), **({"disposal": 2} if name == "a.gif" and alpha else {}))
    made = tmp_path / f"out{target}"
    notes = rework(source, made)
    assert notes == []
    old, new = frames(source), frames(made)
    assert seconds(new) == [Fraction(t, 1000) for t in TIMES]
    with open_reader(source) as before, open_reader(made) as after:
        assert isinstance(before, SequenceReader) and isinstance(after, SequenceReader)
        assert after.plays == before.plays
    exact = target != ".webp" or name == "a.webp"
    for a, b, pillow in zip(old, new, shown_by_pillow(made), strict=True):
        first, second = opaque(a.array), opaque(b.array)
        assert np.array_equal(second, opaque(pillow))
        assert np.array_equal(first[..., 3], second[..., 3])
        if exact:
            assert np.array_equal(first[AWAY], second[AWAY])
            seen = inside(40, 60) & (second[..., 3] > 0)
            assert (second[seen] == (191, 128, 64, 255)).all()
        else:
            assert np.abs(first[AWAY].astype(int) - second[AWAY]).mean() < 6


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_a_tiff_hold_the_frames_but_no_times(tmp_path: Path, name: str) -> None:
    source = sequence(tmp_path / name, moving(alpha=True), **({"disposal": 2} if name == "a.gif" else {}))
    notes = rework(source, tmp_path / "out.tif")
    assert notes == ["TIFF holds no times: only the order of the frames was kept"]
    for a, b in zip(frames(source), frames(tmp_path / "out.tif"), strict=True):
        assert np.array_equal(opaque(a.array)[AWAY], opaque(b.array)[AWAY])


@pytest.mark.parametrize("suffix", [".gif", ".png", ".webp"])
def test_pages_become_an_animation_of_a_second_each(tmp_path: Path, suffix: str) -> None:
    save_all(tmp_path / "a.tif", [picture // 64 * 64 for picture in moving(3)])
    notes = rework(tmp_path / "a.tif", tmp_path / f"out{suffix}")
    assert notes == ["pages have no times: each is shown for 1 s"]
    assert seconds(frames(tmp_path / f"out{suffix}")) == [1, 1, 1]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_each_page_keeps_its_mode_and_what_is_beside_its_pixels(tmp_path: Path, dtype: type) -> None:
    arrays = [noise(3, dtype), noise(4, dtype, seed=1)]
    with (tmp_path / "a.tif").open("w+b") as file:
        writer = TiffWriter(file)
        for i, array in enumerate(arrays):
            writer.add(array, tags={34675: PROFILE, 270: f"page {i}", 282: 100.0 + i, 283: 100.0, 296: 2})
        writer.add(noise(4), "CMYK")
        writer.add(np.where(noise(1) > 127, 255, 0).astype(np.uint8), "1")
    assert rework(tmp_path / "a.tif", tmp_path / "out.tif") == []
    made = frames(tmp_path / "out.tif")
    for i, (frame, array) in enumerate(zip(made[:2], arrays, strict=True)):
        assert frame.array.dtype == dtype
        assert np.array_equal(frame.array[~inside()], array[~inside()])
        assert frame.meta.icc == PROFILE and frame.meta.dpi == pytest.approx((100 + i, 100))
    with Image.open(tmp_path / "out.tif") as image:
        modes = []
        for page in range(4):
            image.seek(page)
            modes.append(image.mode)
            if page < 2:
                assert image.getexif()[270] == f"page {page}"
    assert modes == ["RGB", "RGBA", "CMYK", "1"]


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_profile_exif_and_xmp_of_an_animation_are_kept(tmp_path: Path, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    extra: dict[str, Any] = {"xmp": b"<x/>"} if suffix == ".webp" else {}
    source = sequence(tmp_path / f"a{suffix}", icc_profile=PROFILE, exif=exif.tobytes(), **extra)
    rework(source, tmp_path / f"out{suffix}")
    with Image.open(tmp_path / f"out{suffix}") as image:
        assert image.info["icc_profile"] == PROFILE
        assert image.getexif()[0x010F] == "Maker"
        assert image.info.get("xmp") == extra.get("xmp")


def test_a_deep_apng_stays_deep(tmp_path: Path) -> None:
    pictures = [noise(4, np.uint16, 30, 20, seed=i) for i in range(3)]
    (tmp_path / "a.png").write_bytes(apng_16([(picture, 0, 0, 0, 0) for picture in pictures], (30, 20)))
    rework(tmp_path / "a.png", tmp_path / "out.png")
    made = frames(tmp_path / "out.png")
    assert seconds(made) == [Fraction(1, 24)] * 3
    for frame, picture in zip(made, pictures, strict=True):
        assert frame.array.dtype == np.uint16
        assert np.array_equal(frame.array[~inside()], picture[~inside()])
        assert np.array_equal(frame.array[..., 3], picture[..., 3])
    assert rework(tmp_path / "a.png", tmp_path / "out.webp") == ["WEBP holds 8 bits: the photo's 16 were rounded"]


def test_lossy_webp_is_as_fine_as_it_was(tmp_path: Path) -> None:
    source = sequence(tmp_path / "a.webp", lossless=False, quality=99)
    rework(source, tmp_path / "out.webp", image_quality=20)
    known = compression((tmp_path / "out.webp").read_bytes())
    assert not known.lossless and known.quality >= 98


# GIF ------------------------------------------------------------------------------------------------------------


def written(path: Path, pictures: Sequence[tuple[Pixels, Pixels | None, int]], plays: int = 0) -> GifMuxer:
    with path.open("w+b") as file:
        height, width = pictures[0][0].shape[:2]
        muxer = GifMuxer(file, (width, height), plays)
        for picture in pictures:
            muxer.add(*picture)
        muxer.finish()
    return muxer


@QUIET
@given(st.data())
def test_a_gif_shows_any_pictures_of_few_colours(tmp_path: Path, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    width, height, count = (data.draw(st.integers(1, most)) for most in (20, 20, 6))
    colors = rng.integers(0, 256, (data.draw(st.integers(1, 200)), 4)).astype(np.uint8)
    colors[:, 3] = rng.choice([0, 255], len(colors)) if data.draw(st.booleans()) else 255
    pictures = [colors[rng.integers(0, len(colors), (height, width))] for _ in range(count)]
    for i in range(1, count):
        if data.draw(st.booleans()):  # parts that stay
            pictures[i][: height // 2] = pictures[i - 1][: height // 2]
    times = [data.draw(st.integers(0, 300)) for _ in range(count)]
    plays = data.draw(st.integers(0, 5))
    muxer = written(tmp_path / "a.gif", [(p, None, t) for p, t in zip(pictures, times, strict=True)], plays)
    assert muxer.reduced == muxer.hardened == 0
    shown = [np.asarray(frame.array) for frame in frames(tmp_path / "a.gif")] if count > 1 else []
    for got in (shown, shown_by_pillow(tmp_path / "a.gif")):
        for picture, expected in zip(got, pictures, strict=bool(got)):
            assert np.array_equal(opaque(picture), opaque(expected))
    if count > 1:
        assert seconds(frames(tmp_path / "a.gif")) == [Fraction(t, 100) for t in times]


def test_ffmpeg_shows_the_same_gif(tmp_path: Path) -> None:
    pictures = [opaque(picture) for picture in moving()]
    written(tmp_path / "a.gif", [(picture, None, 4) for picture in pictures])
    with av.open(str(tmp_path / "a.gif")) as container:
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for got, expected in zip(shown, pictures, strict=True):
        assert np.array_equal(got, expected[..., :3])


def test_unchanged_colours_come_first_in_a_full_palette(tmp_path: Path) -> None:
    base = np.zeros((40, 60, 4), np.uint8)
    base[..., 3] = 255
    base[..., 0] = (np.arange(2400) % 250).reshape(40, 60)
    changed = base.copy()
    changed[inside(40, 60), :3] = smooth()[inside(40, 60)]
    muxer = written(tmp_path / "a.gif", [(changed, base, 4), (base, base, 4)])
    assert muxer.reduced == 1
    first, second = (frame.array for frame in frames(tmp_path / "a.gif"))
    assert np.array_equal(first[AWAY], base[AWAY])
    assert np.array_equal(second, base)
    wanted, got = changed[~AWAY][:, :3].astype(float).mean(0), first[~AWAY][:, :3].astype(float).mean(0)
    assert np.abs(wanted - got).max() < 100


def test_what_a_gif_cannot_hold_is_told(tmp_path: Path) -> None:
    pictures = [np.dstack([smooth(seed=i), np.full((40, 60), 128, np.uint8)]) for i in range(2)]
    source = save_all(tmp_path / "a.png", pictures, duration=10)
    assert rework(source, tmp_path / "out.gif") == [
        "2 of 2 frames have more colours than GIF holds: dithered",
        "GIF holds no half transparency: 2 frames were made opaque or clear",
        "2 frames last under 0.02 s, too short for GIF viewers; use --fps 50 or .webp",
    ]
    for frame, picture in zip(frames(tmp_path / "out.gif"), pictures, strict=True):
        assert (frame.array[..., 3] == 255).all()
        assert np.abs(frame.array[AWAY][:, :3].astype(int) - picture[AWAY][:, :3]).mean() < 12


def test_times_do_not_drift(tmp_path: Path) -> None:
    source = save_all(tmp_path / "a.png", [smooth(seed=i) // 64 * 64 for i in range(30)], duration=1000 / 30)
    rework(source, tmp_path / "out.gif")
    assert sum(t for t in seconds(frames(tmp_path / "out.gif")) if t is not None) == 1
    rework(source, tmp_path / "out.webp")
    assert sum(t for t in seconds(frames(tmp_path / "out.webp")) if t is not None) == 1
    rework(source, tmp_path / "out.png")
    assert seconds(frames(tmp_path / "out.png")) == [Fraction(1, 30)] * 30


# Videos ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png"])
def test_a_video_becomes_an_animation(tmp_path: Path, suffix: str) -> None:
    clip = make_clip(tmp_path / "clip.mkv", pts=[0, 40, 80, 200, 240], time_base=Fraction(1, 1000), audio="aac")
    out = tmp_path / f"out{suffix}"
    with open_reader(clip, output=out) as reader, open_writer(out, reader, SwapOptions()) as writer:
        assert isinstance(writer, SequenceWriter)
        shown = []
        for frame in reader:
            shown.append(np.array(frame.read(frame.box)))
            writer.write(frame)
    assert f"{ {'.gif': 'GIF', '.webp': 'WEBP', '.png': 'PNG'}[suffix] } holds only pictures" in writer.notes[0]
    made = frames(out)
    assert seconds(made)[:4] == [Fraction(t, 100) for t in (4, 4, 12, 4)]
    for frame, expected in zip(made, shown, strict=True):
        error = np.abs(frame.array[..., :3].astype(int) - expected)
        assert error.mean() < (0.01 if suffix == ".png" else 8)


def test_a_gif_becomes_a_video(tmp_path: Path) -> None:
    source = sequence(tmp_path / "a.gif")
    out, options = tmp_path / "out.mp4", SwapOptions(preset="veryfast")
    with open_reader(source, options, output=out) as reader, open_writer(out, reader, options) as writer:
        assert isinstance(writer, VideoWriter)
        for frame in reader:
            writer.write(frame)
    assert (probe(out).kind, probe(out).frames) == ("video", 5)


def test_hdr_videos_only_go_to_videos(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mkv", pts=range(2), color=(9, 1, 9, 16))
    with open_reader(clip) as reader, pytest.raises(OptionsError, match=r"clip\.mkv is HDR, .*; use \.mp4 or \.mkv"):
        open_writer(tmp_path / "out.gif", reader, SwapOptions())


def test_a_video_has_no_pages_and_no_one_picture(tmp_path: Path) -> None:
    reader = open_reader(make_clip(tmp_path / "clip.mp4", pts=range(3)))
    for suffix in (".tif", ".jpg", ".bmp"):
        with pytest.raises(OptionsError, match=r"clip\.mp4 is a video, .* would be a photo; use \.mp4.*\.gif"):
            open_writer(tmp_path / f"out{suffix}", reader, SwapOptions())


# Whole or not at all --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "a.tif"])
def test_nothing_is_left_of_what_is_not_finished(tmp_path: Path, name: str) -> None:
    source, out = sequence(tmp_path / name), tmp_path / f"out{Path(name).suffix}"
    out.write_bytes(b"precious")
    with open_reader(source) as reader:
        with pytest.raises(KeyboardInterrupt), open_writer(out, reader, SwapOptions()) as writer:
            for frame in reader:
                writer.write(frame)
                if frame.index == 3:
                    raise KeyboardInterrupt
        with pytest.raises(OutputError, match="no frame was given"), open_writer(out, reader, SwapOptions()):
            pass
        with pytest.raises(OutputError, match="already closed"):
            writer.write(next(iter(reader)))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, out.name])
    assert out.read_bytes() == b"precious"


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source = sequence(tmp_path / "a.gif")
    monkeypatch.setattr(GifMuxer, "_picture", full)
    with pytest.raises(OutputError, match=r"out\.gif: cannot be written \(No space left on device\); check the disk"):
        rework(source, tmp_path / "out.gif")
    assert [p.name for p in tmp_path.iterdir()] == ["a.gif"]


def test_frames_of_another_kind_are_refused_by_apng(tmp_path: Path) -> None:
    with open_reader(sequence(tmp_path / "a.png")) as reader, open_writer(tmp_path / "out.png", reader) as writer:
        writer.write(ImageFrame(smooth()))
        writer.write(ImageFrame(noise(4, width=60, height=40)))
        with pytest.raises(OutputError, match=r"out\.png: .*the frames are not all of one kind"):
            writer.write(ImageFrame(smooth()))


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".tif"])
def test_memory_is_flat(tmp_path: Path, suffix: str) -> None:
    info = MediaInfo(Path("x"), "sequence", "gif", "gif", "P", 8, 64, 64)
    peaks = []
    for count in (4, 40):
        reader = open_reader(sequence(tmp_path / "a.gif"))
        assert isinstance(reader, SequenceReader)
        reader.info = info
        with open_writer(tmp_path / f"out{suffix}", reader) as writer:
            tracemalloc.start()
            for i in range(count):
                frame = ImageFrame(noise(3, width=64, height=64, seed=i) // 64 * 64)
                frame.meta = ImageMeta(duration=Fraction(1, 10))
                writer.write(frame)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5 + 50_000


def test_edits_of_still_parts_are_kept(tmp_path: Path) -> None:
    still = [smooth() // 64 * 64] * 3
    source = save_all(tmp_path / "a.png", [*still, still[0] // 2], duration=50)  # Pillow drops frames that repeat
    reader = open_reader(source)
    with open_writer(tmp_path / "out.gif", reader) as writer:
        for frame in reader:
            assert isinstance(frame, ImageFrame)
            edit(frame, (0.1 * frame.index, 0.5, 0.5))
            writer.write(frame)
    for i, frame in enumerate(frames(tmp_path / "out.gif")):
        assert (frame.array[inside(40, 60)][:, 0] == round(25.5 * i)).all()
