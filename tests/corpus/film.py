"""Clips written by PyAV alone, from pictures of `scene`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.container import OutputContainer

from tests.corpus.scene import Array, scene

TICK = Fraction(1, 25)
BT709, BT601, BT2020 = (1, 1, 1, 1), (6, 1, 6, 6), (9, 1, 9, 14)
"""Matrix, range (1 limited, 2 full), primaries, transfer, as H.273 numbers them."""


@dataclass(frozen=True)
class Film:
    """What `write` writes. Sizes are those of the stored picture."""

    pts: Sequence[int] = tuple(range(10))
    time_base: Fraction = TICK
    rate: Fraction = Fraction(25)
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    options: dict[str, str] = field(default_factory=lambda: {"crf": "12", "preset": "veryfast"})
    flags: int = 0
    turn: tuple[int, int, int, int] | None = None
    """a, b, c, d of the display matrix: the stored point (x, y) is shown at (ax + cy, bx + dy)."""
    color: tuple[int, int, int, int] | None = BT709
    aspect: Fraction | None = None
    draw: Callable[[int], Array] = scene
    """Frame's number → RGB (H, W, 3) or RGBA (H, W, 4), uint8 or uint16, as stored."""
    audio: tuple[str, ...] = ()
    """A codec for each audio track."""
    languages: tuple[str, ...] = ("eng", "fra", "deu")
    audio_start: Fraction = Fraction(0)
    audio_seconds: float | None = None
    """As long as the video, unless given."""
    subtitles: str = ""
    """The text of an SRT file."""
    attachment: bytes = b""
    chapters: tuple[tuple[int, int, str], ...] = ()
    """Start and end in milliseconds, title."""
    metadata: dict[str, str] = field(default_factory=dict)
    muxer: str | None = None
    muxer_options: dict[str, str] = field(default_factory=dict)


def film(path: Path, like: Film | None = None, **changes: Any) -> Path:
    """Write a clip. Its muxer is chosen by the extension, unless `muxer` names one."""
    plan = replace(like or Film(), **changes)
    with av.open(f"file:{path}", "w", format=plan.muxer, container_options=plan.muxer_options) as out:
        write(out, plan, path)
    return path


def write(out: OutputContainer, plan: Film, path: Path) -> None:
    """Write a clip to an open container; `path` names the files made beside it."""
    out.metadata.update(plan.metadata)
    if plan.chapters:
        out.set_chapters(
            [
                {"id": i, "start": a, "end": b, "time_base": Fraction(1, 1000), "metadata": {"title": title}}
                for i, (a, b, title) in enumerate(plan.chapters)
            ]
        )
    first = picture(plan, 0)
    video = out.add_stream(plan.codec, rate=plan.rate, options=plan.options)
    assert isinstance(video, av.VideoStream)
    _configure(video, plan, first)
    tracks = []
    for codec, language in zip(plan.audio, plan.languages, strict=False):
        track = out.add_stream(codec, rate=48000, layout="mono")
        assert isinstance(track, av.AudioStream)
        track.metadata["language"] = language
        tracks.append(track)
    lines = _Lines(path, plan.subtitles, out) if plan.subtitles else None
    if plan.attachment:
        out.add_attachment("font.ttf", "font/ttf", plan.attachment)
    packets: list[Any] = []
    for number, pts in enumerate(plan.pts):
        frame = picture(plan, number)
        frame.pts, frame.time_base = pts, plan.time_base
        packets += video.encode(frame)
    packets += video.encode(None)
    seconds = float((plan.pts[-1] - plan.pts[0]) * plan.time_base + 1 / plan.rate)
    for number, track in enumerate(tracks):
        start = plan.audio_start + plan.pts[0] * plan.time_base
        packets += sing(track, plan.audio_seconds or seconds, 300.0 + 200 * number, start)
    for packet in sorted(packets, key=lambda p: p.dts * p.time_base):  # interleaved, as every muxer does
        out.mux(packet)
    if lines:
        lines.write()


