"""Colour: what the samples mean is kept, the face has the same colours in every coding, all else is untouched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from tests.corpus.colours import HLG, PQ, display_p3, to_hdr, to_sdr
from tests.corpus.conftest import Bench
from tests.corpus.film import BT601, BT709, film
from tests.corpus.look import assert_untouched, look
from tests.corpus.scene import PATCH, Array, Pixels, assert_only_box_changed, outside, scene, stamp

LOSSLESS: dict[str, Any] = {"codec": "ffv1", "options": {"level": "3"}}
FACE = (slice(PATCH[1], PATCH[3]), slice(PATCH[0], PATCH[2]))


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory, models: object, person: object) -> Pixels:
    """(240, 320, 3) RGB: the scene with the new face, by way of PNG."""
    import mien

    folder = tmp_path_factory.mktemp("plain")
    cv2.imwrite(str(folder / "in.png"), scene()[:, :, ::-1])
    mien.swap(person, folder / "in.png", folder / "out.png", zoo=models)  # type: ignore[arg-type]
    image = cv2.imread(str(folder / "out.png"))
    assert image is not None
    made = np.asarray(image[:, :, ::-1], np.uint8)
    assert_only_box_changed(scene(), made)
    return made


def rgb_frames(path: Path, name: str = "rgb24") -> list[Array]:
    """The frames as RGB, by the matrix and range that the file tells."""
    with av.open(str(path)) as container:
        made = []
        for frame in container.decode(video=0):
            matrix = {1: 1, 9: 9}.get(int(frame.colorspace), 5)
            rgb = frame.reformat(format=name, src_colorspace=matrix, dst_color_range=2)
            made.append(rgb.to_ndarray(format=name))
        return made


def assert_same_face(wanted: Pixels, made: Array, before: Pixels, tolerance: float) -> None:
    """The new face is `wanted`'s, within a mean of `tolerance` levels, and the old one was another."""
    changed = np.abs(wanted[FACE].astype(float) - before[FACE]).max(-1) > 10
    off = np.abs(made[FACE].astype(float) - wanted[FACE])[changed].mean()
    was = np.abs(before[FACE].astype(float) - wanted[FACE])[changed].mean()
    assert off < tolerance < was, f"{off:.1f} levels off; the old face was {was:.1f} off"


