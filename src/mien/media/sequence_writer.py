"""Writing animations and pages: frames go to the file as they come, and it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Protocol

import cv2
import numpy as np

from mien.errors import MienError, OptionsError, OutputError
from mien.media.atomic import atomic_output, check_output
from mien.media.frame import Frame, ImageFrame
from mien.media.image_encode import add_tiff_page, losses, png_8, png_16, png_metadata, rgba, to_8_bit, webp
from mien.media.image_tiff import TiffWriter
from mien.media.sequence import SequenceReader
from mien.media.sequence_apng import ApngMuxer
from mien.media.sequence_gif import GifMuxer
from mien.media.sequence_webp import WebpMuxer
from mien.media.video import VideoReader
from mien.options import SwapOptions

SEQUENCE_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {".gif": "GIF", ".webp": "WEBP", ".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF"}
)
"""Output extension → Pillow format."""
_PAGE_SECONDS = Fraction(1)
_HDR = (16, 18)
_WITH_ALPHA = ("yuva", "gbrap", "rgba", "bgra", "argb", "abgr", "ya")


class _Aborted(Exception):
    """Tells `atomic_output` to leave nothing."""


class _Muxer(Protocol):
    def add(self, photo: ImageFrame, start: Fraction, stop: Fraction) -> None:
        """Write a frame shown from `start` to `stop`, seconds."""

    def finish(self) -> list[str]:
        """Write what is left; what there is to tell."""


class SequenceWriter:
    """Writes frames to an animation or to the pages of a TIFF. `write` takes each frame over.

    One frame waits for the next one's time, and each format keeps the picture before; nothing else is held.

    Raises:
        OptionsError: an extension that is not supported, or a video that the format cannot hold.
        OutputError: the output cannot be written.
    """

    def __init__(self, path: Path, reader: SequenceReader | VideoReader, options: SwapOptions) -> None:
        kind = SEQUENCE_EXTENSIONS.get(path.suffix.lower())
        if kind is None:
            names = ", ".join(SEQUENCE_EXTENSIONS)
            raise OptionsError(f"{path}: holds one picture, and {reader.path} is an animation; use {names}")
        if isinstance(reader, VideoReader) and reader.info.color.transfer in _HDR:
            raise OptionsError(f"{path}: {reader.path} is HDR, which only videos hold; use .mp4 or .mkv")
        check_output(path)
        self.path, self._kind, self._reader, self._options = path, kind, reader, options
        self.notes: list[str] = []
        """What could not be kept."""
        self._losses: dict[str, None] = {}
        self._waiting: tuple[ImageFrame, Fraction] | None = None
        self._duration = _frame_time(reader)
        self._clock = Fraction(0)
        self._muxer: _Muxer | None = None
        self._output = atomic_output(path)
        self._file: BinaryIO | None = None
        self._done = False

    def __enter__(self) -> SequenceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, frame: Frame) -> None:
        """Write the next frame. The first one's size and type are the output's."""
        if self._done:
            raise OutputError(f"{self.path}: is already closed; open another writer")
        photo = frame if isinstance(frame, ImageFrame) else self._photo(frame)
        time = photo.time if photo.time is not None else self._clock
        if self._waiting is not None:
            before, start = self._waiting
            # What a sequence says of a frame holds; a video's frame lasts until the next.
            self._add(before, before.meta.duration if before.meta.duration is not None else time - start)
        self._waiting = (photo, time)

    def close(self) -> None:
        """Write what is left and move the file into place.

        Raises:
            OutputError: it cannot be written, or no frame was given.
        """
        if self._done:
            return
        if self._waiting is None:
            self.abort()
            raise OutputError(f"{self.path}: no frame was given to write")
        photo = self._waiting[0]
        self._add(photo, photo.meta.duration if photo.meta.duration is not None else self._duration)
        assert self._muxer is not None and self._file is not None
        with self._errors():
            notes = self._muxer.finish()
            self._file.close()
        self._done = True
        self._output.__exit__(None, None, None)
        self.notes += [*self._left_out(), *self._losses, *notes]

    def abort(self) -> None:
        """Stop and leave nothing behind."""
        opened, self._done, self._waiting = self._file is not None and not self._done, True, None
        if self._file is not None:
            with suppress(OSError):  # What is left in its buffer may find no room either.
                self._file.close()
        if opened:
            with suppress(_Aborted):
                self._output.__exit__(_Aborted, _Aborted(), None)

    def _add(self, photo: ImageFrame, duration: Fraction) -> None:
        if photo.meta.duration is None and duration <= 0:
            duration = self._duration
        start = self._clock
        self._clock, self._duration = start + duration, duration
        with self._errors():
            if self._muxer is None:
                place = self._output.__enter__()
                self._file = place.open("w+b")
                self._muxer = self._open(self._file, photo)
            for note in losses(photo, self._kind):
                self._losses[note] = None
            self._muxer.add(photo, start, self._clock)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Leave nothing on any error, and say what failed to be written."""
        try:
            yield
        except MienError:
            self.abort()
            raise
        except (OSError, ValueError, KeyError, cv2.error) as error:
            self.abort()
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = f"{self.path}: cannot be written ({why})"
            raise OutputError(f"{what}; check the disk's space, or use another format") from error
        except BaseException:
            self.abort()
            raise

    def _open(self, file: BinaryIO, photo: ImageFrame) -> _Muxer:
        plays = self._reader.plays if isinstance(self._reader, SequenceReader) else 0
        quality = self._options.image_quality
        if self._kind == "GIF":
            return _Gif(file, photo, plays)
        if self._kind == "WEBP":
            return _Webp(file, photo, plays, quality)
        return _Apng(file, photo, plays) if self._kind == "PNG" else _Tiff(file)

    def _photo(self, frame: Frame) -> ImageFrame:
        """A video's frame as a photo."""
        rgb = frame.read(frame.box)
        photo = ImageFrame(rgb if rgb.dtype == np.uint8 else np.rint(rgb * 255).astype(np.uint8), frame.index)
        photo.time = frame.time
        return photo

    def _left_out(self) -> list[str]:
        info, notes = self._reader.info, list[str]()
        if self._kind == "TIFF" and self._timed:
            notes.append("TIFF holds no times: only the order of the frames was kept")
        elif not self._timed and self._kind != "TIFF":
            notes.append(f"pages have no times: each is shown for {_PAGE_SECONDS} s")
        if info.audio_tracks or info.subtitle_tracks:
            tracks = info.audio_tracks + info.subtitle_tracks
            notes.append(f"{self._kind} holds only pictures: {tracks} audio and subtitle tracks were left out")
        if isinstance(self._reader, VideoReader) and info.pixel_format.startswith(_WITH_ALPHA):
            notes.append("the video's transparency was left out")
        return notes

    @property
    def _timed(self) -> bool:
        return not isinstance(self._reader, SequenceReader) or self._reader.timed


