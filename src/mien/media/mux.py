"""Putting the output together: the encoded video, and everything else of the source in step with it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import av
from av.container import OutputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from mien.media.remux import Remuxer, Span
from mien.media.segments import EncoderSetup


class Muxer:
    """One output file in the making; its header is written on construction. Use it in `with`.

    Args:
        partial: the file to write.
        muxer: FFmpeg's name of its format.
        source: the file whose other tracks, tags and chapters are kept, and its video stream's index.

    Raises:
        OptionsError: the encoder does not open.
        av.error.FFmpegError: the file cannot be written.
    """

    def __init__(self, partial: Path, muxer: str, source: tuple[Path, int], setup: EncoderSetup, span: Span) -> None:
        self._setup = setup
        self._container: OutputContainer | None = None
        self._remuxer = Remuxer(*source, muxer, span)
        # mkv and webm may begin before 0, as MP4 does by its edit list; moved to 0, all times would change.
        keep = {} if muxer in ("mp4", "mov") else {"avoid_negative_ts": "disabled"}
        tags = self._remuxer.metadata_options
        if muxer in ("mp4", "mov"):
            tags["movflags"] = tags.get("movflags", "") + "+faststart"
        options = {"fflags": "+bitexact", **keep, **tags}
        try:
            self._container = av.open(f"file:{partial}", "w", format=muxer, container_options=options)
            self._open(self._container)
        except BaseException:
            self.abort()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.abort()

    def write(self, packets: Iterable[Packet[Any]]) -> None:
        """Add packets of the video; the tracks beside it follow up to their times."""
        for packet in packets:
            assert packet.dts is not None
            time = packet.dts * packet.time_base
            packet.stream = self._video
            self._output.mux(packet)
            self._remuxer.advance(time)

    def finish(self) -> list[str]:
        """Write the rest and close the file; what could not be kept, in words."""
        self._remuxer.finish()
        self._output.close()
        self._remuxer.close()
        return self._remuxer.notes

    def abort(self) -> None:
        """Close what is open; the file is of no use."""
        with suppress(av.error.FFmpegError, OSError):
            if self._container is not None:
                self._container.close()
        self._remuxer.close()

    @property
    def _output(self) -> OutputContainer:
        assert self._container is not None
        return self._container

    def _open(self, container: OutputContainer) -> None:
        self._remuxer.add_streams(container, self._add_video)
        try:
            container.start_encoding()
        except av.error.FFmpegError as error:
            if isinstance(error, OSError) and error.errno in (2, 5, 13, 27, 28, 30, 122):
                raise
            raise self._setup.refused(error) from error
        self._remuxer.start()

    def _add_video(self, source: VideoStream) -> VideoStream:
        setup = self._setup
        # Its encoder only says what the file's header must tell; the segments were encoded by others like it.
        stream = self._output.add_stream(setup.name, rate=setup.rate, options=dict(setup.options))
        assert isinstance(stream, VideoStream)
        setup.apply(stream.codec_context)
        stream.set_display_matrix(setup.display_matrix)
        self._video = stream
        return stream