CODINGS = {
    "BT.709": ("yuv420p", BT709),
    "full range": ("yuv420p", (1, 2, 1, 1)),
    "BT.601 SD": ("yuv420p", BT601),
    "BT.601 SD, 625 lines": ("yuv420p", (5, 1, 5, 6)),
    "4:2:2": ("yuv422p", BT709),
    "4:4:4": ("yuv444p", BT709),
    "4:2:0, 10 bit": ("yuv420p10le", BT709),
    "4:2:2, 10 bit": ("yuv422p10le", BT709),
    "untagged SD": ("yuv420p", None),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_every_coding_gets_the_same_face(bench: Bench, tmp_path: Path, swapped: Pixels, coding: str) -> None:
    pixel_format, color = CODINGS[coding]
    target = film(tmp_path / "in.mkv", pts=range(3), pixel_format=pixel_format, color=color, **LOSSLESS)
    made = bench.swap(target)
    before, after = look(target), look(made)
    assert after.numbers == [0, 1, 2]
    assert after.color == before.color == (color or before.color)
    assert_untouched(before, after)
    assert_same_face(swapped, rgb_frames(made)[0], scene(), 6)


def test_grey_clips_stay_grey(bench: Bench, tmp_path: Path, swapped: Pixels) -> None:
    target = film(tmp_path / "in.mkv", pts=range(3), pixel_format="gray", color=None, **LOSSLESS)
    made = bench.swap(target)
    before, after = look(target), look(made)
    assert (after.pixel_format, after.numbers) == ("gray", [0, 1, 2])
    assert_untouched(before, after)
    grey = cv2.cvtColor(swapped, cv2.COLOR_RGB2GRAY)
    off = np.abs(rgb_frames(made)[0][..., 0].astype(float) - grey)[FACE]
    assert off.mean() < 8


@pytest.mark.parametrize("transfer", [PQ, HLG], ids=["PQ", "HLG"])
def test_hdr_gets_the_same_face_and_stays_hdr(bench: Bench, tmp_path: Path, swapped: Pixels, transfer: int) -> None:
    def draw(number: int) -> Array:
        made = to_hdr(scene(number), transfer)
        stamp(made, number)
        return made

    color = (9, 1, 9, transfer)
    target = film(tmp_path / "in.mkv", pts=range(3), pixel_format="yuv420p10le", color=color, draw=draw, **LOSSLESS)
    made = bench.swap(target)
    before, after = look(target), look(made)
    assert after.color == before.color == color
    assert after.pixel_format == "yuv420p10le"
    assert after.numbers == [0, 1, 2]
    assert_untouched(before, after)
    assert_same_face(swapped, to_sdr(rgb_frames(made, "rgb48le")[0], transfer), scene(), 8)


def test_hdr_is_told_in_mp4_too(bench: Bench, tmp_path: Path) -> None:
    def draw(number: int) -> Array:
        made = to_hdr(scene(number), PQ)
        stamp(made, number)
        return made

    color = (9, 1, 9, PQ)
    options = {"x265-params": "lossless=1:log-level=none", "preset": "ultrafast"}
    target = film(
        tmp_path / "in.mp4", pts=range(3), codec="libx265", options=options, pixel_format="yuv420p10le", color=color,
        draw=draw,
    )  # fmt: skip
    before, after = look(target), look(bench.swap(target, "out.mp4", crf=0))
    assert (after.color, after.pixel_format, after.numbers) == (color, "yuv420p10le", [0, 1, 2])
    keep = outside(240, 320)
    for old, new in zip(before.shots, after.shots, strict=True):
        # At 10 bits, x264's CRF 0 is nearly lossless.
        assert np.abs(old.planes[0][keep].astype(float) - new.planes[0][keep]).max() <= 8


def clear(number: int) -> Pixels:
    """The scene with a transparency that goes from 0 to 255 over its width."""
    alpha = np.tile(np.linspace(0, 255, 320).astype(np.uint8), (240, 1))
    return np.dstack([scene(number), alpha])


def test_alpha_of_vp9_is_kept(bench: Bench, tmp_path: Path) -> None:
    options = {"crf": "10", "b": "0", "deadline": "realtime", "cpu-used": "8", "auto-alt-ref": "0"}
    target = film(
        tmp_path / "in.webm", pts=range(3), codec="libvpx-vp9", options=options, pixel_format="yuva420p", draw=clear
    )
    for name in ("out.mkv", "out.webm"):
        made = bench.swap(target, name)
        before, after = vp9_planes(target), vp9_planes(made) if name.endswith("webm") else decoded(made)
        assert len(after) == len(before) == 3
        for old, new in zip(before, after, strict=True):
            assert len(new) == len(old) == 4
            assert old[3].min() < 20
            assert old[3].max() > 235
            if name.endswith("mkv"):
                assert np.array_equal(old[3], new[3])
                keep = outside(240, 320)
                assert np.array_equal(old[0][keep], new[0][keep])
            else:
                assert np.abs(old[3].astype(float) - new[3]).mean() < 3
            assert np.abs(old[0][FACE].astype(float) - new[0][FACE]).mean() > 3


def vp9_planes(path: Path) -> list[list[Array]]:
    """Frames by libvpx, which alone decodes the alpha of VP9."""
    from tests.media.clips import planes

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        context = av.CodecContext.create("libvpx-vp9", "r")
        context.extradata = stream.codec_context.extradata
        frames = [f for packet in container.demux(stream) if packet.size for f in context.decode(packet)]
        return [planes(f) for f in [*frames, *context.decode(None)] if isinstance(f, av.VideoFrame)]


def decoded(path: Path) -> list[list[Array]]:
    """Planes of every frame."""
    return [shot.planes for shot in look(path, numbers=False).shots]


@pytest.mark.parametrize("name", ["out.mkv", "out.mov"])
def test_alpha_of_prores_4444_is_kept(bench: Bench, tmp_path: Path, name: str) -> None:
    options = {"profile": "4444", "alpha_bits": "16"}
    target = film(
        tmp_path / "in.mov", pts=range(3), codec="prores_ks", options=options, pixel_format="yuva444p10le", draw=clear
    )
    before = look(target)
    assert before.pixel_format.startswith("yuva444p")
    made = bench.swap(target, name, **({} if name.endswith("mkv") else {"encoder": "prores_ks"}))
    after = look(made)
    assert after.numbers == [0, 1, 2]
    assert after.pixel_format == before.pixel_format
    if name.endswith("mkv"):
        assert_untouched(before, after)
    for old, new in zip(before.shots, after.shots, strict=True):
        assert np.array_equal(old.planes[3], new.planes[3])
        assert np.abs(old.planes[0][FACE].astype(float) - new.planes[0][FACE]).mean() > 8


def test_display_p3_is_kept(bench: Bench, tmp_path: Path, swapped: Pixels) -> None:
    profile = display_p3()
    target = tmp_path / "in.jpg"
    Image.fromarray(scene()).save(target, quality=97, subsampling=0, icc_profile=profile)
    with Image.open(target) as image:
        before = np.asarray(image)
    for name in ("out.png", "out.jpg", "out.webp", "out.tif"):
        with Image.open(bench.swap(target, name)) as image:
            assert image.info["icc_profile"] == profile
            after = np.asarray(image)
        if name == "out.png":
            assert_only_box_changed(before, after)
        assert_same_face(swapped, after, scene(), 8)


def test_pixels_outside_the_face_are_the_decoder_s_own(bench: Bench, tmp_path: Path) -> None:
    """A clip of P- and B-frames, where an edit that leaks into a reference would damage later frames."""
    options = {"crf": "30", "bf": "3", "refs": "4", "g": "250"}
    target = film(tmp_path / "in.mp4", pts=range(25), options=options)
    before, after = look(target), look(bench.swap(target))
    assert after.numbers == list(range(25))
    assert_untouched(before, after)


def test_a_clip_with_faces_in_some_frames_changes_only_those(bench: Bench, tmp_path: Path) -> None:
    def draw(number: int) -> Pixels:
        return scene(number, name="male_036" if number >= 6 else None)

    target = film(tmp_path / "in.mp4", pts=range(12), draw=draw)
    before, after = look(target), look(bench.swap(target))
    assert_untouched(before, after, faces=False)
    changed = [
        any(not np.array_equal(a, b) for a, b in zip(old.planes, new.planes, strict=True))
        for old, new in zip(before.shots, after.shots, strict=True)
    ]
    assert changed == [False] * 6 + [True] * 6