def _frame_time(reader: SequenceReader | VideoReader) -> Fraction:
    """Seconds of a frame that nothing else says the length of."""
    if isinstance(reader, SequenceReader):
        return _PAGE_SECONDS
    return 1 / reader.rate if reader.rate else Fraction(1, 25)


class _Gif:
    def __init__(self, file: BinaryIO, photo: ImageFrame, plays: int) -> None:
        self._muxer = GifMuxer(file, (photo.width, photo.height), plays)
        self._frames = 0

    def add(self, photo: ImageFrame, start: Fraction, stop: Fraction) -> None:
        native, array = photo.meta.native, rgba(photo.array)
        same = native is not None and native.mode in ("RGBA", "P") and native.array.shape[:2] == array.shape[:2]
        original = rgba(native.promoted()) if native is not None and same else None
        self._muxer.add(array, original, round(stop * 100) - round(start * 100))
        self._frames += 1

    def finish(self) -> list[str]:
        self._muxer.finish()
        muxer, notes = self._muxer, []
        if muxer.reduced:
            notes.append(f"{muxer.reduced} of {self._frames} frames have more colours than GIF holds: dithered")
        if muxer.hardened:
            notes.append(f"GIF holds no half transparency: {muxer.hardened} frames were made opaque or clear")
        if muxer.fast:
            notes.append(f"{muxer.fast} frames last under 0.02 s, too short for GIF viewers; use --fps 50 or .webp")
        return notes


class _Webp:
    def __init__(self, file: BinaryIO, photo: ImageFrame, plays: int, quality: int) -> None:
        meta = photo.meta
        encode = partial(webp, meta=meta, quality=quality)
        self._muxer = WebpMuxer(file, (photo.width, photo.height), plays, encode, cropped=meta.webp.lossless)
        self._muxer.start(icc=meta.icc_for(3), exif=meta.exif, xmp=meta.xmp)

    def add(self, photo: ImageFrame, start: Fraction, stop: Fraction) -> None:
        array = to_8_bit(photo.array)
        array = array if array.shape[2] == 3 else rgba(array)
        self._muxer.add(array, round(stop * 1000) - round(start * 1000))

    def finish(self) -> list[str]:
        self._muxer.finish()
        return []


class _Apng:
    def __init__(self, file: BinaryIO, photo: ImageFrame, plays: int) -> None:
        self._muxer = ApngMuxer(file, png_metadata(photo.meta, photo.colors), plays)
        self._shape, self._type = photo.array.shape, photo.array.dtype

    def add(self, photo: ImageFrame, start: Fraction, stop: Fraction) -> None:
        if (photo.array.shape, photo.array.dtype) != (self._shape, self._type):
            raise ValueError("the frames are not all of one kind")
        self._muxer.add(photo.array, png_16 if self._type == np.uint16 else png_8, stop - start)

    def finish(self) -> list[str]:
        self._muxer.finish()
        return []


class _Tiff:
    def __init__(self, file: BinaryIO) -> None:
        self._writer = TiffWriter(file)

    def add(self, photo: ImageFrame, start: Fraction, stop: Fraction) -> None:
        add_tiff_page(self._writer, photo)

    def finish(self) -> list[str]:
        return []
