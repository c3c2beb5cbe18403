"""What was found in a clip: faces by frame, tracks, cuts. Kept on disk, so memory does not grow with the clip."""

from __future__ import annotations

import json
import operator
import os
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Protocol, Self

import numpy as np

from mien.errors import MediaError, OutputError
from mien.faces import FaceFinder, Frame
from mien.spool import FRAME, Table, face_type, pack, unpack
from mien.stages import Run, Stage
from mien.tracking import GAP, REACH, THUMBNAIL, Track, Tracker, between, smoothed
from mien.types import Face, FloatArray

MAGIC = b"mien-analysis-1\n"
LOOK_EVERY = 30
"""Frames between two thorough searches of a clip in which nothing is found."""


class TimedFrame(Frame, Protocol):
    """A frame with its place in the clip."""

    @property
    def index(self) -> int:
        """Number in the clip, from 0."""

    @property
    def time(self) -> Fraction | float | None:
        """Seconds; None for photos."""


class Analysis(Sequence[tuple[Face, ...]]):
    """Faces by frame index: `analysis[i]`, `len(analysis)`, iteration. Made by `mien.analyze` or `load`.

    A face is given with smoothed landmarks, and one that a few frames of a track miss is filled in;
    `raw(i)` is what was found. Close it, or use it in `with`; a store that was not saved vanishes then.
    """

    def __init__(self, frames: Table, faces: Table, size: tuple[int, int], tracks: tuple[Track, ...]) -> None:
        self._frames, self._faces = frames, faces
        self.width, self.height = size
        self.tracks = tracks
        self._close = weakref.finalize(self, _close, frames.file, faces.file)

    def close(self) -> None:
        """Let the store go; a temporary one is deleted."""
        self._close()

    @property
    def face_count(self) -> int:
        """Faces found in all frames together."""
        return self._faces.count

    @property
    def frames_with_faces(self) -> int:
        """Frames in which a face was found."""
        return sum(int((rows["count"] > 0).sum()) for _, rows in self._rows())

    @property
    def cuts(self) -> list[int]:
        """Indices of the frames that begin a new scene, the first frame left out."""
        return [start + int(i) for start, rows in self._rows() for i in np.flatnonzero(rows["cut"])]

    def time(self, index: int) -> float:
        """Seconds of a frame; 0 for a photo."""
        index = self._index(index)
        return float(self._frames.read(index, index + 1)["time"][0])

    def raw(self, index: int) -> tuple[Face, ...]:
        """The faces found in a frame, as measured."""
        index = self._index(index)
        return next(faces for _, faces in self._window(index, index + 1))

    def __len__(self) -> int:
        return self._frames.count

    def __getitem__(self, index: Any) -> Any:
        index = self._index(index)
        tracks: dict[int, dict[int, Face]] = {}
        for other, faces in self._window(max(0, index - GAP), min(len(self), index + GAP + 1)):
            for face in faces:
                tracks.setdefault(face.track, {})[other - index] = face
        found = [smoothed(_near(tracks[f.track])) if f.track >= 0 else f for f in self.raw(index)]
        missed = [_fill(window) for track, window in tracks.items() if track >= 0 and 0 not in window]
        return (*found, *(face for face in missed if face is not None))

    def __iter__(self) -> Iterator[tuple[Face, ...]]:
        return (self[i] for i in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, all of it or nothing.

        Raises:
            OutputError: the file cannot be written.
        """
        header = {
            "frames": len(self),
            "faces": self.face_count,
            "embedding": int(self._faces.dtype["embedding"].shape[0]),
            "width": self.width,
            "height": self.height,
            "tracks": [{**asdict(t), "bbox": [float(v) for v in t.bbox]} for t in self.tracks],
        }
        target = Path(path).absolute()
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with partial.open("xb") as out:
                text = json.dumps(header).encode()
                out.write(MAGIC + struct.pack("<I", len(text)) + text)
                self._frames.copy_to(out)
                self._faces.copy_to(out)
            os.replace(partial, target)
        except OSError as error:
            raise OutputError(f"{path}: cannot write the analysis ({error.strerror}); choose another place") from error
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Analysis:
        """Open what `save` wrote.

        Raises:
            MediaError: not such a file, or not whole.
        """
        try:
            file = Path(path).open("rb")  # noqa: SIM115 closed with the Analysis
        except OSError as error:
            raise MediaError(f"{path}: cannot read the analysis ({error.strerror}); check the path") from error
        try:
            return cls._read(file)
        except (ValueError, KeyError, TypeError, struct.error) as error:
            file.close()
            raise MediaError(f"{path}: not a whole mien analysis; make it again with mien.analyze") from error

    @classmethod
    def _read(cls, file: IO[bytes]) -> Analysis:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError("magic")
        (length,) = struct.unpack("<I", file.read(4))
        header = json.loads(file.read(length))
        start = len(MAGIC) + 4 + length
        frames = Table(file, FRAME, start, header["frames"])
        faces = Table(file, face_type(header["embedding"]), frames.end, header["faces"], frames)
        if os.fstat(file.fileno()).st_size != faces.end:
            raise ValueError("length")
        tracks = tuple(Track(**{**t, "bbox": np.array(t["bbox"], np.float32)}) for t in header["tracks"])
        return cls(frames, faces, (header["width"], header["height"]), tracks)

    def to_dict(self, *, faces: bool = True) -> dict[str, Any]:
        """Ready for JSON: sizes, cuts and tracks, and with `faces` also every face of every frame."""
        result: dict[str, Any] = {
            "width": self.width,
            "height": self.height,
            "frame_count": len(self),
            "face_count": self.face_count,
            "cuts": self.cuts,
            "tracks": [
                {"track": t.id, "first": t.first, "last": t.last, "faces": t.faces, "bbox": _rounded(t.bbox)}
                for t in self.tracks
            ],
        }
        if faces:
            result["frames"] = [
                {"frame": i, "time": round(self.time(i), 6), "faces": [_face_dict(face) for face in self[i]]}
                for i in range(len(self))
            ]
        return result

    def _index(self, index: Any) -> int:
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"frame {number} of {len(self)}")
        return number % len(self)

    def _rows(self) -> Iterator[tuple[int, Any]]:
        """The frames' rows in parts, each with the index of its first."""
        step = 4096
        return ((i, self._frames.read(i, min(i + step, len(self)))) for i in range(0, len(self), step))

    def _window(self, start: int, stop: int) -> Iterator[tuple[int, tuple[Face, ...]]]:
        """(index, faces as found) of each frame; one read for all."""
        rows = self._frames.read(start, stop)
        first = int(rows["first"][0])
        records = self._faces.read(first, int(rows["first"][-1] + rows["count"][-1]))
        for i, row in enumerate(rows):
            begin = int(row["first"]) - first
            yield start + i, tuple(unpack(r) for r in records[begin : begin + int(row["count"])])


class AnalysisWriter:
    """Takes the frames' faces in order; `finish` gives the Analysis. Unfinished, it leaves nothing behind.

    Args:
        size: width and height of the frames in pixels.

    Raises:
        OutputError: the temporary folder is full.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 closed by _close
        self._close = weakref.finalize(self, _close, *self._files)
        self._frames = Table(self._files[0], FRAME)
        self._faces: Table | None = None
        self._tracks: dict[int, Track] = {}

    def add(self, time: float, faces: Sequence[Face], *, cut: bool = False) -> None:
        """Append the next frame; the first face of all settles the length of embeddings (0 without one)."""
        if self._faces is None and faces:
            first = faces[0].embedding
            self._faces = Table(self._files[1], face_type(0 if first is None else len(first)))
        index, before = self._frames.count, 0 if self._faces is None else self._faces.count
        if self._faces is not None and faces:
            self._faces.append(pack(faces, self._faces.dtype))
        self._frames.append(np.array([(time, before, len(faces), cut)], FRAME))
        for face in faces:
            if face.track >= 0:
                track = self._tracks.get(face.track) or Track(face.track, index, index, 0, face.bbox.copy())
                self._tracks[face.track] = replace(track, last=index, faces=track.faces + 1)

    def finish(self) -> Analysis:
        """All that was added; the writer is used up."""
        self._close.detach()
        faces = self._faces or Table(self._files[1], face_type(0))
        return Analysis(self._frames, faces, self._size, tuple(self._tracks.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class FrameAnalyzer:
    """Finds, embeds where it matters, and tracks the faces of frames given in order; causal.

    Args:
        thorough: search every frame for lying and tiny faces; otherwise only now and then, and then
            for as long as it takes to follow what was found.
    """

    def __init__(self, finder: FaceFinder, *, thorough: bool = False, expressions: bool = False) -> None:
        self._finder, self._thorough, self._expressions = finder, thorough, expressions
        self._tracker = Tracker()
        self._careful = thorough

    def __call__(self, frame: TimedFrame) -> tuple[tuple[Face, ...], bool]:
        """The faces, numbered by track, and whether a new scene begins."""
        cut = self._tracker.begin(frame.index, frame.thumbnail(THUMBNAIL))
        faces = self._find(frame, look=frame.index % LOOK_EVERY == 0 or cut)
        unsure = self._tracker.unsure(frame.index, faces)
        known = [
            replace(face, embedding=self._finder.embed(frame, face)) if ask else face
            for face, ask in zip(faces, unsure, strict=True)
        ]
        return self._tracker.update(frame.index, known), cut

    def _find(self, frame: TimedFrame, *, look: bool) -> tuple[Face, ...]:
        if look:
            self._careful = self._thorough
        faces = self._finder(frame, thorough=self._careful, embeddings=False, expressions=self._expressions)
        if look and not faces and not self._careful:
            faces = self._finder(frame, thorough=True, embeddings=False, expressions=self._expressions)
            self._careful = bool(faces)
        return faces


def analyze_frames(
    frames: Iterable[TimedFrame],
    analyzer: FrameAnalyzer,
    *,
    queue_size: int = 4,
    timings: dict[str, float] | None = None,
    progress: Callable[[int], None] | None = None,
    cancel: Callable[[], None] | None = None,
) -> Analysis:
    """Read every frame once, decoding beside the search; `progress` gets the number of frames done.

    Raises:
        MediaError: there is no frame.
    """

    def analyze(frame: TimedFrame) -> tuple[TimedFrame, tuple[Face, ...], bool]:
        return frame, *analyzer(frame)

    stages = [Stage("analyze", analyze)]
    writer: AnalysisWriter | None = None
    with ExitStack() as stack:
        run: Run[Any] = stack.enter_context(Run(frames, stages, queue_size=queue_size, timings=timings, cancel=cancel))
        for done, (frame, faces, cut) in enumerate(run, 1):
            writer = writer or stack.enter_context(AnalysisWriter((frame.width, frame.height)))
            writer.add(float(frame.time or 0), faces, cut=cut)
            if progress is not None:
                progress(done)
        if writer is None:
            raise MediaError("the target holds no frame; check that it plays")
        return writer.finish()


def _near(window: Mapping[int, Face]) -> dict[int, Face]:
    return {offset: face for offset, face in window.items() if abs(offset) <= REACH}


def _fill(window: Mapping[int, Face]) -> Face | None:
    """The face at offset 0, from the nearest before and after where the gap is short."""
    before = max((offset for offset in window if offset < 0), default=None)
    after = min((offset for offset in window if offset > 0), default=None)
    if before is None or after is None or after - before - 1 > GAP:
        return None
    return between(window[before], window[after], -before / (after - before))


def _face_dict(face: Face) -> dict[str, Any]:
    return {
        "track": face.track,
        "bbox": _rounded(face.bbox),
        "score": round(face.score, 4),
        "presence": round(face.presence, 4),
        "keypoints": [_rounded(point) for point in face.keypoints],
    }


def _rounded(values: FloatArray) -> list[float]:
    return [round(float(value), 2) for value in values]


def _close(*files: IO[bytes]) -> None:
    for file in files:
        file.close()
