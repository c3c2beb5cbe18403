"""Everything of the source but its video, brought to the output in step with the encoded video."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer, OutputContainer
from av.container.core import Container
from av.packet import Packet
from av.stream import Discard, Disposition, Stream
from av.video.stream import VideoStream

from mien.media.demux import open_container
from mien.media.streams import CopiedTrack, Track, add_track

# Tags that describe the file they came from.
_FILE_TAGS = ("encoder", "major_brand", "minor_version", "compatible_brands")
_TRACK_TAGS = ("encoder", "duration", "bps", "number_of_frames", "number_of_bytes")
# What MP4 can hold in its classic (iTunes) tags; any other needs key/value tags.
_MP4_TAGS = frozenset(
    (
        *("title", "artist", "album_artist", "album", "comment", "composer", "date", "genre", "copyright", "track"),
        *("description", "synopsis", "show", "grouping", "lyrics", "disc", "episode_id", "network", "creation_time"),
    )
)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the source that the output shows, in the source's seconds, and what to take from every time."""

    start: Fraction | None = None
    """None: from the beginning, whatever time that has."""
    end: Fraction | None = None
    shift: Fraction = Fraction(0)

    def holds(self, start: Fraction, end: Fraction) -> bool:
        """True if something that lasts from `start` to `end` is shown at least in part."""
        begun = self.start is None or max(start, end) > self.start or start == self.start
        return begun and (self.end is None or start < self.end)


def own_shift(container: Container) -> Fraction:
    """Transport streams begin at an arbitrary time; other containers mean what they say."""
    start = container.start_time if isinstance(container, InputContainer) else None
    return Fraction(start, av.time_base) if container.format.name in ("mpegts", "mpeg") and start else Fraction(0)


