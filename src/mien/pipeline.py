"""The swap as stages over frames: find ‖ mask ‖ swap ‖ paste. No files, no globals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from mien import paste
from mien.analysis import Analysis
from mien.analyzer import FrameAnalyzer, TimedFrame
from mien.errors import GeometryError, InputError
from mien.facemask import face_masks
from mien.faces import EXPRESSION, FaceFinder
from mien.identity_data import IdentityData
from mien.options import SwapOptions
from mien.paste import Crop
from mien.profile import Phase
from mien.referee import Referee
from mien.report import FaceReport
from mien.runtime.session import Session
from mien.source import companion, prepare_source
from mien.stages import Run, Stage
from mien.tracking import GAP, TrackTally
from mien.types import Face, FloatArray, Patch
from mien.zoo.cards import Task
from mien.zoo.contracts import Masker, Style, Swapper, check_patches
from mien.zoo.registry import Zoo


class Frame(TimedFrame, paste.Frame, Protocol):
    """A frame that faces are found in and pasted into."""


F = TypeVar("F", bound=Frame)

MOST_FRAMES = 16
"""Of a batch whose size is chosen here."""
MOST_PIXELS = 1 << 24
"""Of crops, from which on a batch takes no further frame: more would need memory, and no device gains from it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A frame on its way through the stages."""

    frame: Frame
    faces: Sequence[Face] = ()
    """One for each crop, in frame pixels; the nearest face last, since it is pasted over the others."""
    crops: Sequence[Crop] = ()
    masks: Sequence[Mapping[str, FloatArray] | None] = ()
    patches: Sequence[Patch] = ()


def models_of(options: SwapOptions, zoo: Zoo) -> list[Any]:
    """All models that the pixels of a swap follow from, loaded; those that only read sources are left out.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """
    swapper: Swapper = zoo.load("swapper", options.swapper)
    names: list[tuple[Task, str]] = [
        *(("detector", name) for name in options.detector.split("+")),
        ("landmarker", options.landmarker),
        ("embedder", options.embedder),
        ("expression", EXPRESSION),
        *(("masker", name) for name in options.masker.split("+") if swapper.needs_mask),
    ]  # fmt: skip
    needed: tuple[tuple[Task, str], ...] = (
        ("embedder", swapper.needs.embedder),
        ("converter", swapper.needs.converter),
    )
    companions = [companion(zoo, task, name, swapper) for task, name in needed if name]
    return [swapper, *(zoo.load(task, name) for task, name in names), *companions]


def batch_frames(options: SwapOptions, zoo: Zoo) -> int:
    """How many frames' faces go to the swapper as one batch: what the option says, or what the device gains.

    1 for a swapper without a network. The choice is that of the measurement when the network was made ready for its
    device, which is none on the CPU: there, a batch costs as much as its items.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """
    swapper: Swapper = zoo.load("swapper", options.swapper)
    networks = [part for part in getattr(swapper, "__dict__", {}).values() if isinstance(part, Session)]
    if not networks:
        return 1
    return options.batch_frames or min(MOST_FRAMES, max(1, *(network.batch for network in networks)))


class Pipeline:
    """Puts an identity on every face of frames: `for frame in pipeline.run(frames)`.

    Whoever iterates owns progress, cancelling and back-pressure. With an `analysis` of the same frames
    the work on each depends on nothing else, so any part can be rendered alone; without one, faces
    are found and tracked on the way.

    Args:
        state: what `state` gave in an earlier run over the frames before these.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """

    def __init__(
        self,
        options: SwapOptions,
        zoo: Zoo,
        identity: IdentityData,
        analysis: Analysis | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._options, self._zoo, self._analysis = options, zoo, analysis
        self._swapper: Swapper = zoo.load("swapper", options.swapper)
        self._batch = batch_frames(options, zoo)
        self._source = prepare_source(zoo, self._swapper, identity)
        self._style = Style(options.skin_tone, options.shape, options.fusion)
        maskers = options.masker.split("+") if self._swapper.needs_mask else ()
        self._maskers: Sequence[Masker] = [zoo.load("masker", name) for name in maskers]
        self._finder = FaceFinder(zoo, options)
        told = state or {"frames_with_faces": 0, "tracks": {}}
        self._referee = Referee(self._finder, identity.embedding, told["tracks"])
        self._states: dict[int, dict[str, Any]] = {}
        self.frames_with_faces: int = told["frames_with_faces"]
        """Frames in which a face was swapped, of all runs."""
        self.timings: dict[str, float] = {}
        """Busy seconds by stage, of all runs."""

    def run(self, frames: Iterable[F], profile: Phase | None = None) -> Run[F]:
        """The frames in order, faces swapped in place. Close it, or use it in `with`, to stop early.

        Raises:
            InputError: the analysis is of other frames.
            PipelineError: a stage did not stop when closed.
            Exception: whatever the frames or a model raised.
        """
        find = self._look_up if self._analysis is not None else _Finding(self._finder)
        stages = [
            Stage("find", find),
            Stage("mask", self._mask, self._batch, self._ends_batch),
            Stage("swap", self._swap, self._batch, self._ends_batch),
            Stage("paste", self._paste),
        ]
        return Run(
            frames,
            stages,
            queue_size=self._options.queue_size,
            timings=self.timings,
            cancel=self._zoo.cancel,
            limit=self._options.model_timeout,
            profile=profile,
        )

    def state(self, index: int | None = None) -> dict[str, Any]:
        """What was counted up to a frame that ends a segment (every `segment_frames`), or in all; ready for JSON.

        It can be had once, and only while the run is there: later stages may be some frames behind.
        """
        if index is not None:
            return self._states.pop(index)
        return {"frames_with_faces": self.frames_with_faces, "tracks": self._referee.state()}

    def verdicts(self) -> tuple[FaceReport, ...]:
        """Similarities of each face swapped so far."""
        return self._referee.verdicts(self._options.min_similarity)

    def _look_up(self, frame: Frame) -> _Work:
        analysis = self._analysis
        assert analysis is not None
        if frame.index >= len(analysis) or (frame.width, frame.height) != (analysis.width, analysis.height):
            raise InputError(
                f"frame {frame.index} of {frame.width}×{frame.height} is not in the analysis ({len(analysis)} frames "
                f"of {analysis.width}×{analysis.height}); analyse this file again"
            )
        return _Work(frame, analysis[frame.index])

    def _ends_batch(self, work: _Work) -> bool:
        """Batches are counted from a segment's start and end with it, so that a run that goes on there has the same."""
        place = work.frame.index % self._options.segment_frames + 1
        return place % self._batch == 0 or place == self._options.segment_frames

    def _mask(self, works: Sequence[_Work]) -> list[_Work]:
        """Cut the crops out and segment those of all frames in one batch."""
        works = [self._cut(work) for work in works]
        masks = iter(self._segment([crop for work in works for crop in work.crops]))
        return [replace(work, masks=list(islice(masks, len(work.crops)))) for work in works]

    def _cut(self, work: _Work) -> _Work:
        pairs = [(face, self._read(work.frame, face)) for face in sorted(work.faces, key=_area)]
        faces = [face for face, crop in pairs if crop is not None]
        crops = [crop for _, crop in pairs if crop is not None]
        return replace(work, faces=faces, crops=crops)

    def _segment(self, crops: Sequence[Crop]) -> list[Mapping[str, FloatArray] | None]:
        doubted = [i for i, crop in enumerate(crops) if self._maskers and self._needs_mask(crop)]
        masks: list[Mapping[str, FloatArray] | None] = [None] * len(crops)
        if doubted:
            images, meshes = [crops[i].image for i in doubted], [crops[i].face.mesh for i in doubted]
            for i, mask in zip(doubted, face_masks(images, meshes, self._maskers), strict=True):
                masks[i] = mask
        return masks

    def _read(self, frame: Frame, face: Face) -> Crop | None:
        try:
            return paste.read_crop(frame, face, self._swapper, self._options.pixel_boost)
        except GeometryError:
            return None  # keypoints that coincide are no face

    def _needs_mask(self, crop: Crop) -> bool:
        """Whether something may lie in front of this face; a swapper that judges occlusion itself needs fewer."""
        return True

    def _swap(self, works: Sequence[_Work]) -> list[_Work]:
        return [work for batch in _batches(works) for work in self._swap_batch(batch)]

    def _swap_batch(self, works: Sequence[_Work]) -> Sequence[_Work]:
        """Render all faces of some frames in one batch."""
        crops, masks = [crop for work in works for crop in work.crops], [mask for work in works for mask in work.masks]
        if not crops:
            return works
        images, faces = [crop.image for crop in crops], [crop.face for crop in crops]
        patches = self._swapper(images, faces, masks, self._source, self._style)
        check_patches(self._swapper.card.name, patches, images)
        each = iter(patches)
        return [replace(work, patches=list(islice(each, len(work.crops)))) for work in works]

    def _paste(self, work: _Work) -> Frame:
        originals = self._referee.before(work.frame, work.frame.index, work.faces)
        for crop, patch in zip(work.crops, work.patches, strict=True):
            paste.paste(work.frame, crop, patch)
        self._referee.after(work.frame, work.faces, originals)
        self.frames_with_faces += bool(work.crops)
        if (work.frame.index + 1) % self._options.segment_frames == 0:
            self._states[work.frame.index] = self.state()
            if len(self._states) > self._options.queue_size + 2:  # Nobody asks for them.
                del self._states[min(self._states)]
        return work.frame


