"""What a swap did, for people and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; handed to the `progress` callback."""

    phase: Literal["analyze", "render"]
    done: int
    """Frames."""
    total: int | None
    """Frames of this phase; None where the file does not say."""
    seconds: float
    """Since the phase began."""

    @property
    def fps(self) -> float:
        """Frames per second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class FaceReport:
    """One swapped face: in a photo a face, in a video a track."""

    track: int
    frames: int
    """Frames in which it was swapped."""
    first_frame: int
    bbox: tuple[float, ...]
    """x0, y0, x1, y1 in the first frame, pixels."""
    samples: int
    """Frames in which it was compared."""
    similarity_source: float | None
    """Mean cosine similarity of the output face to the source; None if it could not be compared."""
    similarity_source_min: float | None
    similarity_target: float | None
    """Mean cosine similarity of the output face to the face that was there."""
    doubtful: bool
    """The mean similarity to the source is below `min_similarity`."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model that took part."""

    name: str
    task: str
    licence: str
    commercial: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `mien.swap`."""

    output: str
    kind: Literal["image", "sequence", "video"]
    frames: int
    """Frames written."""
    frames_with_faces: int
    """Frames in which a face was swapped, those filled in between two appearances included."""
    tracks: int
    faces: tuple[FaceReport, ...]
    models: tuple[ModelReport, ...]
    device: str
    """Where the networks really ran."""
    timings: Mapping[str, float]
    """Busy seconds by stage; stages run beside each other, so they add up to more than `seconds`."""
    peak_memory_mb: float | None
    """Largest resident size of this process so far, in 10⁶ bytes; None where the system does not tell."""
    seconds: float
    notes: tuple[str, ...] = ()
    """What the output could not keep of the target."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), indent=2)


def peak_memory_mb() -> float | None:
    """Largest resident size that this process ever had, in 10⁶ bytes: `ru_maxrss`, KiB on Linux, bytes on macOS."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
