"""Tracks beside the video: copied as they are, or converted where the output's container cannot hold them."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import Protocol

import av
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import AttachmentStream, Stream
from av.subtitles.stream import SubtitleStream

_AUDIO = MappingProxyType({"mp4": "aac", "mov": "aac", "matroska": "aac", "webm": "libopus"})
_SUBTITLES = MappingProxyType({"mp4": "mov_text", "mov": "mov_text", "matroska": "subrip", "webm": "webvtt"})
_BITMAPS = ("pgssub", "hdmv_pgs_subtitle", "dvdsub", "dvd_subtitle", "dvbsub", "dvb_subtitle", "xsub", "dvb_teletext")
_BITS_PER_CHANNEL = 96_000
_OPUS_RATE = 48_000
# What libass-like encoders need to know; the look of plain text.
_ASS_HEADER = (
    b"[Script Info]\r\nScriptType: v4.00+\r\n\r\n[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize, PrimaryColour, "
    b"SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, "
    b"BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\r\nStyle: Default,Arial,16,&Hffffff,"
    b"&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0\r\n\r\n[Events]\r\nFormat: Layer, Start, End, Style, "
    b"Name, MarginL, MarginR, MarginV, Effect, Text\r\n"
)


class Track(Protocol):
    """One track of the source on its way to the output."""

    def feed(self, packet: Packet[Stream]) -> list[Packet[Stream]]:
        """Packets for the output, in the time base that they carry."""

    def flush(self) -> list[Packet[Stream]]:
        """What is left at the end."""


class CopiedTrack:
    """Packets as they are."""

    def __init__(self, out: Stream) -> None:
        self._out = out

    def feed(self, packet: Packet[Stream]) -> list[Packet[Stream]]:
        """The same packet, byte for byte."""
        packet.stream = self._out
        return [packet]

    def flush(self) -> list[Packet[Stream]]:
        """Nothing is held back."""
        return []


class AudioTrack:
    """Audio decoded and encoded anew."""

    def __init__(self, source: AudioStream, container: OutputContainer, codec: str) -> None:
        rate = _OPUS_RATE if codec == "libopus" else source.rate
        layout = source.layout.name if source.channels <= 8 and "channels" not in source.layout.name else "stereo"
        out = container.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(out, AudioStream)
        self.out = out
        self.out.bit_rate = _BITS_PER_CHANNEL * min(source.channels, 8)
        self._resampler: av.AudioResampler | None = None

    def feed(self, packet: Packet[Stream]) -> list[Packet[Stream]]:
        """The packets that this one completes."""
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            return []  # A damaged packet is a gap.
        return [p for frame in frames if isinstance(frame, av.AudioFrame) for p in self._encode(frame)]

    def flush(self) -> list[Packet[Stream]]:
        """The encoder's rest."""
        return [*self._encode(None), *self.out.encode(None)]

    def _encode(self, frame: av.AudioFrame | None) -> list[Packet[Stream]]:
        context = self.out.codec_context
        if self._resampler is None:
            # Only now is the encoder open and its frame size known.
            self._resampler = av.AudioResampler(
                context.format, context.layout, context.sample_rate, frame_size=context.frame_size or None
            )
        return [p for part in self._resampler.resample(frame) for p in self.out.encode(part)]


class SubtitleTrack:
    """Text subtitles in another format; times are kept, styles where the format has them."""

    def __init__(self, source: SubtitleStream, container: OutputContainer, codec: str) -> None:
        self._source = source
        out = container.add_stream(codec)
        assert isinstance(out, SubtitleStream)
        self.out = out
        self.out.codec_context.subtitle_header = source.codec_context.subtitle_header or _ASS_HEADER

    def feed(self, packet: Packet[Stream]) -> list[Packet[Stream]]:
        """The converted line; nothing for the gaps between lines."""
        subtitle = self._source.codec_context.decode2(packet)
        if subtitle is None or not len(subtitle):
            return []
        made = self.out.codec_context.encode_subtitle(subtitle)
        made.stream = self.out
        made.time_base = packet.time_base
        made.pts = made.dts = packet.pts
        made.duration = packet.duration
        return [made]

    def flush(self) -> list[Packet[Stream]]:
        """Nothing is held back."""
        return []


def add_track(source: Stream, container: OutputContainer, muxer: str) -> tuple[Stream, Track | None] | None:
    """Add a track like `source` to the output: its stream and what feeds it (None for attachments).

    None, and nothing added, where the container cannot hold it in any form.
    """
    if isinstance(source, AttachmentStream):
        return (_attach(source, container), None) if muxer == "matroska" else None
    if _holds(muxer, source):
        out = container.add_stream_from_template(source, opaque=True)
        return out, CopiedTrack(out)
    if isinstance(source, AudioStream) and source.codec_context is not None:
        audio = AudioTrack(source, container, _AUDIO[muxer])
        return audio.out, audio
    if isinstance(source, SubtitleStream) and source.codec_context and source.codec_context.name not in _BITMAPS:
        subtitles = SubtitleTrack(source, container, _SUBTITLES[muxer])
        return subtitles.out, subtitles
    return None


def _attach(source: AttachmentStream, container: OutputContainer) -> Stream:
    name = source.name or f"attachment-{source.index}"
    return container.add_attachment(name, source.mimetype or "application/octet-stream", source.data)


def _holds(muxer: str, source: Stream) -> bool:
    """True if the container takes the track's packets as they are; its muxer is asked, with a header to nowhere."""
    trial = av.open(io.BytesIO(), "w", format=muxer)
    try:
        trial.add_stream_from_template(source, opaque=True)
        trial.start_encoding()
        trial.close()
    except (av.error.FFmpegError, ValueError):
        return False
    return True
