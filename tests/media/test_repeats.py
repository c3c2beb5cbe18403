"""The same frames give the same bytes, whatever lay in the memory that an encoder is given."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import pytest

from mien.media.encoders import plan_encoder
from mien.options import SwapOptions

_FILL, _MAP_FROM = -6, -3
"""Of glibc's `mallopt`: the byte that new memory is filled with, and the size from which it comes as zeros."""


def encode(frames: Sequence[av.VideoFrame], fill: int) -> str:
    """Hash of the frames as H.264, with all new memory filled with this byte."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MAP_FROM, 1 << 30)
    libc.mallopt(_FILL, fill)
    try:
        width, height = frames[0].width, frames[0].height
        encoder = av.CodecContext.create("libx264", "w")
        assert isinstance(encoder, av.VideoCodecContext)
        encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
        encoder.time_base, encoder.framerate, encoder.thread_count = Fraction(1, 25), Fraction(25), 1
        encoder.options = dict(plan_encoder("mp4", SwapOptions(), "yuv420p", width, height).options)
        total = hashlib.sha256()
        for index, frame in enumerate(frames):
            frame.pts, frame.time_base = index, Fraction(1, 25)
            for packet in encoder.encode(frame):
                total.update(bytes(packet))
        for packet in encoder.encode(None):
            total.update(bytes(packet))
        return total.hexdigest()
    finally:
        libc.mallopt(_FILL, 0)
        libc.mallopt(_MAP_FROM, 128 << 10)


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc to fill memory")
@pytest.mark.parametrize(("width", "height"), [(160, 90), (240, 240), (320, 180)])
def test_h264_does_not_depend_on_what_memory_held(examples: Path, width: int, height: int) -> None:
    with av.open(str(examples / "clip.mp4")) as clip:
        # From arrays, so that no frame tells its own picture type.
        arrays = [f.reformat(width, height, "yuv420p").to_ndarray() for f in islice(clip.decode(video=0), 12)]
    frames = [av.VideoFrame.from_ndarray(array, "yuv420p") for array in arrays]
    assert len({encode(frames, fill) for fill in (1, 37, 90, 128, 200, 255)}) == 1
