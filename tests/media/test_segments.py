"""Segments: packets come back as the encoder gave them, and joined they are one video."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien.errors import OptionsError
from mien.media import VideoWriter, open_reader, open_writer
from mien.media.encoders import EncoderPlan, plan_encoder
from mien.media.normalize import Converter
from mien.media.segments import EncoderSetup, SegmentWriter, file_sha256, lag, packets
from mien.options import SwapOptions
from tests.media.clips import make_clip, picture, times

PLAN = plan_encoder("matroska", SwapOptions(crf=20, preset="veryfast"), "yuv420p", 96, 64)


def setup(plan: EncoderPlan = PLAN, **changes: Any) -> EncoderSetup:
    told = {
        "time_base": Fraction(1, 600),
        "rate": Fraction(25),
        "aspect": Fraction(0),
        "field_order": None,
        "display_matrix": None,
        "threads": 1,
        "step": 1,
    }
    return EncoderSetup.of(picture(96, 64, 0, plan.pixel_format), plan, **{**told, **changes})


def encode(path: Path, made: EncoderSetup, stamps: list[int], after: int | None = None) -> tuple[SegmentWriter, int]:
    writer = SegmentWriter(path, made, Converter(), after)
    for i, pts in enumerate(stamps):
        frame = picture(96, 64, i)
        frame.pts, frame.time_base = pts, made.time_base
        writer.write(frame)
    digest, behind = writer.close()
    assert digest == file_sha256(path)
    return writer, behind


def test_a_setup_survives_json() -> None:
    made = setup(aspect=Fraction(16, 11), field_order=2, display_matrix=tuple(range(9)))
    assert EncoderSetup.from_dict(made.to_dict()) == made


def test_packets_are_those_of_the_encoder(tmp_path: Path) -> None:
    stamps = [24 * i + (i % 3) for i in range(20)]
    _, behind = encode(tmp_path / "s", setup(), stamps)
    encoder = setup().opened()
    expected = []
    for i, pts in enumerate(stamps):
        frame = picture(96, 64, i)
        frame.pts, frame.time_base = pts, Fraction(1, 600)
        expected += encoder.encode(frame)
    expected += encoder.encode(None)
    found = list(packets(tmp_path / "s", Fraction(1, 600), behind))
    keys = ("pts", "duration", "is_keyframe")
    assert [[getattr(p, k) for k in keys] for p in found] == [[getattr(p, k) for k in keys] for p in expected]
    assert [bytes(p) for p in found] == [bytes(p) for p in expected]
    shown, decoded = (
        [int(stamp or 0) for stamp in stamps] for stamps in zip(*((p.pts, p.dts) for p in found), strict=True)
    )
    assert decoded == sorted(set(decoded)) and all(dts <= pts for pts, dts in zip(shown, decoded, strict=True))
    assert sorted(shown) == [dts + behind for dts in decoded]


def test_each_segment_begins_with_a_key_frame_and_repeats_exactly(tmp_path: Path) -> None:
    for name in ("a", "b"):
        encode(tmp_path / name, setup(), list(range(0, 240, 24)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert next(packets(tmp_path / "a", Fraction(1, 600), 0)).is_keyframe


def test_times_that_go_back_are_moved_on(tmp_path: Path) -> None:
    writer, behind = encode(tmp_path / "s", setup(), [10, 20, 20, 15, 40], after=12)
    assert (writer.moved, writer.last_pts) == (3, 40)
    assert sorted(p.pts or 0 for p in packets(tmp_path / "s", Fraction(1, 600), behind)) == [13, 20, 21, 22, 40]


def test_frames_that_the_container_could_not_tell_apart_are_moved_on(tmp_path: Path) -> None:
    writer, behind = encode(tmp_path / "s", setup(step=90), [0, 1, 100, 400, 450])
    assert (writer.moved, writer.last_pts) == (3, 490)
    assert sorted(p.pts or 0 for p in packets(tmp_path / "s", Fraction(1, 600), behind)) == [0, 90, 180, 400, 490]


def test_alpha_beside_the_packets_is_kept(tmp_path: Path) -> None:
    plan = EncoderPlan("libvpx-vp9", "yuva420p", {"crf": "20", "cpu-used": "5"})
    _, behind = encode(tmp_path / "s", setup(plan), [0, 24, 48])
    sides = [list(p.iter_sidedata()) for p in packets(tmp_path / "s", Fraction(1, 600), behind)]
    assert [[s.data_type for s in side] for side in sides] == [["matroska_block_additional"]] * 3
    assert all(len(bytes(side[0])) > 8 for side in sides)


def test_an_encoder_that_does_not_open_is_told() -> None:
    with pytest.raises(OptionsError, match="libx264 cannot be opened for yuv420p at 96×64"):
        setup(EncoderPlan("libx264", "yuv420p", {"preset": "nonsense"})).opened()


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=30))
def test_the_lag_is_the_least_that_lets_every_packet_be_decoded_in_time(stamps: list[int]) -> None:
    shown = sorted(stamps)
    behind = lag(stamps)
    assert all(time - behind <= pts for time, pts in zip(shown, stamps, strict=True))
    assert behind == 0 or any(time - behind == pts for time, pts in zip(shown, stamps, strict=True))


def test_the_lag_of_every_order_of_three() -> None:
    assert {order: lag(order) for order in permutations((0, 1, 2))} == {
        (0, 1, 2): 0, (0, 2, 1): 1, (1, 0, 2): 1, (1, 2, 0): 2, (2, 0, 1): 1, (2, 1, 0): 2
    }  # fmt: skip


def frames_of(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv"])
@pytest.mark.parametrize("segment", [1, 5, 100])
@pytest.mark.parametrize("stamps", [tuple(range(23)), tuple(int(i**1.7) for i in range(23))])
def test_joining_loses_nothing(tmp_path: Path, suffix: str, segment: int, stamps: tuple[int, ...]) -> None:
    """Lossless, with B-frames: every frame and time is there, and the sound's packets are the source's."""
    clip = make_clip(tmp_path / f"in.{suffix}", pts=stamps, audio="aac", time_base=Fraction(1, 30))
    out = tmp_path / f"out.{suffix}"
    options = SwapOptions(crf=0, preset="veryfast", segment_frames=segment, encoder_threads=2)
    with open_reader(clip) as reader, open_writer(out, reader, options) as writer:
        assert isinstance(writer, VideoWriter)
        for frame in reader:
            writer.write(frame)
            if writer.segment_is_full:
                writer.close_segment()
    assert times(out) == times(clip)
    for a, b in zip(frames_of(out), frames_of(clip), strict=True):
        np.testing.assert_array_equal(a, b)
    with av.open(str(out)) as made, av.open(str(clip)) as source:
        sound = [[(p.pts, p.dts, bytes(p)) for p in c.demux(audio=0) if p.size] for c in (made, source)]
    assert sound[0] == sound[1] and sound[0]


REPEAT = """
import hashlib, sys
from pathlib import Path
from fractions import Fraction
from mien.media.encoders import plan_encoder
from mien.media.normalize import Converter
from mien.media.segments import EncoderSetup, SegmentWriter
from mien.options import SwapOptions
from tests.media.clips import picture
plan = plan_encoder("matroska", SwapOptions(encoder=sys.argv[1]), "yuv420p", 72, 88)
told = dict(time_base=Fraction(1, 25), rate=Fraction(25), aspect=Fraction(0), field_order=None, display_matrix=None)
setup = EncoderSetup.of(picture(72, 88, 0, plan.pixel_format), plan, threads=2, step=1, **told)
writer = SegmentWriter(Path(sys.argv[2]), setup, Converter(), None)
for i in range(12):
    frame = picture(72, 88, i)
    frame.pts, frame.time_base = i, Fraction(1, 25)
    writer.write(frame)
print(writer.close()[0])
"""


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libvpx-vp9", "libsvtav1", "ffv1"])
def test_bytes_do_not_depend_on_what_was_in_memory(tmp_path: Path, encoder: str) -> None:
    """The allocator fills new memory with another value each time."""
    command = [sys.executable, "-W", "error", "-c", REPEAT, encoder, str(tmp_path / "s")]
    found = set()
    for fill in ("1", "170"):
        env = {**os.environ, "MALLOC_PERTURB_": fill, "PYTHONPATH": str(Path(__file__).parents[2])}
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        found.add(run.stdout.split()[-1])
    assert len(found) == 1