def picture(plan: Film, number: int) -> av.VideoFrame:
    """The frame of that number in the clip's pixel format and colours."""
    drawn = plan.draw(number)
    deep, channels = drawn.dtype == np.uint16, drawn.shape[2]
    name = {(False, 3): "rgb24", (False, 4): "rgba", (True, 3): "rgb48le", (True, 4): "rgba64le"}[deep, channels]
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(drawn), name)
    if plan.color and not plan.pixel_format.startswith(("rgb", "gbr", "bgr")):
        matrix, span, primaries, transfer = plan.color
        frame = frame.reformat(
            format=plan.pixel_format, src_color_range=2, dst_color_range=span, dst_colorspace=_swscale(matrix)
        )
        frame.colorspace, frame.color_range = matrix, span
        frame.color_primaries, frame.color_trc = primaries, transfer
    else:
        frame = frame.reformat(format=plan.pixel_format)
    return frame


def sing(track: av.AudioStream, seconds: float, pitch: float, start: Fraction = Fraction(0)) -> list[Any]:
    """The packets of a rising tone, so that no two are alike."""
    time = np.arange(round(48000 * seconds)) / 48000
    samples = 0.3 * np.sin(2 * np.pi * (pitch * time + 37 * time**2))
    frame = av.AudioFrame.from_ndarray(samples.astype(np.float32)[None], "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = 48000, round(start * 48000), Fraction(1, 48000)
    context = track.codec_context
    context.open(strict=False)
    resampler = av.AudioResampler(context.format, "mono", 48000, frame_size=context.frame_size or 1024)
    parts = [*resampler.resample(frame), *resampler.resample(None)]
    return [packet for part in [*parts, None] for packet in track.encode(part)]


def copy(source: Path, made: Path, keep: Callable[[Any], bool] = lambda packet: True, **how: Any) -> Path:
    """Every packet that `keep` accepts, to another file, byte for byte."""
    with av.open(str(source)) as container, av.open(f"file:{made}", "w", **how) as out:
        streams = {s.index: out.add_stream_from_template(s, opaque=True) for s in container.streams}
        for packet in container.demux():
            if packet.size and keep(packet):
                packet.stream = streams[packet.stream.index]
                out.mux(packet)
    return made


class _Pipe:
    """A file that cannot go back, as a browser's recorder writes: the header never learns how long the clip became."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()


def stream_out(path: Path, muxer: str, **changes: Any) -> Path:
    """A clip as `film` writes it, through a pipe: no duration and no index in its header."""
    plan, pipe = replace(Film(), **changes), _Pipe(path)
    options = {"live": "1"} if muxer in ("matroska", "webm") else {"movflags": "frag_keyframe+empty_moov"}
    try:
        with av.open(pipe, "w", format=muxer, container_options=options) as out:
            write(out, plan, path)
    finally:
        pipe.close()
    return path


class _Lines:
    """Subtitles on their way from an SRT text to a container."""

    def __init__(self, path: Path, text: str, out: OutputContainer) -> None:
        self._file = path.with_suffix(".srt")
        self._file.write_text(text)
        self._input, self._output = av.open(str(self._file)), out
        source = self._input.streams.subtitles[0]
        self._stream = out.add_stream_from_template(source, opaque=True)

    def write(self) -> None:
        for packet in self._input.demux():
            if packet.size:
                packet.stream = self._stream
                self._output.mux(packet)
        self._input.close()
        with suppress(OSError):
            self._file.unlink()


def _configure(video: av.VideoStream, plan: Film, first: av.VideoFrame) -> None:
    context = video.codec_context
    context.width, context.height, context.pix_fmt = first.width, first.height, plan.pixel_format
    context.time_base, context.thread_count = plan.time_base, 1
    context.flags |= plan.flags
    if plan.color:
        context.colorspace, context.color_range, context.color_primaries, context.color_trc = plan.color
    if plan.aspect:
        context.sample_aspect_ratio = plan.aspect
    if plan.turn:
        a, b, c, d = (value * 65536 for value in plan.turn)
        video.set_display_matrix((a, b, 0, c, d, 0, 0, 0, 1 << 30))


def _swscale(matrix: int) -> int:
    return {1: 1, 9: 9, 10: 9}.get(matrix, 5)
