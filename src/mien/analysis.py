"""What was found in a clip: faces by frame, tracks, cuts. Kept on disk, so memory does not grow with the clip."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import struct
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import numpy as np

from mien.errors import GeometryError, MediaError, OutputError
from mien.media.atomic import atomic_output
from mien.morphable import fit
from mien.spool import FRAME, Table, face_type, pack_faces, pack_track, track_type, unpack_face, unpack_track
from mien.tracking import GAP, REACH, Track, TrackTally, between, smoothed
from mien.types import Face, FloatArray

HIDDEN = 0.15
"""Share of a missed face's box that a found one covers when it hides it."""
MAGIC = b"mien-analysis-2\n"
_CHUNK = 1 << 20
_DIGEST = 32
"""Bytes of the digest that a saved file ends with."""
Tables: TypeAlias = tuple[Table, Table, Table]
"""Frames, faces and tracks."""


class Analysis(Sequence[tuple[Face, ...]]):
    """Faces by frame index: `analysis[i]`, `len(analysis)`, iteration. Made by `mien.analyze` or `load`.

    A face is given with smoothed landmarks and its track's embedding and shape, and one that a few frames
    of a track miss is filled in; `raw(i)` is what was found. Close it, or use it in `with`; a store that
    was not saved vanishes then.
    """

    def __init__(self, tables: Tables, size: tuple[int, int]) -> None:
        self._frames, self._faces, self._tracks = tables
        self.width, self.height = size
        self._track_rows = {int(row["id"]): i for i, row in enumerate(self._tracks.rows())}
        self._close = weakref.finalize(self, _close, *{table.file for table in tables})

    def close(self) -> None:
        """Let the store go; a temporary one is deleted."""
        self._close()

    @property
    def tracks(self) -> tuple[Track, ...]:
        """All tracks, by number."""
        return tuple(sorted((unpack_track(row) for row in self._tracks.rows()), key=lambda track: track.id))

    @property
    def face_count(self) -> int:
        """Faces found in all frames together."""
        return self._faces.count

    @property
    def frames_with_faces(self) -> int:
        """Frames in which a face was found."""
        return sum(int(row["count"] > 0) for row in self._frames.rows())

    @property
    def cuts(self) -> list[int]:
        """Indices of the frames that begin a new scene, the first frame left out."""
        return [i for i, row in enumerate(self._frames.rows()) if row["cut"]]

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
        filled = [face for face in missed if face is not None and not any(_hides(other, face) for other in found)]
        return tuple(self._described(face) for face in (*found, *filled))

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
            "tracks": self._tracks.count,
            "width": self.width,
            "height": self.height,
        }
        with atomic_output(Path(path).absolute()) as partial, partial.open("x+b") as out:
            text = json.dumps(header).encode()
            out.write(MAGIC + struct.pack("<I", len(text)) + text)
            self._frames.copy_to(out)
            self._faces.copy_to(out)
            self._tracks.copy_to(out)
            out.write(_digest(out, out.tell()))

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
        tracks = Table(file, track_type(header["embedding"]), faces.end, header["tracks"], frames)
        if file.seek(0, os.SEEK_END) != tracks.end + _DIGEST:
            raise ValueError("length")
        if _digest(file, tracks.end) != file.read(_DIGEST):
            raise ValueError("digest")
        return cls((frames, faces, tracks), (header["width"], header["height"]))

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

    def _described(self, face: Face) -> Face:
        row = self._track_rows.get(face.track)
        return face if row is None else unpack_track(self._tracks.read(row, row + 1)[0]).described(face)

    def _window(self, start: int, stop: int) -> Iterator[tuple[int, tuple[Face, ...]]]:
        """(index, faces as found) of each frame; one read for all."""
        rows = self._frames.read(start, stop)
        first = int(rows["first"][0])
        records = self._faces.read(first, int(rows["first"][-1] + rows["count"][-1]))
        for i, row in enumerate(rows):
            begin = int(row["first"]) - first
            yield start + i, tuple(unpack_face(r) for r in records[begin : begin + int(row["count"])])


