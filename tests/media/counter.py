"""Clips whose frames bear their number as a row of black and white blocks, and reading it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from mien.media import Frame

BITS = 10
_BLOCK = 16
WIDTH = BITS * _BLOCK


def numbered(number: int, width: int = WIDTH, height: int = 64, pixel_format: str = "yuv420p") -> av.VideoFrame:
    """A picture that bears a number in its upper rows and moves a little below."""
    rgb = np.repeat(np.arange(width, dtype=np.uint8)[None, :, None], height, axis=0).repeat(3, axis=2)
    rgb = (rgb // 2 + 40 + 3 * (number % 20)).astype(np.uint8)
    block = width / BITS
    for bit in range(BITS):
        rgb[: height // 2, round(bit * block) : round((bit + 1) * block)] = 235 if number >> bit & 1 else 16
    return av.VideoFrame.from_ndarray(rgb, "rgb24").reformat(format=pixel_format)


def number_in(rgb: npt.NDArray[Any]) -> int:
    """The number that an upright picture bears, whatever its size."""
    grey = rgb.astype(np.float64).mean(axis=2)
    grey = grey / (255 if rgb.dtype == np.uint8 else 1)
    height, width = grey.shape
    made = 0
    for bit in range(BITS):
        middle = round((bit + 0.5) * width / BITS)
        made |= int(grey[height // 8 : height * 3 // 8, middle - 2 : middle + 2].mean() > 0.5) << bit
    return made


def numbers(frames: Iterable[Frame]) -> list[int]:
    """The numbers that frames bear."""
    return [number_in(frame.read(frame.box)) for frame in frames]


def count_clip(
    path: Path,
    pts: Sequence[int] = tuple(range(30)),
    time_base: Fraction = Fraction(1, 25),
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    pixel_format: str = "yuv420p",
    size: tuple[int, int] = (WIDTH, 64),
    rate: Fraction = Fraction(25),
    draw: Any = numbered,
    container: dict[str, str] | None = None,
    muxer: str | None = None,
    **context: Any,
) -> Path:
    """Write frames that bear 0, 1, 2 … at the given times; `context` sets attributes of the encoder."""
    with av.open(f"file:{path}", "w", format=muxer, container_options=container or {}) as out:
        stream = out.add_stream(codec, rate=rate, options={"crf": "18", "bf": "2"} if options is None else options)
        assert isinstance(stream, av.VideoStream)
        made = stream.codec_context
        made.width, made.height, made.pix_fmt = *size, pixel_format
        made.time_base, made.thread_count = time_base, 1
        for name, value in context.items():
            setattr(made, name, made.flags | value if name == "flags" else value)
        for number, stamp in enumerate(pts):
            frame = draw(number, *size, pixel_format)
            frame.pts, frame.time_base = stamp, time_base
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path
