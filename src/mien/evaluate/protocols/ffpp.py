"""FaceForensics++, as papers on face swapping measure on it: identity retrieval, pose and expression.

Rössler et al., "FaceForensics++: Learning to Detect Manipulated Facial Images", 2019; the measures are those of Li et
al., "FaceShifter", 2020, and Chen et al., "SimSwap", 2020: some frames of each swapped clip are compared by an embedder
with frames of all original clips; the nearest should be of the source's. Pose and expression are compared with the
target's frame. Papers use CosFace, Hopenet and another expression network; here, models of the zoo do it, so figures
compare methods under the same judge (`--method`), not with those printed in papers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from mien.color import as_bytes
from mien.evaluate.protocols.clips import Pair, clip_of, pairs_of, sampled
from mien.evaluate.protocols.common import Report, Work, centre, faces_of, nearest, percent
from mien.faces import ArrayFrame, FaceFinder
from mien.identity import Identity
from mien.media import ImageFrame
from mien.mesh import topology
from mien.pipeline import Pipeline
from mien.shape import pose_difference
from mien.types import ByteArray, Face, FloatArray

Array = npt.NDArray[np.float64]

NEAR = 0.8
"""Cosine to the source above which a swap is counted as near."""
FIELDS = ("retrieved", "cosine", "near", "to_target", "pose", "expression")


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What is measured of a face in a frame."""

    face: Face
    embedding: FloatArray
    """(D,) L2-normalised, by the judge."""
    blendshapes: FloatArray
    """(52,)"""


Looks: TypeAlias = Sequence[Look | None]
"""The largest face of each sampled frame of a clip; None where none was found."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over pairs of clips, each counted once."""

    value: float
    interval: float
    """1.96 standard errors over pairs; NaN for one pair."""


@dataclass(frozen=True, slots=True)
class FfppReport(Report):
    """Swaps on FaceForensics++."""

    protocol: ClassVar[str] = "ffpp"
    method: str
    """The swapper, or the method whose clips were judged."""
    judge: str
    pairs: int
    frames: int
    """Frames compared."""
    missed: int
    """Frames of targets with a face in which the result shows none; they count as not retrieved."""
    gallery: int
    """Faces of original clips among which the nearest is looked for."""
    retrieval: Mean
    """Share of frames whose nearest face of the gallery is of the source's clip."""
    cosine: Mean
    """To the mean embedding of the source's clip."""
    near: Mean
    """Share of frames with that cosine above `NEAR`."""
    cosine_target: Mean
    """To the face of the target's own frame."""
    pose: Mean
    """Degrees between the heads of result and target."""
    expression: Mean
    """Euclidean distance of the 52 blendshape scores of result and target."""

    def table(self) -> list[list[str]]:
        """A row for each measure."""
        return [
            [self.method, "mean", "±"],
            ["identity retrieval, top 1", percent(self.retrieval.value, 1), percent(self.retrieval.interval, 1)],
            ["cosine to the source", *_told(self.cosine)],
            [f"cosine above {NEAR:g}", percent(self.near.value, 1), percent(self.near.interval, 1)],
            ["cosine to the target", *_told(self.cosine_target)],
            ["pose, degrees", *_told(self.pose)],
            ["expression, distance", *_told(self.expression)],
        ]


def evaluate(work: Work) -> FfppReport:
    """Run the protocol; see `protocols.run`."""
    options = work.options
    pairs = pairs_of(work.folder, options.method)[: options.limit or None]
    originals = sorted({name for pair in pairs for name in (pair.target, pair.source)})
    paths = {name: clip_of(work.folder, name) for name in originals}
    swapped = {pair: clip_of(work.folder, pair.name, options.method) for pair in pairs} if options.method else {}
    judge = Judge(work)
    total, done = len(originals) + len(pairs), 0
    looks: dict[str, Looks] = {}
    for name in originals:
        looks[name] = [judge(frame) for frame in sampled(paths[name], options.frames_per_clip)]
        work.tell(done := done + 1, total)
    gallery = Gallery(looks)
    rows, missed, empty = [], 0, list[str]()
    for pair in pairs:
        source, target = looks[pair.source], looks[pair.target]
        if not any(source) or not any(target):
            empty.append(pair.name)
            work.tell(done := done + 1, total)
            continue
        frames = sampled(swapped[pair] if options.method else paths[pair.target], options.frames_per_clip)
        if not options.method:
            frames = swap(work, sampled(paths[pair.source], options.frames_per_clip), source, frames)
        row, lost = measured(judge, gallery, pair, target, frames)
        rows.append(row)
        missed += lost
        work.tell(done := done + 1, total)
    means = _means(rows)
    return FfppReport(
        folder=str(work.folder),
        models=work.models(),
        notes=_notes(work, judge.name, empty, missed),
        method=options.method or options.swapper,
        judge=judge.name,
        pairs=len(rows),
        frames=sum(len(row) for row in rows),
        missed=missed,
        gallery=len(gallery.names),
        retrieval=means["retrieved"],
        cosine=means["cosine"],
        near=means["near"],
        cosine_target=means["to_target"],
        pose=means["pose"],
        expression=means["expression"],
    )


