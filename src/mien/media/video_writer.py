"""Writing a video: frames are encoded once; every other track, tag and timestamp comes from the source.

The frames go into segments (see `segments`) in `OUT.mien/`, noted in a journal there, and are joined at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import av

from mien.errors import MienError, OptionsError, OutputError
from mien.media.atomic import check_output
from mien.media.demux import open_container, open_video
from mien.media.encoders import EncoderPlan, plan_encoder, video_muxer
from mien.media.frame import Frame, VideoFrame
from mien.media.journal import Journal, Segment
from mien.media.mux import Muxer
from mien.media.normalize import Converter, planar_format
from mien.media.remux import Span, own_shift
from mien.media.segments import EncoderSetup, SegmentWriter, file_sha256, packets
from mien.media.siting import siting_name
from mien.media.video import Place, VideoReader
from mien.media.work import LOCK, WorkFolder, sync, sync_folder, write_error
from mien.options import SwapOptions

# PyAV cannot tell the Matroska muxer a pixel's shape; these encoders put it into their own stream.
_TELL_ASPECT = ("libx264", "libx265")
_DEFAULT_RATE = Fraction(25)
_MKV_TICK = Fraction(1, 1000)
_JOURNAL = "journal.jsonl"
_BOTTOM_FIRST = (3, 4)
"""FFmpeg's codes of field orders that show the bottom field first."""
_FIRST_TAG = 256
"""FFmpeg's own errors are four letters as a number; the system's are small."""


