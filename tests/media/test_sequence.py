"""Animations and pages read as whole pictures with exact times."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mien.errors import InputError, MediaError, OptionsError
from mien.media import ImageFrame, SequenceReader, VideoReader, open_reader, probe
from mien.media.image_tiff import TiffWriter
from mien.media.sequence_timeline import Canvas, Piece
from mien.options import AnalyzeOptions
from mien.types import Box
from tests.media.pictures import Pixels, frames, noise, png_chunk, save_all, shown_by_pillow, smooth

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TIMES = [30, 50, 100, 20, 2000]


def moving(count: int = 5, alpha: bool = False) -> list[Pixels]:
    """Pictures with a square that moves over soft colours."""
    made = []
    for i in range(count):
        picture = smooth() // 32 * 32  # few colours, so that palettes are exact
        picture[10:20, 5 + 8 * i : 15 + 8 * i] = (255, 40 * i, 0)
        if alpha:
            clear = np.where(np.arange(60) < 20 + 4 * i, 0, 255).astype(np.uint8)
            picture = np.dstack([picture, np.broadcast_to(clear, (40, 60))])
        made.append(picture)
    return made


def sequence(path: Path, arrays: Sequence[Pixels] | None = None, **keywords: object) -> Path:
    keywords = {"duration": TIMES, "loop": 3, **keywords}
    if path.suffix == ".webp":
        keywords = {"lossless": True, "exact": True, **keywords}
    return save_all(path, moving() if arrays is None else arrays, **keywords)


@pytest.mark.parametrize(("name", "plays"), [("a.gif", 4), ("a.png", 3), ("a.webp", 3)])
def test_an_animation_is_described_and_read(tmp_path: Path, name: str, plays: int) -> None:
    path = sequence(tmp_path / name)
    info = probe(path)
    assert (info.kind, info.frames, info.width, info.height) == ("sequence", 5, 60, 40)
    assert info.duration == pytest.approx(2.2)
    assert info.fps == Fraction(5) / Fraction(22, 10)
    with open_reader(path) as reader:
        assert isinstance(reader, SequenceReader)
        assert (reader.kind, reader.frame_count, reader.plays, reader.notes) == ("sequence", 5, plays, ())
        made = list(reader)
        again = list(reader)
    assert [frame.index for frame in made] == [0, 1, 2, 3, 4]
    assert [frame.time for frame in made] == [Fraction(t, 1000) for t in (0, 30, 80, 180, 200)]
    assert [frame.meta.duration for frame in made] == [Fraction(t, 1000) for t in TIMES]
    for frame, other, expected in zip(made, again, moving(), strict=True):
        assert np.array_equal(frame.array[..., :3], expected)
        assert np.array_equal(other.array, frame.array)


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
def test_frames_are_what_pillow_shows(tmp_path: Path, name: str, alpha: bool) -> None:
    path = sequence(tmp_path / name, moving(alpha=alpha), **({"disposal": 2} if name == "a.gif" and alpha else {}))
    for frame, expected in zip(frames(path), shown_by_pillow(path), strict=True):
        seen = expected[..., 3] > 0
        assert np.array_equal(frame.array[seen][:, :3], expected[seen][:, :3])
        if frame.array.shape[2] == 4:
            assert np.array_equal(frame.array[..., 3], expected[..., 3])


def gif(
    pictures: Sequence[tuple[Box, int, int, int | None]], size: tuple[int, int] = (8, 6), tail: bytes = b";"
) -> bytes:
    """A GIF by hand. Each picture: its box, one index that fills it, its disposal, its transparent index."""
    made = b"GIF89a" + struct.pack("<HHBBB", *size, 0x81, 0, 0) + bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    for box, index, disposal, clear in pictures:
        control = struct.pack("<BBBBHBB", 0x21, 0xF9, 4, disposal << 2 | (clear is not None), 7, clear or 0, 0)
        head = struct.pack("<BHHHHB", 0x2C, box.x0, box.y0, box.width, box.height, 0)
        # Codes of 3 bits, with a clear code before each pixel so that they stay so: 4 is clear, 5 is the end.
        codes = [code for _ in range(box.width * box.height) for code in (4, index)] + [5]
        bits = sum(code << 3 * i for i, code in enumerate(codes))
        data = bits.to_bytes(-(-len(codes) * 3 // 8), "little")
        blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255))
        made += control + head + b"\x02" + blocks + b"\0"
    return made + tail


WHOLE, PART = Box(0, 0, 8, 6), Box(2, 1, 5, 4)
CLEAR, RED, GREEN, BLUE = (0, 0, 0, 0), (255, 0, 0, 255), (0, 255, 0, 255), (0, 0, 255, 255)


@pytest.mark.parametrize(
    ("disposal", "below"), [(0, GREEN), (1, GREEN), (2, CLEAR), (3, RED)], ids=["none", "keep", "clear", "restore"]
)
def test_gif_disposal(tmp_path: Path, disposal: int, below: tuple[int, ...]) -> None:
    corner = Box(7, 5, 8, 6)
    (tmp_path / "a.gif").write_bytes(gif([(WHOLE, 1, 1, None), (PART, 2, disposal, None), (corner, 3, 1, None)]))
    first, second, third = frames(tmp_path / "a.gif")
    assert (first.array == RED).all()
    assert (second.array[1:4, 2:5] == GREEN).all() and (second.array[0] == RED).all()
    assert (third.array[1:4, 2:5] == below).all()
    assert (third.array[5, 7] == BLUE).all() and (third.array[0] == RED).all()
    assert first.meta.duration == Fraction(7, 100)


def test_gif_canvas_begins_clear_and_transparent_pixels_show_what_is_below(tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_bytes(gif([(PART, 1, 1, None), (WHOLE, 2, 1, 2), (PART, 3, 1, 0)]))
    first, second, third = frames(tmp_path / "a.gif")
    assert (first.array[0] == CLEAR).all() and (first.array[1:4, 2:5] == RED).all()
    assert np.array_equal(second.array, first.array)
    assert (third.array[1:4, 2:5] == BLUE).all()


def test_a_gif_without_end_mark_is_read_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_bytes(gif([(WHOLE, 1, 1, None), (PART, 2, 1, None)], tail=b""))
    with open_reader(tmp_path / "a.gif") as reader:
        assert isinstance(reader, SequenceReader)
        assert len(list(reader)) == 2
        assert reader.notes == ("the GIF has no end mark; frames after its last one may be missing",)


def apng_16(pictures: Sequence[tuple[Pixels, int, int, int, int]], size: tuple[int, int] = (8, 6)) -> bytes:
    """An RGBA APNG of 16 bits by hand. Each picture: its samples, x, y, disposal, blend; shown for 1/24 s."""
    made = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 16, 6, 0, 0, 0))
    made += png_chunk(b"acTL", struct.pack(">II", len(pictures), 0))
    sequence = 0
    for i, (array, x, y, disposal, blend) in enumerate(pictures):
        height, width = array.shape[:2]
        control = struct.pack(">IIIIIHHBB", sequence, width, height, x, y, 1, 24, disposal, blend)
        data = zlib.compress(b"".join(b"\0" + row.astype(">u2").tobytes() for row in array))
        made += png_chunk(b"fcTL", control)
        sequence += 1
        if i:
            made += png_chunk(b"fdAT", struct.pack(">I", sequence) + data)
            sequence += 1
        else:
            made += png_chunk(b"IDAT", data)
    return made + png_chunk(b"IEND", b"")


def test_a_deep_apng_is_exact_and_blended(tmp_path: Path) -> None:
    base = noise(4, np.uint16, 8, 6)
    base[..., 3] = 65535
    over = np.zeros((2, 3, 4), np.uint16)
    over[0], over[1, :, 3] = (65535, 0, 257, 65535), 32768
    (tmp_path / "a.png").write_bytes(apng_16([(base, 0, 0, 0, 0), (over, 2, 1, 2, 1), (over, 0, 0, 0, 0)]))
    first, second, third = frames(tmp_path / "a.png")
    assert first.array.dtype == np.uint16 and np.array_equal(first.array, base)
    assert (second.array[1, 2:5] == (65535, 0, 257, 65535)).all()
    half = base[2, 2:5].astype(float) * (1 - 32768 / 65535)
    assert np.abs(second.array[2, 2:5, :3] - half[:, :3]).max() <= 1 and (second.array[2, 2:5, 3] == 65535).all()
    assert np.array_equal(second.array[3:], base[3:])
    assert np.array_equal(third.array[:2, :3], over)  # replaces, and the box before it was restored
    assert np.array_equal(third.array[2:, 2:], base[2:, 2:])
    assert [frame.time for frame in (first, second, third)] == [0, Fraction(1, 24), Fraction(1, 12)]


def test_an_apng_that_misses_frames_is_an_error(tmp_path: Path) -> None:
    data = bytearray(sequence(tmp_path / "a.png").read_bytes())
    at = data.index(b"acTL")
    data[at - 4 : at + 16] = png_chunk(b"acTL", struct.pack(">II", 6, 0))
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(MediaError, match=r"a\.png: .*5 of 6 frames are there"):
        probe(tmp_path / "a.png")


# Pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pages_have_no_times(tmp_path: Path, dtype: type) -> None:
    arrays = [noise(3, dtype, seed=i) for i in range(3)]
    with (tmp_path / "a.tif").open("w+b") as file:
        writer = TiffWriter(file)
        writer.add(arrays[0])
        writer.add(noise(3, dtype, 6, 4), tags={254: 1})  # a small copy
        writer.add(arrays[1])
        writer.add(arrays[2])
    assert (probe(tmp_path / "a.tif").kind, probe(tmp_path / "a.tif").frames) == ("sequence", 3)
    for frame, expected in zip(frames(tmp_path / "a.tif"), arrays, strict=True):
        assert (frame.time, frame.meta.duration) == (None, None)
        assert np.array_equal(frame.array, expected)
    for options in ({"trim": "1-"}, {"fps": "5"}, {"max_seconds": 1.0}):
        with pytest.raises(OptionsError, match=r"a\.tif: its pages have no times; leave out trim, max_seconds and fps"):
            open_reader(tmp_path / "a.tif", AnalyzeOptions(**options))


def test_pages_of_several_modes(tmp_path: Path) -> None:
    images = [
        Image.fromarray(smooth()),
        Image.fromarray(smooth()).quantize(9),
        Image.fromarray(smooth()).convert("CMYK"),
    ]
    images[0].save(tmp_path / "a.tif", save_all=True, append_images=images[1:])
    made = frames(tmp_path / "a.tif")
    for frame, image in zip(made, images, strict=True):
        assert np.array_equal(frame.array, np.asarray(image.convert("RGB")))
    assert [frame.meta.native.mode if frame.meta.native else None for frame in made] == [None, "P", "CMYK"]


def test_pages_of_different_sizes_are_an_error(tmp_path: Path) -> None:
    save_all(tmp_path / "a.tif", [smooth(), smooth(30, 20)])
    with pytest.raises(MediaError, match=r"a\.tif: its 2 pages differ in size \(30×20, 60×40\); split it into photos"):
        probe(tmp_path / "a.tif")


# Options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "numbers", "times", "durations"),
    [
        ({"trim": "0.03-0.18"}, [1, 2], [0, 50], [50, 100]),
        ({"trim": "0.05-"}, [1, 2, 3, 4], [0, 30, 130, 150], [30, 100, 20, 2000]),
        ({"trim": "-0.1"}, [0, 1, 2], [0, 30, 80], [30, 50, 20]),
        ({"max_seconds": 0.08}, [0, 1], [0, 30], [30, 50]),
        ({"trim": "0.08-", "max_seconds": 0.11}, [2, 3], [0, 100], [100, 10]),
        ({"fps": "10", "max_seconds": 0.4}, [0, 2, 4, 4], [0, 100, 200, 300], [100] * 4),
    ],
)
@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
def test_times_are_cut_and_resampled(
    tmp_path: Path, name: str, options: dict[str, object], numbers: list[int], times: list[int], durations: list[int]
) -> None:
    made = frames(sequence(tmp_path / name), **options)
    pictures = moving()
    assert [frame.time for frame in made] == [Fraction(t, 1000) for t in times]
    assert [frame.meta.duration for frame in made] == [Fraction(t, 1000) for t in durations]
    for frame, number in zip(made, numbers, strict=True):
        assert np.array_equal(frame.array[..., :3], pictures[number])


def test_a_cut_beyond_the_end_says_so(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"a\.gif: lasts 2\.2 s, so nothing is left of it; choose another trim"):
        open_reader(sequence(tmp_path / "a.gif"), AnalyzeOptions(trim="3-4"))


def test_repeated_frames_do_not_share_their_pixels(tmp_path: Path) -> None:
    first, second = frames(sequence(tmp_path / "a.webp"), fps="100", max_seconds=0.02)
    first.array[:] = 0
    assert second.array.any()


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_scale(tmp_path: Path, name: str) -> None:
    path = sequence(tmp_path / name)
    for frame, expected in zip(frames(path, scale="30x"), moving(), strict=True):
        assert (frame.width, frame.height) == (30, 20)
        small = Image.fromarray(expected).resize((30, 20), Image.Resampling.BOX)
        assert np.abs(frame.array[..., :3].astype(int) - np.asarray(small)).max() <= 1


def test_limits(tmp_path: Path) -> None:
    for name in ("a.gif", "a.png", "a.webp", "a.tif"):
        path = sequence(tmp_path / name)
        with pytest.raises(MediaError, match="raise max_pixels"):
            open_reader(path, AnalyzeOptions(max_pixels=2399))
        if name != "a.tif":
            with pytest.raises(MediaError, match="raise max_duration"):
                open_reader(path, AnalyzeOptions(max_duration=2.0))
            with pytest.raises(MediaError, match="raise max_fps"):
                open_reader(path, AnalyzeOptions(max_fps=2))
        assert len(list(open_reader(path, AnalyzeOptions(max_pixels=2400, max_duration=3, max_fps=3)))) == 5


def test_an_animated_avif_is_a_video(tmp_path: Path) -> None:
    grey = [np.full((48, 64, 3), 40 * i, np.uint8) for i in range(1, 4)]
    with open_reader(save_all(tmp_path / "a.avif", grey, duration=[100, 200, 50])) as reader:
        assert isinstance(reader, VideoReader)
        shown = [(frame.time, int(frame.read(frame.box).mean())) for frame in reader]
    assert shown == [(0, 40), (Fraction(1, 10), 80), (Fraction(3, 10), 120)]
    clear = [np.dstack([picture, picture[..., :1]]) for picture in grey]
    with pytest.raises(MediaError, match="animated AVIF with transparency is not supported; convert it to WebP"):
        probe(save_all(tmp_path / "b.avif", clear, duration=100))


def test_only_a_video_output_makes_a_video_of_an_animation(tmp_path: Path) -> None:
    for name in ("a.gif", "a.png"):
        path = sequence(tmp_path / name)
        assert isinstance(open_reader(path, output=tmp_path / "out.mp4"), VideoReader)
        for output in (None, tmp_path / "out.gif", tmp_path / "out.webp"):
            assert isinstance(open_reader(path, output=output), SequenceReader)
    for name in ("a.webp", "a.tif"):
        with pytest.raises(OptionsError, match=r"out\.mkv would be a video; use \.gif, \.webp, \.png, \.tif"):
            open_reader(sequence(tmp_path / name), output=tmp_path / "out.mkv")


# Damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_cut_sequences_are_one_clear_error(tmp_path: Path, name: str, share: float) -> None:
    data = sequence(tmp_path / name).read_bytes()
    (tmp_path / "cut").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(MediaError) as caught:
        list(open_reader(tmp_path / "cut"))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'cut'}: ") and "; " in text and "\n" not in text


@QUIET
@given(st.sampled_from(["a.gif", "a.png", "a.webp", "a.tif"]), st.integers(0, 2**32))
def test_flipped_bits_are_frames_or_one_clear_error(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    data = bytearray(path.read_bytes() if path.exists() else sequence(path).read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(min(len(data), chance.choice((100, 10_000))))] ^= 1 << chance.randrange(8)
    (tmp_path / "flipped").write_bytes(data)
    try:
        sizes = {(f.width, f.height) for f in open_reader(tmp_path / "flipped", AnalyzeOptions(max_pixels=1_000_000))}
        assert len(sizes) == 1
    except InputError as error:
        assert str(error).startswith(f"{tmp_path / 'flipped'}: ") and "\n" not in str(error)


def test_frames_are_copies_and_an_iteration_can_be_left(tmp_path: Path) -> None:
    canvas = Canvas((4, 4, 4), np.uint8)
    piece = Piece(Box(0, 0, 4, 4), Fraction(1), "keep", True, ())
    first = canvas.draw(piece, np.full((4, 4, 4), 255, np.uint8))
    canvas.draw(piece, np.full((4, 4, 4), (1, 2, 3, 255), np.uint8))
    assert (first == 255).all()  # what was given stays as it was
    reader = iter(open_reader(sequence(tmp_path / "a.gif")))
    assert isinstance(next(reader), ImageFrame)
    reader.close()  # type: ignore[attr-defined]


def test_a_control_chunk_of_another_size_is_one_error(tmp_path: Path) -> None:
    data = apng_16([(np.zeros((6, 8, 4), np.uint16), 0, 0, 0, 0)] * 2, (8, 6))
    at = data.index(b"fcTL")
    (tmp_path / "a.png").write_bytes(data[: at - 4] + png_chunk(b"fcTL", b"short") + data[at + 34 :])
    with pytest.raises(MediaError, match=r"a\.png: is a damaged or truncated photo"):
        list(open_reader(tmp_path / "a.png"))