class Judge:
    """Looks at faces with the embedder that compares them."""

    def __init__(self, work: Work) -> None:
        self.name = work.options.judge or work.options.embedder
        self._finder = FaceFinder(work.zoo, work.options.model_copy(update={"embedder": self.name}))

    def __call__(self, image: ByteArray, near: FloatArray | None = None) -> Look | None:
        """The largest face of a frame, or the one whose bbox has its centre nearest to a (2,) point."""
        faces = faces_of(self._finder, image, expressions=True)
        face = nearest(faces, near) if near is not None else next(iter(faces), None)
        if face is None:
            return None
        assert face.blendshapes is not None  # they were asked for
        return Look(face, self._finder.embed(ArrayFrame(image), face), face.blendshapes)


class Gallery:
    """Faces of all original clips."""

    def __init__(self, looks: Mapping[str, Looks]) -> None:
        known = {name: [look.embedding for look in each if look] for name, each in looks.items()}
        self.names = [name for name, embeddings in known.items() for _ in embeddings]
        self._all = np.array([each for embeddings in known.values() for each in embeddings], np.float64)
        self._people = {name: _unit(np.mean(each, axis=0)) for name, each in known.items() if len(each)}

    def nearest(self, embedding: FloatArray) -> str:
        """The clip of the nearest face."""
        return self.names[int((self._all @ embedding).argmax())]

    def cosine(self, embedding: FloatArray, name: str) -> float:
        """To the mean embedding of a clip."""
        return float(self._people[name] @ embedding)


def measured(
    judge: Judge, gallery: Gallery, pair: Pair, target: Looks, frames: Sequence[ByteArray]
) -> tuple[Array, int]:
    """(frames, len(FIELDS)) of those of the target's frames that show a face, and in how many the result shows none."""
    rows, lost = [], 0
    for before, image in zip(target, frames, strict=False):  # a swapped clip may be shorter
        if before is None:
            continue
        after = judge(image, centre(before.face.bbox))
        lost += after is None
        rows.append(compared(before, after, gallery, pair))
    return np.array(rows, np.float64).reshape(-1, len(FIELDS)), lost


def compared(before: Look, after: Look | None, gallery: Gallery, pair: Pair) -> list[float]:
    """The values of `FIELDS` for one frame; only the first is told where the result shows no face."""
    if after is None:
        return [0.0, *[np.nan] * (len(FIELDS) - 1)]
    cosine = gallery.cosine(after.embedding, pair.source)
    return [
        float(gallery.nearest(after.embedding) == pair.source),
        cosine,
        float(cosine > NEAR),
        float(before.embedding @ after.embedding),
        pose_difference(before.face.mesh, after.face.mesh),
        float(np.linalg.norm(before.blendshapes - after.blendshapes)),
    ]


def swap(work: Work, source: Sequence[ByteArray], looks: Looks, frames: Sequence[ByteArray]) -> list[ByteArray]:
    """The frames with the person of the source's most frontal frame on every face.

    Args:
        source: frames of the source's clip.
        looks: their faces.
    """
    straight = np.asarray(topology().vertices * [1, -1, -1], np.float32)
    shown = [(frame, look.face.mesh) for frame, look in zip(source, looks, strict=True) if look]
    best = min(shown, key=lambda each: pose_difference(each[1], straight))[0]
    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder) / "source.png"
        cv2.imwrite(str(photo), np.ascontiguousarray(best[:, :, ::-1]))
        identity = Identity.from_images([photo], zoo=work.zoo, options=work.options)
    pipeline = Pipeline(work.options, work.zoo, identity.data)
    with pipeline.run([ImageFrame(frame.copy(), index) for index, frame in enumerate(frames)]) as run:
        return [as_bytes(frame.read(frame.box)) for frame in run]


def _means(rows: Sequence[Array]) -> dict[str, Mean]:
    """Means over pairs of the means over their frames, leaving out frames without a value."""
    each = np.array([[_mean(row[:, place]) for place in range(len(FIELDS))] for row in rows]).reshape(-1, len(FIELDS))
    means = {}
    for name, column in zip(FIELDS, each.T, strict=True):
        known = column[np.isfinite(column)]
        spread = 1.96 * float(known.std(ddof=1)) / len(known) ** 0.5 if len(known) > 1 else np.nan
        means[name] = Mean(_mean(known), spread)
    return means


def _mean(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _unit(vector: FloatArray) -> FloatArray:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def _told(mean: Mean) -> list[str]:
    return [f"{value:.3f}" if np.isfinite(value) else "–" for value in (mean.value, mean.interval)]


def _notes(work: Work, judge: str, empty: Sequence[str], missed: int) -> tuple[str, ...]:
    options, told = work.options, ["± is 1.96 standard errors over pairs of clips"]
    if not options.method and judge == options.embedder:
        told.append(f"{judge} judges what it helped to make; name another embedder by --judge")
    if empty:
        told.append(f"left out, since no face was found in source or target: {', '.join(empty)}")
    if missed:
        told.append(f"no face was found in {missed} swapped frames; they count as not retrieved, and in nothing else")
    if options.limit:
        told.append(f"only the first {options.limit} pairs were taken")
    return tuple(told)