class VideoWriter:
    """Writes frames to `path`, with all else from the reader's file. `write` takes each frame over.

    The file appears at `close`, whole; `abort`, or an exception inside `with`, leaves nothing. An interruption
    (Ctrl-C, or the process's death) after `begin` leaves the closed segments in `folder` for a run that resumes.

    Raises:
        OptionsError: an extension or encoder options that do not fit.
        OutputError: the output cannot be written, or another run is writing it.
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
        self.state: Any = None
        """What `close_segment` was given at the end of the last closed segment; None at the beginning."""
        self._work = WorkFolder(path, keep=options.resume)
        self._journal: Journal | None = None
        self._unread = self._work.file(_JOURNAL).exists()
        """Whether an interrupted run's work lies there of which is not known that this run goes on with it."""
        self._begun = False
        self._encoder_notes: list[str] = []
        self._setup: EncoderSetup | None = None
        self._segment: SegmentWriter | None = None
        self._converter = Converter()
        self._last: Place | None = None
        self._done = False

    @property
    def folder(self) -> Path:
        """Where the work lies until the output is whole."""
        return self._work.path

    def begin(self, header: Mapping[str, Any]) -> Place | None:
        """Open the journal: a new one, or with the option `resume` that of the interrupted run.

        Args:
            header: JSON values that tell what the output is made from; of an interrupted run they must be equal.

        Returns:
            The last frame that is in a closed segment; None if there is none.

        Raises:
            OutputError: the interrupted run was another one.
        """
        with self._errors():
            self._begun = True
            if not self._work.file(_JOURNAL).exists():
                self._journal = Journal.create(self._work.file(_JOURNAL), header)
                return None
            self._journal = Journal.load(self._work.file(_JOURNAL), self.path, header)
            place = self._take_up(self._journal)
            self._unread = False
            return place

    def write(self, frame: Frame) -> None:
        """Encode the next frame. The first one's size and format are the output's."""
        if self._done:
            raise OutputError(f"{self.path}: is already closed; open another writer")
        if not isinstance(frame, VideoFrame):
            raise OptionsError(f"{self.path}: a photo cannot be a video's frame; write it to a photo")
        with self._errors():
            if self._journal is None:
                self._journal = Journal.create(self._work.file(_JOURNAL), {})
                self._unread = False
            if self._setup is None:
                self._setup = self._set_up(frame)
            if self._segment is None:
                self._segment = self._open_segment(self._journal)
            picture = frame.picture
            assert picture.pts is not None
            self._last = Place(frame.index, picture.pts)
            if self._shift and picture.time_base:
                picture.pts -= round(self._shift / picture.time_base)
            self._segment.write(picture)

    @property
    def segment_is_full(self) -> bool:
        """True when the caller should close the segment."""
        return self._segment is not None and self._segment.frames >= self._options.segment_frames

    def close_segment(self, state: Any = None) -> None:
        """Close the segment, so that a later run can go on after it.

        Args:
            state: JSON of what the caller knows of the frames so far; given back as `state`.
        """
        segment, journal = self._segment, self._journal
        if segment is None or journal is None or self._setup is None:
            return
        with self._errors():
            digest, lag = segment.close()
            before = journal.segments[-1] if journal.segments else None
            text = json.dumps(state).encode()
            number = len(journal.segments)
            self._state_file(number).write_bytes(text)
            sync(self._state_file(number))
            sync_folder(self.folder)  # Else the journal could tell of files that a power loss took.
            assert segment.last_pts is not None and self._last is not None
            journal.append(
                Segment(
                    number=number,
                    sha256=digest,
                    last_frame=self._last.index,
                    source_pts=self._last.pts,
                    last_pts=segment.last_pts,
                    lag=lag,
                    moved=segment.moved + (before.moved if before else 0),
                    setup=self._setup.to_dict(),
                    state=hashlib.sha256(text).hexdigest(),
                    notes=self._encoder_notes,
                )
            )
            self._segment = None
            if number:
                self._state_file(number - 1).unlink(missing_ok=True)

    def close(self) -> None:
        """Encode what is left, join the segments and move the file into place."""
        if self._done:
            return
        self.close_segment()
        if self._journal is None or self._setup is None:
            self.abort()
            raise OutputError(f"{self.path}: no frame was given to write")
        with self._errors():
            self._work.publish(self._join(self._journal, self._setup))
        self._done = True

    def abort(self) -> None:
        """Stop and leave nothing behind but what an interrupted run left and this one has not gone on with."""
        self._stop()
        if self._unread:
            self._work.release()
        else:
            self._work.remove()

    def suspend(self) -> None:
        """Stop and leave what is done since `begin` to a run that resumes."""
        self._stop()
        empty = {LOCK, _JOURNAL}
        if self._begun and self._work.held and any(path.name not in empty for path in self.folder.iterdir()):
            self._work.release()
        else:
            self.abort()

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, Exception):
            self.abort()
        else:
            self.suspend()

    def _stop(self) -> None:
        self._done = True
        if self._segment is not None:
            self._segment.abort()
            self._segment = None

    def _take_up(self, journal: Journal) -> Place | None:
        """Trust the segments that are as they were noted, and the state that goes with the last of them."""
        good = 0
        while good < len(journal.segments) and file_sha256(self._segment_file(good)) == journal.segments[good].sha256:
            good += 1
        if good and file_sha256(self._state_file(good - 1)) != journal.segments[good - 1].state:
            good = 0  # States before the last are not kept.
        if good < len(journal.segments):
            journal.forget(good)
        if not good:
            return None
        last = journal.segments[-1]
        self._setup = EncoderSetup.from_dict(last.setup)
        self.state = json.loads(self._state_file(good - 1).read_bytes())
        self._encoder_notes = list(last.notes)
        self.notes += [*last.notes, f"resumed after {last.last_frame + 1} frames"]
        return Place(last.last_frame, last.source_pts)

    def _open_segment(self, journal: Journal) -> SegmentWriter:
        assert self._setup is not None
        before = journal.segments[-1].last_pts if journal.segments else None
        return SegmentWriter(self._segment_file(len(journal.segments)), self._setup, self._converter, before)

    def _segment_file(self, number: int) -> Path:
        return self._work.file(f"{number:06d}.packets")

    def _state_file(self, number: int) -> Path:
        return self._work.file(f"{number:06d}.state")

    def _join(self, journal: Journal, setup: EncoderSetup) -> Path:
        partial = self._work.file("output")
        lag = max(segment.lag for segment in journal.segments)
        with Muxer(partial, self._muxer, self._source, setup, self._span) as muxer:
            for segment in journal.segments:
                muxer.write(packets(self._segment_file(segment.number), setup.time_base, lag))
            self.notes += muxer.finish()
        if moved := journal.segments[-1].moved:
            self.notes.append(f"{moved} frames had times that went back or were too near, and were moved on")
        return partial

    def _set_up(self, frame: VideoFrame) -> EncoderSetup:
        picture = frame.picture
        plan = plan_encoder(self._muxer, self._options, picture.format.name, picture.width, picture.height)
        if plan.note:
            self._encoder_notes.append(plan.note)
        if picture.format.name != plan.pixel_format:
            picture = self._converter.to_format(picture, plan.pixel_format)
        setup = self._describe(frame, picture, plan)
        trial = self._work.file("trial")
        with Muxer(trial, self._muxer, self._source, setup, self._span) as muxer:
            muxer.abort()  # What cannot be written is known before the long work.
        trial.unlink(missing_ok=True)
        self.notes += self._encoder_notes
        return setup

    def _describe(self, frame: VideoFrame, picture: av.VideoFrame, plan: EncoderPlan) -> EncoderSetup:
        layout, options = frame.format.planes, dict(plan.options)
        with open_video(self._reader.path) as (_, stream):
            rate = self._reader.rate or stream.guessed_rate or _DEFAULT_RATE
            field_order, codec = stream.codec_context.field_order, stream.codec_context.name
            told = stream.sample_aspect_ratio is not None
        aspect = self._reader.sample_aspect if told else Fraction(0)
        interlaced = frame.picture.interlaced_frame
        if interlaced and plan.name == "libx264" and field_order in _BOTTOM_FIRST:  # It takes FFmpeg's for top first.
            options["x264-params"] = ":".join([*filter(None, [options.get("x264-params")]), "bff=1"])
        siting = siting_name((layout.siting_x, layout.siting_y), codec)
        if siting and layout.shift_x and layout.shift_y:
            options["chroma_sample_location"] = siting
        if aspect not in (0, 1) and self._muxer in ("matroska", "webm") and plan.name not in _TELL_ASPECT:
            self._encoder_notes.append(f"pixels of {aspect} cannot be told in {self._muxer} by {plan.name}; use .mp4")
        return EncoderSetup.of(
            picture,
            EncoderPlan(plan.name, plan.pixel_format, options),
            time_base=picture.time_base or 1 / rate,
            rate=rate,
            aspect=aspect,
            field_order=field_order if interlaced else None,
            threads=self._options.encoder_threads,
            step=self._step(picture.time_base or 1 / rate),
            display_matrix=frame.format.display_matrix,
        )

    def _step(self, time_base: Fraction) -> int:
        return max(1, ceil(_MKV_TICK / time_base)) if self._muxer in ("matroska", "webm") else 1

    @cached_property
    def _source(self) -> tuple[Path, int]:
        with open_video(self._reader.path) as (_, stream):
            return self._reader.path, stream.index

    @cached_property
    def _span(self) -> Span:
        """What of the source the output shows; the frames of a part of it, or at a rate of their own, begin at 0."""
        (start, end), begin = self._reader.window, max(self._reader.info.start, Fraction(0))
        if self._reader.resampled:
            return Span(start if start > begin else None, end, start)
        return Span(shift=self._shift)

    @cached_property
    def _shift(self) -> Fraction:
        """Seconds to take from the frames' times."""
        if self._reader.resampled:
            return Fraction(0)
        with open_container(self._reader.path) as container:
            return own_shift(container)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OptionsError as error:
            self.abort()
            raise (error if str(self.path) in str(error) else OptionsError(f"{self.path}: {error}")) from error
        except av.error.FFmpegError as error:
            self.abort()
            if isinstance(error, OSError) and 0 < (error.errno or 0) < _FIRST_TAG:
                raise write_error(self.path, error) from error
            told = f"{self.path}: cannot be written as {self._muxer} ({error.strerror})"
            raise OutputError(f"{told}; use another format, such as .mkv, or another encoder") from error
        except OSError as error:
            self.abort()
            raise (error if isinstance(error, MienError) else write_error(self.path, error)) from error
        except BaseException as error:
            if isinstance(error, Exception):
                self.abort()
            else:
                self.suspend()
            raise
