"""Small clips made in the test, and independent ways to look at files: PyAV only, nothing of mien."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

TICK = Fraction(1, 25)


@dataclass
class Clip:
    """What `make_clip` writes."""

    width: int = 96
    height: int = 64
    pts: Sequence[int] = tuple(range(12))
    time_base: Fraction = TICK
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    options: dict[str, str] = field(default_factory=lambda: {"bf": "2", "refs": "3", "crf": "20"})
    flags: int = 0
    rotation: tuple[float, bool, bool] | None = None
    color: tuple[int, int, int, int] | None = None
    """Matrix, range, primaries, transfer."""
    aspect: Fraction | None = None
    audio: str | None = None
    tracks: Sequence[str] = ("eng",)
    """A language for each audio track."""
    audio_start: int = 0
    """Samples at 48 kHz."""
    subtitles: str | None = None
    """The SRT file's text."""
    attachment: bytes | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    video_metadata: dict[str, str] = field(default_factory=dict)
    chapters: list[tuple[int, int, str]] = field(default_factory=list)
    """Start and end in milliseconds, title."""


def picture(width: int, height: int, seed: int, pixel_format: str = "yuv420p") -> av.VideoFrame:
    """A frame with smooth colours that differ with the seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = [np.sin(x * rng.uniform(0.02, 0.2) + y * rng.uniform(0.02, 0.2) + seed) for _ in range(3)]
    rgb = np.stack([128 + 100 * w for w in waves], axis=-1) + rng.normal(0, 4, (height, width, 3))
    frame = av.VideoFrame.from_ndarray(np.clip(rgb, 0, 255).astype(np.uint8), "rgb24")
    return frame.reformat(format=pixel_format)


def make_clip(path: Path, clip: Clip | None = None, **changes: Any) -> Path:
    """Write a clip; its muxer is chosen by the extension."""
    clip = clip or Clip(**changes)
    with av.open(str(path), "w") as out:
        out.metadata.update(clip.metadata)
        out.set_chapters(
            [
                {"id": i, "start": a, "end": b, "time_base": Fraction(1, 1000), "metadata": {"title": title}}
                for i, (a, b, title) in enumerate(clip.chapters)
            ]
        )
        video = out.add_stream(clip.codec, rate=1 / TICK, options=clip.options)
        assert isinstance(video, av.VideoStream)
        _configure(video, clip)
        tracks = [out.add_stream(clip.audio, rate=48000, layout="mono") for _ in clip.tracks] if clip.audio else []
        for track, language in zip(tracks, clip.tracks, strict=False):
            track.metadata["language"] = language
        lines = _SubtitleFile(path, clip.subtitles, out) if clip.subtitles else None
        if clip.attachment is not None:
            out.add_attachment("font.ttf", "font/ttf", clip.attachment)
        for i, pts in enumerate(clip.pts):
            frame = picture(clip.width, clip.height, i, clip.pixel_format)
            if clip.color:
                frame.colorspace, frame.color_range, frame.color_primaries, frame.color_trc = clip.color
            frame.pts, frame.time_base = pts, clip.time_base
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
        seconds = float((clip.pts[-1] - clip.pts[0] + 1) * clip.time_base)
        for i, track in enumerate(tracks):
            assert isinstance(track, av.AudioStream)
            _sing(out, track, seconds, 300.0 + 200 * i, clip.audio_start)
        if lines:
            lines.write()
    return path


def _configure(video: av.VideoStream, clip: Clip) -> None:
    context = video.codec_context
    context.width, context.height, context.pix_fmt = clip.width, clip.height, clip.pixel_format
    context.time_base = clip.time_base
    context.thread_count = 1
    context.flags |= clip.flags
    if clip.color:
        context.colorspace, context.color_range, context.color_primaries, context.color_trc = clip.color
    if clip.aspect:
        context.sample_aspect_ratio = clip.aspect
    if clip.rotation:
        video.set_display_rotation(*clip.rotation)
    video.metadata.update(clip.video_metadata)


def _sing(out: av.container.OutputContainer, track: av.AudioStream, seconds: float, pitch: float, start: int) -> None:
    samples = 0.3 * np.sin(np.arange(int(48000 * seconds)) * (2 * np.pi * pitch / 48000))
    frame = av.AudioFrame.from_ndarray(samples.astype(np.float32)[None], "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = 48000, start, Fraction(1, 48000)
    context = track.codec_context
    context.open(strict=False)
    resampler = av.AudioResampler(context.format, "mono", 48000, frame_size=context.frame_size or 1024)
    for part in [*resampler.resample(frame), *resampler.resample(None)]:
        out.mux(track.encode(part))
    out.mux(track.encode(None))


class _SubtitleFile:
    def __init__(self, path: Path, text: str, out: av.container.OutputContainer) -> None:
        source = path.with_suffix(".srt")
        source.write_text(text)
        self._input = av.open(str(source))
        self._output = out
        self._stream = out.add_stream_from_template(self._input.streams.subtitles[0], opaque=True)

    def write(self) -> None:
        for packet in self._input.demux():
            if packet.size:
                packet.stream = self._stream
                self._output.mux(packet)
        self._input.close()


def planes(frame: av.VideoFrame) -> list[npt.NDArray[Any]]:
    """Copies of a frame's planes, without their padding."""
    made = []
    for plane in frame.planes:
        size = 2 if frame.format.components[0].bits > 8 else 1
        rows = np.frombuffer(bytes(plane), np.uint16 if size == 2 else np.uint8)
        made.append(rows.reshape(plane.height, plane.line_size // size)[:, : plane.width].copy())
    return made


def decode(path: Path) -> list[list[npt.NDArray[Any]]]:
    """The planes of every frame."""
    with av.open(str(path)) as container:
        return [planes(frame) for frame in container.decode(video=0)]


def times(path: Path) -> list[Fraction]:
    """Seconds of every video frame."""
    with av.open(str(path)) as container:
        return [f.pts * f.time_base for f in container.decode(video=0) if f.pts is not None and f.time_base]


@dataclass(frozen=True)
class Sound:
    """A packet's time, in seconds, and content."""

    pts: Fraction
    data: bytes


def sound(path: Path, track: int = 0) -> list[Sound]:
    """The packets of an audio track."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[track]
        return [Sound(p.pts * p.time_base, bytes(p)) for p in container.demux(stream) if p.size and p.pts is not None]


def joined(parts: Iterable[Sound]) -> bytes:
    """The packets' bytes, one after another."""
    return b"".join(p.data for p in parts)
