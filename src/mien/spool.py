"""Faces and tracks as rows of fixed size in a file: appended while a clip is read, and read back by number."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mien.errors import ModelError, OutputError
from mien.tracking import Track
from mien.types import Face, FloatArray

FRAME = np.dtype([("time", "<f8"), ("first", "<i8"), ("count", "<i4"), ("cut", "<i4")])
"""Of each frame: seconds, number of its first face's row, faces, whether it begins a scene."""
_CHUNK = 256
Rows: TypeAlias = npt.NDArray[Any]
"""Structured array."""


def face_type(embedding: int) -> np.dtype[Any]:
    """Row of a face with embeddings of this length; 0 keeps none."""
    return np.dtype(
        [
            ("bbox", "<f4", (4,)),
            ("score", "<f4"),
            ("keypoints", "<f4", (5, 2)),
            ("mesh", "<f4", (478, 3)),
            ("presence", "<f4"),
            ("track", "<i4"),
            ("has_blendshapes", "u1"),
            ("has_embedding", "u1"),
            ("blendshapes", "<f4", (52,)),
            ("embedding", "<f4", (embedding,)),
        ]
    )


def track_type(embedding: int) -> np.dtype[Any]:
    """Row of a track with embeddings of this length."""
    return np.dtype(
        [
            ("id", "<i4"),
            ("first", "<i4"),
            ("last", "<i4"),
            ("faces", "<i4"),
            ("bbox", "<f4", (4,)),
            ("has_shape", "u1"),
            ("has_embedding", "u1"),
            ("shape", "<f4", (468, 3)),
            ("embedding", "<f4", (embedding,)),
        ]
    )


class Table:
    """Rows of fixed size in a file, read by number from any thread; `beside` shares its file."""

    def __init__(
        self, file: IO[bytes], dtype: np.dtype[Any], start: int = 0, count: int = 0, beside: Table | None = None
    ) -> None:
        self.file, self.dtype, self.count = file, dtype, count
        self._start = start
        self._lock: threading.Lock = threading.Lock() if beside is None else beside._lock

    @property
    def end(self) -> int:
        """Byte after the last row."""
        return self._start + self.count * self.dtype.itemsize

    def append(self, rows: Rows) -> None:
        """Write rows after the last one."""
        try:
            with self._lock:
                self.file.seek(self.end)
                self.file.write(rows.tobytes())
                self.file.flush()
                self.count += len(rows)
        except OSError as error:
            place = tempfile.gettempdir()
            raise OutputError(f"{place}: cannot keep the analysis ({error.strerror}); set TMPDIR elsewhere") from error

    def read(self, start: int, stop: int) -> Rows:
        """Rows start ≤ i < stop."""
        size = self.dtype.itemsize
        with self._lock:
            self.file.seek(self._start + start * size)
            return np.frombuffer(self.file.read((stop - start) * size), self.dtype)

    def rows(self) -> Iterator[Any]:
        """Every row, read in parts."""
        for part in self._parts():
            yield from part

    def copy_to(self, out: IO[bytes]) -> None:
        """Append all rows to another file."""
        for part in self._parts():
            out.write(part.tobytes())

    def _parts(self) -> Iterator[Rows]:
        return (self.read(i, min(self.count, i + _CHUNK)) for i in range(0, self.count, _CHUNK))


def pack_faces(faces: Sequence[Face], dtype: np.dtype[Any]) -> Rows:
    """Faces as rows.

    Raises:
        ModelError: an embedding of another length.
    """
    names = ("bbox", "score", "keypoints", "mesh", "presence", "track")
    return _pack(faces, dtype, names, ("blendshapes", "embedding"))


def pack_track(track: Track, dtype: np.dtype[Any]) -> Rows:
    """A track as one row."""
    return _pack([track], dtype, ("id", "first", "last", "faces", "bbox"), ("shape", "embedding"))


def unpack_face(row: Any) -> Face:
    """A face that owns its arrays."""
    return Face(
        bbox=row["bbox"].copy(),
        score=float(row["score"]),
        keypoints=row["keypoints"].copy(),
        mesh=row["mesh"].copy(),
        presence=float(row["presence"]),
        embedding=_optional(row, "embedding"),
        blendshapes=_optional(row, "blendshapes"),
        track=int(row["track"]),
    )


def unpack_track(row: Any) -> Track:
    """A track that owns its arrays."""
    return Track(
        id=int(row["id"]),
        first=int(row["first"]),
        last=int(row["last"]),
        faces=int(row["faces"]),
        bbox=row["bbox"].copy(),
        embedding=_optional(row, "embedding"),
        shape=_optional(row, "shape"),
    )


def _pack(items: Sequence[Any], dtype: np.dtype[Any], names: Sequence[str], optional: Sequence[str]) -> Rows:
    rows = np.zeros(len(items), dtype)
    for row, item in zip(rows, items, strict=True):
        for name in names:
            row[name] = getattr(item, name)
        for name in optional:
            value = getattr(item, name)
            if value is None:
                continue
            if value.shape != row[name].shape:
                raise ModelError(f"{name} of shape {value.shape} after {row[name].shape}; use one model for a clip")
            row[name], row["has_" + name] = value, 1
    return rows


def _optional(row: Any, name: str) -> FloatArray | None:
    return row[name].copy() if row["has_" + name] else None
