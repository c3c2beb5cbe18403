"""Faces as rows of fixed size in a file: appended while a clip is read, and read back by number."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from mien.errors import ModelError, OutputError
from mien.types import Face

FRAME = np.dtype([("time", "<f8"), ("first", "<i8"), ("count", "<i4"), ("cut", "<i4")])
"""Of each frame: seconds, number of its first face's row, faces, whether it begins a scene."""
_CHUNK = 256


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

    def append(self, rows: npt.NDArray[Any]) -> None:
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

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start ≤ i < stop."""
        size = self.dtype.itemsize
        with self._lock:
            self.file.seek(self._start + start * size)
            return np.frombuffer(self.file.read((stop - start) * size), self.dtype)

    def copy_to(self, out: IO[bytes]) -> None:
        """Append all rows to another file."""
        for start in range(0, self.count, _CHUNK):
            out.write(self.read(start, min(self.count, start + _CHUNK)).tobytes())


def pack(faces: Sequence[Face], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Faces as rows.

    Raises:
        ModelError: an embedding of another length.
    """
    rows = np.zeros(len(faces), dtype)
    for row, face in zip(rows, faces, strict=True):
        for name in ("bbox", "score", "keypoints", "mesh", "presence", "track"):
            row[name] = getattr(face, name)
        for name in ("blendshapes", "embedding"):
            value = getattr(face, name)
            if value is None:
                continue
            if value.shape != row[name].shape:
                raise ModelError(f"{name} of {len(value)} values after {row[name].shape[0]}; use one model for a clip")
            row[name], row["has_" + name] = value, 1
    return rows


def unpack(row: Any) -> Face:
    """A face that owns its arrays."""
    return Face(
        bbox=row["bbox"].copy(),
        score=float(row["score"]),
        keypoints=row["keypoints"].copy(),
        mesh=row["mesh"].copy(),
        presence=float(row["presence"]),
        embedding=row["embedding"].copy() if row["has_embedding"] else None,
        blendshapes=row["blendshapes"].copy() if row["has_blendshapes"] else None,
        track=int(row["track"]),
    )
