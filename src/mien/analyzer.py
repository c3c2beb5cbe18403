"""Reads every frame of a clip once and finds, embeds and tracks its faces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from mien.analysis import Analysis, AnalysisWriter
from mien.errors import MediaError
from mien.faces import FaceFinder, Frame
from mien.profile import Phase
from mien.stages import Run, Stage
from mien.tracking import THUMBNAIL, Tracker
from mien.types import Face

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


class FrameAnalyzer:
    """Finds, embeds where it matters, and tracks the faces of frames given in order; causal.

    Robust search, where it is not off, runs when a thorough look finds nothing (every LOOK_EVERY frames, and after a
    cut), and where a track's face is missing: near its place, for at most two faces of a frame and until the track
    ends, `tracking.GAP` + 1 frames after its last face.

    Args:
        thorough: search every frame for lying and tiny faces; otherwise only now and then, and then
            for as long as it takes to follow what was found.
    """

    def __init__(self, finder: FaceFinder, *, thorough: bool = False) -> None:
        self._finder, self._thorough = finder, thorough
        self._tracker = Tracker()
        self._careful = thorough

    def __call__(self, frame: TimedFrame) -> tuple[tuple[Face, ...], bool]:
        """The faces, numbered by track, and whether a new scene begins."""
        cut = self._tracker.begin(frame.index, frame.thumbnail(THUMBNAIL))
        faces = self._find(frame, look=frame.index % LOOK_EVERY == 0 or cut)
        lost = self._tracker.lost(frame.index, faces)
        if lost:
            faces += self._finder.recover(frame, lost, expressions=True)
        unsure = self._tracker.unsure(frame.index, faces)
        known = [
            replace(face, embedding=self._finder.embed(frame, face)) if ask else face
            for face, ask in zip(faces, unsure, strict=True)
        ]
        return self._tracker.update(frame.index, known), cut

    def _find(self, frame: TimedFrame, *, look: bool) -> tuple[Face, ...]:
        if look:
            self._careful = self._thorough
        faces = self._search(frame, thorough=self._careful, robust=self._thorough)
        if look and not faces and not self._careful:
            faces = self._search(frame, thorough=True, robust=True)
            self._careful = bool(faces)
        return faces

    def _search(self, frame: TimedFrame, *, thorough: bool, robust: bool) -> tuple[Face, ...]:
        return self._finder(frame, thorough=thorough, embeddings=False, expressions=True, robust=robust)


def analyze_frames(
    frames: Iterable[TimedFrame],
    analyzer: FrameAnalyzer,
    *,
    queue_size: int = 4,
    timings: dict[str, float] | None = None,
    progress: Callable[[int], None] | None = None,
    cancel: Callable[[], None] | None = None,
    limit: float | None = None,
    profile: Phase | None = None,
) -> Analysis:
    """Read every frame once, decoding beside the search; `progress` gets the number of frames done.

    Args:
        limit, profile: see `stages.Run`.

    Raises:
        MediaError: there is no frame.
    """

    def analyze(frame: TimedFrame) -> tuple[TimedFrame, tuple[Face, ...], bool]:
        return frame, *analyzer(frame)

    stages = [Stage("analyze", analyze)]
    writer: AnalysisWriter | None = None
    with ExitStack() as stack:
        run: Run[Any] = stack.enter_context(
            Run(
                frames,
                stages,
                queue_size=queue_size,
                timings=timings,
                cancel=cancel,
                limit=limit,
                profile=profile,
            )
        )
        for done, (frame, faces, cut) in enumerate(run, 1):
            writer = writer or stack.enter_context(AnalysisWriter((frame.width, frame.height)))
            writer.add(float(frame.time or 0), faces, cut=cut)
            if progress is not None:
                progress(done)
        if writer is None:
            raise MediaError("the target holds no frame; check that it plays")
        return writer.finish()