class Remuxer:
    """A second reader of the source: memory stays constant, however long the clip."""

    def __init__(self, path: Path, main: int, muxer: str, span: Span) -> None:
        self._path, self._main, self._muxer, self._span = path, main, muxer, span
        self._container = open_container(path)
        self._tracks: dict[int, Track] = {}
        self._packets: Iterator[Packet[Stream]] = iter(())
        self._next: Packet[Stream] | None = None
        self._output: OutputContainer | None = None
        self._lost: dict[int, int] = {}
        self.notes: list[str] = []
        """What could not be kept as it was."""

    @property
    def metadata_options(self) -> dict[str, str]:
        """Muxer options that the source's tags ask for."""
        kept = {key.lower() for key in self._container.metadata} - set(_FILE_TAGS)
        return {"movflags": "+use_metadata_tags"} if self._muxer in ("mp4", "mov") and kept - _MP4_TAGS else {}

    def add_streams(self, output: OutputContainer, add_video: Callable[[VideoStream], VideoStream]) -> None:
        """Add an output stream for every source stream, in order; `add_video` makes the one for the video."""
        self._output = output
        kept = []
        for stream in self._container.streams:
            out = self._add(stream, output, add_video)
            if out is not None:
                out.metadata.update(_without(stream.metadata, _TRACK_TAGS))
                out.disposition = stream.disposition
            if stream.index in self._tracks:
                kept.append(stream)
            else:
                stream.discard = Discard.all
        output.metadata.update(_without(self._container.metadata, _FILE_TAGS))
        if self._span.start is not None:
            self._drop_timecode([output.metadata, *(stream.metadata for stream in output.streams)])
        output.set_chapters(self._chapters())
        self._packets = self._container.demux(kept) if kept else iter(())

    def _drop_timecode(self, tags: Iterable[dict[str, str]]) -> None:
        """It counts from the whole clip's beginning."""
        if any([found.pop("timecode", None) for found in tags]):
            self.notes.append("the timecode was left out, since it is that of the whole clip's beginning")

    def start(self) -> None:
        """Read the first packet, once the output's header is written."""
        self._next = self._read()

    def advance(self, until: Fraction | None) -> None:
        """Write the packets up to a time in the output's seconds; None writes all that is left."""
        while self._next is not None and (until is None or _time(self._next) - self._span.shift <= until):
            index = self._next.stream_index
            self._write(index, self._tracks[index].feed(self._next))
            self._next = self._read()

    def finish(self) -> None:
        """Write the rest, and what converters hold."""
        self.advance(None)
        for index, track in self._tracks.items():
            self._write(index, track.flush())
        for index, count in self._lost.items():
            self.notes.append(f"{count} packets of track {index} could not be written to {self._muxer} and are missing")

    def close(self) -> None:
        """Close the source."""
        self._tracks.clear()
        self._container.close()

    def _add(
        self, stream: Stream, output: OutputContainer, add_video: Callable[[VideoStream], VideoStream]
    ) -> Stream | None:
        if stream.index == self._main and isinstance(stream, VideoStream):
            return add_video(stream)
        if stream.discard == Discard.all:
            return None  # MP4's own track of chapter titles; the chapters are copied.
        if self._muxer == "matroska" and stream.disposition & Disposition.attached_pic:
            kind = "png" if _codec(stream) == "png" else "jpeg"
            data = _first_packet(self._path, stream.index)
            return output.add_attachment(f"cover.{kind.replace('e', '')}", f"image/{kind}", data)
        if self._muxer in ("mp4", "mov") and stream.type == "data" and "timecode" in stream.metadata:
            return None  # These muxers make that track from the video's own tag.
        added = add_track(stream, output, self._muxer)
        name = f"{stream.type} track {stream.index} ({_codec(stream)})"
        if added is None:
            self.notes.append(f"{name} was left out, since {self._muxer} cannot hold it; use .mkv to keep it")
            return None
        out, track = added
        if track is not None:
            self._tracks[stream.index] = track
            if not isinstance(track, CopiedTrack):
                self.notes.append(f"{name} was converted to {_codec(out)}, since {self._muxer} cannot hold it as it is")
        return out

    def _read(self) -> Packet[Stream] | None:
        try:
            for packet in self._packets:
                # PyAV ends each stream with an empty packet.
                if (packet.size or packet.pts is not None) and self._shown(packet):
                    return packet
        except av.error.FFmpegError as error:
            self.notes.append(f"{self._path}: the tracks beside the video end early ({error.strerror})")
        return None

    def _shown(self, packet: Packet[Stream]) -> bool:
        """False for packets outside the span; a subtitle that began before it is cut."""
        if packet.pts is None:
            return True
        start = packet.pts * packet.time_base
        if not self._span.holds(start, start + (packet.duration or 0) * packet.time_base):
            return False
        if packet.stream.type != "subtitle":
            # Samples cannot be cut without encoding them anew.
            return self._span.start is None or start >= self._span.start
        stop = packet.pts + (packet.duration or 0)
        if self._span.start is not None and start < self._span.start:
            packet.pts = packet.dts = -(-self._span.start // packet.time_base)
        if self._span.end is not None:
            stop = min(stop, self._span.end // packet.time_base)
        if packet.duration:
            packet.duration = max(1, stop - packet.pts)
        return True

    def _write(self, index: int, packets: list[Packet[Stream]]) -> None:
        assert self._output is not None
        for packet in packets:
            if self._span.shift:
                ticks = round(self._span.shift / packet.time_base)
                packet.pts = None if packet.pts is None else packet.pts - ticks
                packet.dts = None if packet.dts is None else packet.dts - ticks
            try:
                self._output.mux(packet)
            except (av.error.ArgumentError, av.error.InvalidDataError):
                self._lost[index] = self._lost.get(index, 0) + 1

    def _chapters(self) -> list[av.container.core.Chapter]:
        kept = []
        for chapter in self._container.chapters():
            base = chapter["time_base"]
            if not base:
                kept.append(chapter)
            elif self._span.holds(chapter["start"] * base, chapter["end"] * base):
                low = self._span.start if self._span.start is not None else chapter["start"] * base
                high = self._span.end if self._span.end is not None else chapter["end"] * base
                chapter["start"] = round((max(chapter["start"] * base, low) - self._span.shift) / base)
                chapter["end"] = round((min(chapter["end"] * base, high) - self._span.shift) / base)
                kept.append(chapter)
        return kept


def _time(packet: Packet[Stream]) -> Fraction:
    stamp = packet.pts if packet.dts is None else packet.dts
    return (stamp or 0) * packet.time_base


def _without(tags: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in tags.items() if key.lower().split("-")[0] not in names}


def _codec(stream: Stream) -> str:
    return stream.codec_context.name if stream.codec_context is not None else getattr(stream, "name", "") or "unknown"


def _first_packet(path: Path, index: int) -> bytes:
    with open_container(path) as container:
        packet = next(container.demux(container.streams[index]))
        return bytes(packet)