class AnalysisWriter:
    """Takes the frames' faces in order; `finish` gives the Analysis. Unfinished, it leaves nothing behind.

    Args:
        size: width and height of the frames in pixels.

    Raises:
        OutputError: the temporary folder is full.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        try:
            self._files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 closed by _close
        except OSError as error:
            raise OutputError(
                f"cannot keep the analysis ({error.strerror}); set TMPDIR to a folder with space"
            ) from error
        self._close = weakref.finalize(self, _close, *self._files)
        self._frames = Table(self._files[0], FRAME)
        self._rest: tuple[Table, Table] | None = None
        self._open: dict[int, TrackTally] = {}

    def add(self, time: float, faces: Sequence[Face], *, cut: bool = False) -> None:
        """Append the next frame; the first face of all settles the length of embeddings (0 without one)."""
        index = self._frames.count
        if faces:
            first = faces[0].embedding
            table, _ = self._tables(0 if first is None else len(first))
            table.append(pack_faces(faces, table.dtype))
        before = 0 if self._rest is None else self._rest[0].count - len(faces)
        self._frames.append(np.array([(time, before, len(faces), cut)], FRAME))
        for face in faces:
            if face.track >= 0:
                if face.track not in self._open:
                    self._open[face.track] = TrackTally(index, face)
                self._open[face.track].add(index, face)
        self._retire([track for track, tally in self._open.items() if index - tally.last > GAP])

    def finish(self) -> Analysis:
        """All that was added; the writer is used up."""
        self._retire(list(self._open))
        self._close.detach()
        return Analysis((self._frames, *self._tables(0)), self._size)

    def _tables(self, embedding: int) -> tuple[Table, Table]:
        if self._rest is None:
            self._rest = Table(self._files[1], face_type(embedding)), Table(self._files[2], track_type(embedding))
        return self._rest

    def _retire(self, tracks: Iterable[int]) -> None:
        """Write tracks that cannot go on, so that memory holds only those that may."""
        for track in tracks:
            _, table = self._tables(0)
            table.append(pack_track(self._open.pop(track).track(), table.dtype))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def _digest(file: IO[bytes], size: int) -> bytes:
    """SHA-256 of the first `size` bytes; the file is then behind them."""
    total, left = hashlib.sha256(), size
    file.seek(0)
    while left and (part := file.read(min(left, _CHUNK))):
        total.update(part)
        left -= len(part)
    return total.digest()


def _near(window: Mapping[int, Face]) -> dict[int, Face]:
    return {offset: face for offset, face in window.items() if abs(offset) <= REACH}


def _fill(window: Mapping[int, Face]) -> Face | None:
    """The face at offset 0, from the nearest before and after where the gap is short."""
    before = max((offset for offset in window if offset < 0), default=None)
    after = min((offset for offset in window if offset > 0), default=None)
    if before is None or after is None or after - before - 1 > GAP:
        return None
    return between(window[before], window[after], -before / (after - before))


def _hides(front: Face, missed: Face) -> bool:
    """True if a face that was found lies over one that was not: it is behind, and nothing of it may be painted."""
    low, high = np.maximum(front.bbox[:2], missed.bbox[:2]), np.minimum(front.bbox[2:], missed.bbox[2:])
    shared = float(np.prod(np.maximum(high - low, 0)))
    return shared > HIDDEN * float(np.prod(missed.bbox[2:] - missed.bbox[:2]))


def _face_dict(face: Face) -> dict[str, Any]:
    return {
        "track": face.track,
        "bbox": _rounded(face.bbox),
        "score": round(face.score, 4),
        "presence": round(face.presence, 4),
        "keypoints": [_rounded(point) for point in face.keypoints],
        "pose": _pose_dict(face.mesh),
    }


def _pose_dict(mesh: FloatArray) -> dict[str, float] | None:
    """Degrees of the head, see `morphable.Fit`; None where the mesh is no face, as a lost landmarker may give it."""
    try:
        found = fit(mesh)
    except GeometryError:
        return None
    return {"yaw": round(found.yaw, 1), "pitch": round(found.pitch, 1), "roll": round(found.roll, 1)}


def _rounded(values: FloatArray) -> list[float]:
    return [round(float(value), 2) for value in values]


def _close(*files: IO[bytes]) -> None:
    for file in files:
        file.close()
