"""What is in a file, seen by PyAV and Pillow alone, nothing of mien."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.corpus.scene import PATCH, Array, number_in, outside
from tests.media.clips import planes


@dataclass(frozen=True)
class Shot:
    """One frame of a file."""

    time: Fraction
    """Seconds."""
    planes: list[Array]
    """As shown: turned upright."""
    luma: Array
    """(H, W) 8 bit, full range, upright."""
    number: int | None


@dataclass(frozen=True)
class Seen:
    """A file's video."""

    shots: list[Shot]
    width: int
    """As stored."""
    height: int
    pixel_format: str
    codec: str
    rotation: int
    """Degrees, counter-clockwise, by which the frame is shown turned."""
    aspect: Fraction | None
    rate: Fraction | None
    color: tuple[int, int, int, int]
    """Matrix, range, primaries, transfer."""
    duration: float | None
    """Seconds of the container."""

    @property
    def numbers(self) -> list[int | None]:
        """What the frames show."""
        return [shot.number for shot in self.shots]

    @property
    def times(self) -> list[Fraction]:
        """Seconds of the frames."""
        return [shot.time for shot in self.shots]


def look(
    path: Path, *, numbers: bool = True, block: tuple[float, float] = (16, 16), at: tuple[int, int] = (16, 16)
) -> Seen:
    """Decode a file's first video track, on one thread."""
    shots = []
    with av.open(f"file:{path}") as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        first = None
        for frame in container.decode(stream):
            first = first or frame
            luma = turned(frame.reformat(format="gray").to_ndarray(format="gray"), frame)
            number = number_in(luma, at, block) if numbers else None
            assert frame.pts is not None
            assert frame.time_base is not None
            upright = [turned(plane, frame) for plane in planes(frame)]
            shots.append(Shot(frame.pts * frame.time_base, upright, luma, number))
        assert first is not None, "no frame"
        return Seen(
            shots, stream.width, stream.height, first.format.name, stream.codec_context.name, first.rotation % 360,
            stream.sample_aspect_ratio, stream.average_rate,
            (int(first.colorspace), int(first.color_range), int(first.color_primaries), int(first.color_trc)),
            None if container.duration is None else container.duration / av.time_base,
        )  # fmt: skip


def turned(stored: Array, frame: av.VideoFrame) -> Array:
    """A plane as it is shown, by the frame's display matrix."""
    side_data: Any = frame.side_data
    matrix = next((bytes(data) for data in side_data if data.type.name == "DISPLAYMATRIX"), None)
    if matrix is None:
        return stored
    a, b, _, c, d = (round(value / 65536) for value in np.frombuffer(matrix, np.int32)[:5].tolist())
    made, across, down = (stored, a, d) if a else (stored.T, c, b)
    return np.ascontiguousarray(made[::down, ::across])


def assert_untouched(source: Seen, made: Seen, box: tuple[int, int, int, int] = PATCH, *, faces: bool = True) -> None:
    """Frame for frame, each stored sample beyond the box is that of the source; within it every frame changed."""
    assert made.pixel_format == source.pixel_format
    assert len(made.shots) == len(source.shots)
    for index, (old, new) in enumerate(zip(source.shots, made.shots, strict=True)):
        height, width = old.planes[0].shape
        for a, b in zip(old.planes, new.planes, strict=True):
            assert a.shape == b.shape
            step = (round(width / a.shape[1]), round(height / a.shape[0]))
            keep = outside(a.shape[0], a.shape[1], box, step)
            assert np.array_equal(a[keep], b[keep]), f"frame {index} changed outside the face"
        if faces:
            change = old.planes[0] != new.planes[0]
            assert change[~outside(height, width, box)].mean() > 0.05, f"frame {index} has no swapped face"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree(folder: Path) -> list[str]:
    """Names of all that lies in a folder and below."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def audio_packets(path: Path, track: int = 0) -> list[tuple[Fraction, bytes]]:
    """Time in seconds and bytes of an audio track's packets; of AAC, without the header of streams."""
    with av.open(f"file:{path}") as container:
        stream = container.streams.audio[track]
        packets = [(p.pts * p.time_base, bytes(p)) for p in container.demux(stream) if p.size and p.pts is not None]
    return [(time, data[7:] if data.startswith(b"\xff\xf1") else data) for time, data in packets]


def tracks(path: Path) -> list[tuple[str, str]]:
    """Kind and codec of every track."""
    with av.open(f"file:{path}") as container:
        return [(s.type, s.codec_context.name if s.codec_context is not None else s.type) for s in container.streams]


def tags(path: Path) -> dict[str, Any]:
    """The container's tags, in lower case."""
    with av.open(f"file:{path}") as container:
        return {key.lower(): value for key, value in container.metadata.items()}
