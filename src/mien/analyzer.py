"""Reads every frame of a clip once and finds, embeds and tracks its faces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from mien.analysis import Analysis, AnalysisWriter
from mien.errors import MediaError
from mien.faces import FaceFinder, Frame
from mien.profile import Phase
from mien.stages import Run, Stage
from mien.tracking import THUMBNAIL, Tracker, overlap
from mien.types import Face

LOOK_EVERY = 30
"""Frames between two thorough searches of a clip in which nothing is found."""
GROUP = 6
"""Frames of which the detector looks at one, where nothing is in doubt."""
SAME_PLACE = 0.3
"""Overlap of two boxes in neighbouring frames from which they are of one face."""


class TimedFrame(Frame, Protocol):
    """A frame with its place in the clip."""

    @property
    def index(self) -> int:
        """Number in the clip, from 0."""

    @property
    def time(self) -> Fraction | float | None:
        """Seconds; None for photos."""


class FrameAnalyzer:
    """Finds, embeds where it matters, and tracks the faces of frames given in order.

    The detector looks at the last frame of each group, where a scene begins, and where a face is lost; in between, the
    landmarker follows each face from frame to frame, then back from where the detector saw a new one. So a face is
    found in all frames of a group that show it, though most of them are never searched.

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
        self._looked = -LOOK_EVERY
        self._last: tuple[Face, ...] = ()

    def __call__(self, frame: TimedFrame) -> tuple[tuple[Face, ...], bool]:
        """The faces of one frame, numbered by track, and whether a new scene begins."""
        cut = self.cut(frame)
        (found,) = self.group([frame], [cut])
        return found, cut

    def cut(self, frame: TimedFrame) -> bool:
        """Whether a new scene begins with a frame; may run ahead of `group`, in a thread of its own."""
        return self._tracker.cut(frame.thumbnail(THUMBNAIL))

    def group(self, frames: Sequence[TimedFrame], cuts: Sequence[bool]) -> list[tuple[Face, ...]]:
        """The faces of some frames that follow each other, by what `cut` said of each."""
        found = self._forward(frames, cuts)
        self._back(frames, cuts, found)
        tracked = [self._tracked(*each) for each in zip(frames, cuts, found, strict=True)]
        self._last = tracked[-1]
        return tracked

    def _forward(self, frames: Sequence[TimedFrame], cuts: Sequence[bool]) -> list[list[Face]]:
        found, before = list[list[Face]](), list(self._last)
        for place, (frame, cut) in enumerate(zip(frames, cuts, strict=True)):
            begins = cut or frame.index - self._looked >= LOOK_EVERY
            followed: list[Face | None] = [None]
            if not (self._thorough or begins or place == len(frames) - 1):
                followed = self._finder.follow(frame, before, expressions=True)
            sure = [face for face in followed if face is not None]
            before = sure if len(sure) == len(followed) else list(self._find(frame, look=begins))
            found.append(before)
        return found

    def _back(self, frames: Sequence[TimedFrame], cuts: Sequence[bool], found: list[list[Face]]) -> None:
        """Follow what a frame shows and the one before does not to where it came from."""
        for place in range(len(frames) - 2, -1, -1):
            if cuts[place + 1]:
                continue
            new = [face for face in found[place + 1] if not _among(face, found[place])]
            for face in self._finder.follow(frames[place], new, expressions=True):
                if face is not None and not _among(face, found[place]):
                    found[place].append(face)

    def _tracked(self, frame: TimedFrame, cut: bool, found: Sequence[Face]) -> tuple[Face, ...]:
        self._tracker.begin(frame.index, cut)
        faces = tuple(found)
        lost = self._tracker.lost(frame.index, faces)
        if lost:
            faces += self._finder.recover(frame, lost, expressions=True)
        unsure = self._tracker.unsure(frame.index, faces)
        known = [
            replace(face, embedding=self._finder.embed(frame, face)) if ask else face
            for face, ask in zip(faces, unsure, strict=True)
        ]
        return self._tracker.update(frame.index, known)

    def _find(self, frame: TimedFrame, *, look: bool) -> tuple[Face, ...]:
        if look:
            self._careful, self._looked = self._thorough, frame.index
        faces = self._search(frame, thorough=self._careful, robust=self._thorough)
        if look and not faces and not self._careful:
            faces = self._search(frame, thorough=True, robust=True)
            self._careful = bool(faces)
        return faces

    def _search(self, frame: TimedFrame, *, thorough: bool, robust: bool) -> tuple[Face, ...]:
        return self._finder(frame, thorough=thorough, embeddings=False, expressions=True, robust=robust)


def _among(face: Face, others: Sequence[Face]) -> bool:
    return any(overlap(face.bbox, other.bbox) > SAME_PLACE for other in others)


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

    def begins(frame: TimedFrame) -> tuple[TimedFrame, bool]:
        return frame, analyzer.cut(frame)

    def analyze(group: Sequence[tuple[TimedFrame, bool]]) -> list[tuple[TimedFrame, tuple[Face, ...], bool]]:
        frames, cuts = zip(*group, strict=True)
        return list(zip(frames, analyzer.group(frames, cuts), cuts, strict=True))

    stages = [Stage("cut", begins), Stage("analyze", analyze, GROUP)]
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
