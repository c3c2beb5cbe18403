"""Writing a video: frames are encoded once; every other track, tag and timestamp comes from the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import av
from av.codec.context import Flags
from av.packet import Packet
from av.video.stream import VideoStream

from mien.errors import MienError, OptionsError, OutputError
from mien.media.atomic import check_output, commit, discard, partial_path, write_error
from mien.media.demux import open_video
from mien.media.encoders import EncoderPlan, plan_encoder, video_muxer
from mien.media.frame import Frame, VideoFrame
from mien.media.normalize import Converter, planar_format
from mien.media.remux import Remuxer
from mien.media.siting import siting_name
from mien.media.video import VideoReader
from mien.options import SwapOptions

_FIELDS = Flags.interlaced_dct | Flags.interlaced_me
# PyAV cannot tell the Matroska muxer a pixel's shape; these encoders put it into their own stream.
_TELL_ASPECT = ("libx264", "libx265")
_DEFAULT_RATE = Fraction(25)


class VideoWriter:
    """Writes frames to `path`, with all else from the reader's file. `write` takes each frame over.

    The file appears at `close`, whole; `abort`, or an exception inside `with`, leaves nothing.

    Raises:
        OptionsError: an extension or encoder options that do not fit.
        OutputError: the output cannot be written.
    """

    def __init__(self, path: Path, reader: VideoReader, options: SwapOptions) -> None:
        self.path, self._reader, self._options = path, reader, options
        self._muxer = video_muxer(path)
        check_output(path)
        info = reader.info
        size = (info.height, info.width) if info.rotation % 180 else (info.width, info.height)
        plan_encoder(self._muxer, options, planar_format(info.pixel_format), *size)  # Fail before the long work.
        self.notes: list[str] = []
        """What could not be kept as it was, in words."""
        self._encoding: _Encoding | None = None
        self._done = False

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, frame: Frame) -> None:
        """Encode the next frame. The first one's size and format are the output's."""
        if self._done:
            raise OutputError(f"{self.path}: is already closed; open another writer")
        if not isinstance(frame, VideoFrame):
            raise OptionsError(f"{self.path}: a photo cannot be a video's frame; write it to a photo")
        with self._errors():
            if self._encoding is None:
                plan = self._plan(frame)
                self._encoding = _Encoding(partial_path(self.path), self._muxer, self._reader.path, self._options)
                self._encoding.open(frame, plan)
            self._encoding.write(frame.picture)

    def close(self) -> None:
        """Encode what is left and move the file into place."""
        if self._done:
            return
        if self._encoding is None:
            self._done = True
            raise OutputError(f"{self.path}: no frame was given to write")
        encoding = self._encoding
        with self._errors():
            self.notes += encoding.finish()
        self._done = True
        commit(encoding.partial, self.path)

    def abort(self) -> None:
        """Stop and leave nothing behind."""
        self._done = True
        encoding, self._encoding = self._encoding, None
        if encoding is not None:
            encoding.abort()

    def _plan(self, frame: VideoFrame) -> EncoderPlan:
        picture = frame.picture
        plan = plan_encoder(self._muxer, self._options, picture.format.name, picture.width, picture.height)
        if plan.note:
            self.notes.append(plan.note)
        return plan

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            self.abort()
            raise (error if isinstance(error, MienError) else write_error(self.path, error)) from error
        except BaseException:
            self.abort()
            raise


class _Encoding:
    """One output file in the making."""

    def __init__(self, partial: Path, muxer: str, source: Path, options: SwapOptions) -> None:
        self.partial = partial
        self._muxer, self._options = muxer, options
        with open_video(source) as (_, stream):
            main = stream.index
        self._remuxer = Remuxer(source, main, muxer)
        self._converter = Converter()
        # mkv and webm may begin before 0, as MP4 does by its edit list; moved to 0, all times would change.
        keep = {} if muxer in ("mp4", "mov") else {"avoid_negative_ts": "disabled"}
        tags = self._remuxer.metadata_options
        if muxer in ("mp4", "mov"):
            tags["movflags"] = tags.get("movflags", "") + "+faststart"
        self._container = av.open(
            f"file:{partial}", "w", format=muxer, container_options={"fflags": "+bitexact", **keep, **tags}
        )
        self._stream: VideoStream | None = None
        self._last: int | None = None
        self._moved = 0

    def open(self, frame: VideoFrame, plan: EncoderPlan) -> None:
        """Open the encoder for frames like this one and write the header."""

        def add_video(source: VideoStream) -> VideoStream:
            self._stream = self._add_video(source, frame, plan)
            return self._stream

        picture = frame.picture
        self._remuxer.add_streams(self._container, add_video)
        try:
            self._container.start_encoding()
        except av.error.FFmpegError as error:
            if isinstance(error, OSError) and error.errno in (1, 2, 13, 28, 30):
                raise
            what = f"{plan.name} cannot be opened for {plan.pixel_format} at {picture.width}×{picture.height}"
            raise OptionsError(f"{what} ({error.strerror}); use another encoder or preset") from error
        self._remuxer.start()

    def write(self, picture: av.VideoFrame) -> None:
        """Encode one picture; the tracks beside it follow up to its time."""
        stream = self._video
        if picture.format.name != stream.codec_context.pix_fmt:
            picture = self._converter.to_format(picture, str(stream.codec_context.pix_fmt))
        picture.pict_type = 0  # Else the source's frame types are forced on the encoder.
        if self._remuxer.shift and picture.time_base and picture.pts is not None:
            picture.pts -= round(self._remuxer.shift / picture.time_base)
        if self._last is not None and picture.pts is not None and picture.pts <= self._last:
            picture.pts = self._last + 1
            self._moved += 1
        self._last = picture.pts
        self._mux(stream.encode(picture))

    def finish(self) -> list[str]:
        """Flush and close the file; what there is to tell."""
        self._mux(self._video.encode(None))
        self._remuxer.finish()
        self._container.close()
        self._remuxer.close()
        if self._moved:
            self._remuxer.notes.append(f"{self._moved} frames had times that went back and were moved on by one tick")
        return self._remuxer.notes

    def abort(self) -> None:
        """Remove the file. It goes first, so that closing does not finish it at length."""
        discard(self.partial)
        with suppress(av.error.FFmpegError, OSError):
            self._container.close()
        self._remuxer.close()
        discard(self.partial)

    @property
    def _video(self) -> VideoStream:
        assert self._stream is not None
        return self._stream

    def _mux(self, packets: Sequence[Packet[VideoStream]]) -> None:
        for packet in packets:
            stamp = packet.pts if packet.dts is None else packet.dts
            time = (stamp or 0) * packet.time_base + self._remuxer.shift
            self._container.mux(packet)
            self._remuxer.advance(time)

    def _add_video(self, source: VideoStream, frame: VideoFrame, plan: EncoderPlan) -> VideoStream:
        picture, options = frame.picture, dict(plan.options)
        layout = frame.format.planes
        siting = siting_name((layout.siting_x, layout.siting_y), source.codec_context.name)
        if siting and layout.shift_x and layout.shift_y:
            options["chroma_sample_location"] = siting
        rate = source.average_rate or source.guessed_rate or _DEFAULT_RATE
        stream = self._container.add_stream(plan.name, rate=rate, options=options)
        assert isinstance(stream, VideoStream)
        context = stream.codec_context
        context.width, context.height, context.pix_fmt = picture.width, picture.height, plan.pixel_format
        context.time_base = picture.time_base or 1 / rate
        aspect = source.sample_aspect_ratio
        if aspect:
            context.sample_aspect_ratio = aspect
        if aspect not in (None, 1) and self._muxer in ("matroska", "webm") and plan.name not in _TELL_ASPECT:
            self._remuxer.notes.append(f"pixels of {aspect} cannot be told in {self._muxer} by {plan.name}; use .mp4")
        tagged = picture
        if picture.format.name != plan.pixel_format:
            tagged = self._converter.to_format(picture, plan.pixel_format)
        context.colorspace, context.color_range = tagged.colorspace, tagged.color_range
        context.color_primaries, context.color_trc = tagged.color_primaries, tagged.color_trc
        context.flags |= Flags.frame_duration
        if picture.interlaced_frame:
            context.flags |= _FIELDS
            context.field_order = source.codec_context.field_order
        context.thread_count = self._options.encoder_threads
        context.thread_type = "FRAME" if plan.name in ("libx264", "libx265") else "AUTO"
        stream.set_display_matrix(frame.format.display_matrix)
        return stream
