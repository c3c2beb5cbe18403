"""Identity as the referee of a swap: how much the output looks like the source, and still like the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

import numpy as np

from mien.errors import GeometryError, OptionsError
from mien.faces import FaceFinder, Frame
from mien.report import FaceReport
from mien.tracking import SAMPLE_EVERY
from mien.types import Face, FloatArray


@dataclass(slots=True)
class _Tally:
    """Count, mean and least of a series."""

    count: int = 0
    total: float = 0.0
    least: float = inf

    def add(self, value: float) -> None:
        self.count, self.total, self.least = self.count + 1, self.total + value, min(self.least, value)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass(slots=True, eq=False)
class _Record:
    """What is kept of one track, whatever its length."""

    first: int
    bbox: FloatArray
    faces: int = 0
    source: _Tally = field(default_factory=_Tally)
    target: _Tally = field(default_factory=_Tally)

    @classmethod
    def restored(cls, told: Mapping[str, Any]) -> _Record:
        """What `Referee.state` tells of a track."""
        tallies = {name: _Tally(**told[name]) for name in ("source", "target")}
        return cls(told["first"], np.asarray(told["bbox"], np.float32), told["faces"], **tallies)


class Referee:
    """Compares faces before and after, at a track's first appearance and at every twelfth one after it.

    Call `before` on the untouched frame and `after` on the written one, with what `before` gave.

    Args:
        identity: (D,) embedding of the source.
        state: what `state` gave in an earlier run over the frames before these.
    """

    def __init__(self, finder: FaceFinder, identity: FloatArray, state: Mapping[str, Any] | None = None) -> None:
        self._finder, self._identity = finder, identity
        self._records = {int(track): _Record.restored(told) for track, told in (state or {}).items()}

    def state(self) -> dict[str, Any]:
        """Everything counted so far, ready for JSON."""
        return {str(track): {**asdict(r), "bbox": r.bbox.tolist()} for track, r in self._records.items()}

    def before(self, frame: Frame, index: int, faces: Sequence[Face]) -> list[FloatArray | None]:
        """Count the faces; embeddings of those whose turn it is to be compared, None for the others."""
        return [self._embedding(frame, face) if self._due(index, face) else None for face in faces]

    def after(self, frame: Frame, faces: Sequence[Face], originals: Sequence[FloatArray | None]) -> None:
        """Compare the faces whose original embedding is given."""
        for face, original in zip(faces, originals, strict=True):
            if original is None:
                continue
            output = self._finder.embed(frame, face)
            record = self._records[face.track]
            record.source.add(float(output @ self._identity))
            record.target.add(float(output @ original))

    def verdicts(self, min_similarity: float) -> tuple[FaceReport, ...]:
        """One report for each track, by number."""
        return tuple(_verdict(track, record, min_similarity) for track, record in sorted(self._records.items()))

    def _due(self, index: int, face: Face) -> bool:
        record = self._records.setdefault(face.track, _Record(index, face.bbox))
        record.faces += 1
        return record.faces % SAMPLE_EVERY == 1

    def _embedding(self, frame: Frame, face: Face) -> FloatArray | None:
        try:
            found = self._finder.embed(frame, face)
        except GeometryError:
            return None  # keypoints that coincide: nothing to compare
        if found.shape != self._identity.shape:
            raise OptionsError(
                f"the identity's embedding has {len(self._identity)} values and the embedder's {len(found)}; "
                "make the identity with the embedder that is used here"
            )
        return found


def _verdict(track: int, record: _Record, min_similarity: float) -> FaceReport:
    source = record.source.mean
    return FaceReport(
        track=track,
        frames=record.faces,
        first_frame=record.first,
        bbox=tuple(round(float(v), 2) for v in np.asarray(record.bbox)),
        samples=record.source.count,
        similarity_source=source,
        similarity_source_min=None if source is None else record.source.least,
        similarity_target=record.target.mean,
        doubtful=source is None or source < min_similarity,
    )