class _Finding:
    """Finds faces on the way, for frames without an analysis."""

    def __init__(self, finder: FaceFinder) -> None:
        self._analyzer = FrameAnalyzer(finder)
        self._tracks: dict[int, TrackTally] = {}

    def __call__(self, frame: Frame) -> _Work:
        faces, _ = self._analyzer(frame)
        kept = {n: tally for n, tally in self._tracks.items() if frame.index - tally.last <= GAP + 1}
        for face in faces:
            if face.track not in kept:
                kept[face.track] = TrackTally(frame.index, face)
            kept[face.track].add(frame.index, face)
        self._tracks = kept
        return _Work(frame, [kept[face.track].track().described(face) for face in faces])


def _batches(works: Sequence[_Work]) -> Iterator[Sequence[_Work]]:
    """Frames in order, as many together as `MOST_PIXELS` allows."""
    batch, pixels = list[_Work](), 0
    for work in works:
        batch.append(work)
        pixels += sum(crop.image.shape[0] * crop.image.shape[1] for crop in work.crops)
        if pixels >= MOST_PIXELS:
            yield batch
            batch, pixels = [], 0
    if batch:
        yield batch


def _area(face: Face) -> float:
    return float((face.bbox[2] - face.bbox[0]) * (face.bbox[3] - face.bbox[1]))
