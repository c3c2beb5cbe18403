"""Segments: parts of a video's frames, each encoded on its own, kept as files of packets until they are joined.

A segment begins with a key frame and refers to no other, so a run that was interrupted goes on after the last
one that is closed, and the joined packets are those of a run that was not. Packets are kept outside any
container: containers round times to clocks of their own, and take them back only in part.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Self

import av
from av.codec.context import Flags
from av.packet import Packet, PacketSideData, packet_sidedata_type_from_literal, packet_sidedata_type_to_literal
from av.video.codeccontext import VideoCodecContext

from mien.errors import OptionsError
from mien.media.encoders import EncoderPlan
from mien.media.normalize import Converter

_FIELDS = Flags.interlaced_dct | Flags.interlaced_me
# pts, duration, key frame, bytes of data, number of side data; then type and bytes of each.
_PACKET = struct.Struct("<qqBII")
_SIDE = struct.Struct("<II")
_UNKEPT = ("quality_stats",)


@dataclass(frozen=True, slots=True)
class EncoderSetup:
    """All that an encoder is opened with."""

    name: str
    pixel_format: str
    options: Mapping[str, str]
    width: int
    height: int
    time_base: Fraction
    rate: Fraction
    aspect: Fraction
    """0 where unknown."""
    color: tuple[int, int, int, int]
    """Matrix, range, primaries and transfer."""
    field_order: int | None
    """FFmpeg's code for interlaced video; None for progressive."""
    display_matrix: tuple[int, ...] | None
    """FFmpeg's nine integers."""
    threads: int
    step: int
    """Ticks between two frames at least; the container could not tell them apart below."""

    @classmethod
    def of(cls, picture: av.VideoFrame, plan: EncoderPlan, **told: Any) -> Self:
        """For pictures like this one, which already has the plan's pixel format."""
        return cls(
            name=plan.name,
            pixel_format=plan.pixel_format,
            options=dict(plan.options),
            width=picture.width,
            height=picture.height,
            color=(picture.colorspace, picture.color_range, picture.color_primaries, picture.color_trc),
            **told,
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {key: str(value) if isinstance(value, Fraction) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        fractions = {key: Fraction(told[key]) for key in ("time_base", "rate", "aspect")}
        matrix = told["display_matrix"]
        tuples = {"color": tuple(told["color"]), "display_matrix": None if matrix is None else tuple(matrix)}
        return cls(**{**told, **fractions, **tuples})

    def apply(self, context: VideoCodecContext) -> None:
        """Set up an encoder that is not open yet."""
        context.width, context.height, context.pix_fmt = self.width, self.height, self.pixel_format
        context.time_base = self.time_base
        if self.aspect:
            context.sample_aspect_ratio = self.aspect
        context.colorspace, context.color_range, context.color_primaries, context.color_trc = self.color
        context.flags |= Flags.frame_duration
        if self.field_order is not None:
            context.flags |= _FIELDS
            context.field_order = self.field_order
        context.thread_count = self.threads
        context.thread_type = "FRAME" if self.name in ("libx264", "libx265") else "AUTO"

    def opened(self) -> VideoCodecContext:
        """An encoder of its own for one segment.

        Raises:
            OptionsError: it does not open.
        """
        context = av.CodecContext.create(self.name, "w")
        assert isinstance(context, VideoCodecContext)
        context.options = dict(self.options)
        context.framerate = self.rate
        context.flags |= Flags.global_header  # Every container that mien writes keeps the headers apart.
        self.apply(context)
        try:
            context.open()
        except av.error.FFmpegError as error:
            raise self.refused(error) from error
        return context

    def refused(self, error: av.error.FFmpegError) -> OptionsError:
        """What to say when the encoder does not open."""
        what = f"{self.name} cannot be opened for {self.pixel_format} at {self.width}×{self.height}"
        return OptionsError(f"{what} ({error.strerror}); use another encoder or preset")


class SegmentWriter:
    """Encodes frames into a file of packets.

    Args:
        path: the file; it holds a whole segment only after `close`.
        after: time of the frame before the first, in the frames' clock.
    """

    def __init__(self, path: Path, setup: EncoderSetup, converter: Converter, after: int | None) -> None:
        self.path, self.last_pts = path, after
        self.frames = self.moved = 0
        """Frames taken, and those whose time went back, or not on enough, and was moved on."""
        self._setup, self._converter = setup, converter
        self._encoder = setup.opened()
        self._file: IO[bytes] = path.open("wb")
        self._hash = hashlib.sha256()
        self._times: list[int] = []

    def write(self, picture: av.VideoFrame) -> None:
        """Encode the next picture."""
        if picture.format.name != self._setup.pixel_format:
            picture = self._converter.to_format(picture, self._setup.pixel_format)
        picture.pict_type = 0  # Else the source's frame types are forced on the encoder.
        least = None if self.last_pts is None else self.last_pts + self._setup.step
        if least is not None and picture.pts is not None and picture.pts < least:
            picture.pts = least
            self.moved += 1
        self.last_pts = picture.pts
        self.frames += 1
        self._keep(self._encoder.encode(picture))

    def close(self) -> tuple[str, int]:
        """Finish the file: its sha256, and the lag of its packets.

        Raises:
            OptionsError: the encoder gave another number of pictures than it got.
        """
        self._keep(self._encoder.encode(None))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if len(self._times) != self.frames:
            name, made = self._setup.name, len(self._times)
            raise OptionsError(f"{name} made {made} pictures of {self.frames}; use another encoder")
        return self._hash.hexdigest(), lag(self._times)

    def abort(self) -> None:
        """Remove the file."""
        with suppress(OSError):  # What is still buffered may not fit on the disk either.
            self._file.close()
        with suppress(OSError):  # Whoever goes on writes it anew.
            self.path.unlink(missing_ok=True)

    def _keep(self, packets: Sequence[Packet[Any]]) -> None:
        for packet in packets:
            assert packet.pts is not None
            self._times.append(packet.pts)
            side = [s for s in packet.iter_sidedata() if s.data_type not in _UNKEPT]
            record = [_PACKET.pack(packet.pts, packet.duration or 0, packet.is_keyframe, packet.size, len(side))]
            for data in side:
                kind = packet_sidedata_type_from_literal(data.data_type)  # type: ignore[arg-type]
                record += [_SIDE.pack(kind, data.data_size), bytes(data)]
            for part in (*record, bytes(packet)):
                self._file.write(part)
                self._hash.update(part)


def lag(times: Sequence[int]) -> int:
    """The largest number of ticks by which a packet's order is ahead of its presentation: its n-th packet is decoded
    when the n-th picture is shown, less the lag.
    """
    return max((shown - pts for shown, pts in zip(sorted(times), times, strict=True)), default=0)


def file_sha256(path: Path) -> str:
    """Hex digest of a file; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def packets(path: Path, time_base: Fraction, lag: int) -> Iterator[Packet[Any]]:
    """The packets of a closed segment, in decoding order, with decoding times that fit those of other segments.

    Args:
        lag: the largest of all segments.
    """
    with path.open("rb") as file:
        shown = sorted(pts for pts, *_ in _headers(file))
        file.seek(0)
        for time in shown:
            pts, duration, is_key, size, sides = _PACKET.unpack(file.read(_PACKET.size))
            side = [_side_data(file) for _ in range(sides)]
            packet: Packet[Any] = Packet(file.read(size))
            packet.pts, packet.dts, packet.duration = pts, time - lag, duration
            packet.time_base, packet.is_keyframe = time_base, bool(is_key)
            for data in side:
                packet.set_sidedata(data)
            yield packet


def _headers(file: IO[bytes]) -> Iterator[tuple[int, ...]]:
    while head := file.read(_PACKET.size):
        values: tuple[int, ...] = _PACKET.unpack(head)
        yield values
        for _ in range(values[4]):
            file.seek(_SIDE.unpack(file.read(_SIDE.size))[1], os.SEEK_CUR)
        file.seek(values[3], os.SEEK_CUR)


def _side_data(file: IO[bytes]) -> PacketSideData:
    kind, size = _SIDE.unpack(file.read(_SIDE.size))
    packet_sidedata_type_to_literal(kind)  # Raises for a type that this FFmpeg does not know.
    data = PacketSideData(kind, size)  # type: ignore[call-arg]
    memoryview(data)[:] = file.read(size)
    return data
