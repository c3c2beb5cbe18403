"""The library: swap, analyse, compare. Each call owns what it opens, and leaves nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from pydantic import ValidationError

from mien.analysis import Analysis
from mien.analyzer import FrameAnalyzer, analyze_frames
from mien.errors import MediaError, NoFaceError, OptionsError, OutputError
from mien.faces import FaceFinder
from mien.identity import Identity
from mien.identity_data import IdentityData
from mien.media import Frame, Reader, VideoReader, VideoWriter, Writer, open_reader, open_writer
from mien.media.atomic import atomic_output, check_output
from mien.media.video import Place
from mien.options import AnalyzeOptions, SwapOptions
from mien.pipeline import Pipeline, models_of
from mien.profile import Phase, Profile
from mien.report import ModelReport, Progress, Report, peak_memory_mb
from mien.resume import fingerprint, kept_analysis
from mien.types import FloatArray
from mien.zoo.registry import Zoo

PathLike: TypeAlias = str | os.PathLike[str]
Sources: TypeAlias = PathLike | Sequence[PathLike] | Identity | IdentityData
OnProgress: TypeAlias = Callable[[Progress], None]
_O = TypeVar("_O", bound=AnalyzeOptions)


class Embedded(Protocol):
    """Anything with an embedding: an Identity, a Face."""

    @property
    def embedding(self) -> FloatArray | None:
        """(D,) L2-normalised."""


def swap(
    sources: Sources,
    target: PathLike,
    output: PathLike,
    *,
    progress: OnProgress | None = None,
    zoo: Zoo | None = None,
    profile: PathLike | None = None,
    **options: Any,
) -> Report:
    """Put one person's face on every face of a photo or a video.

    Args:
        sources: photos of one person (fused), or an Identity made from them.
        target: the photo or video to change.
        output: the file to write; its ending chooses the format.
        progress: called after each frame; what it raises ends the run, and nothing is written.
        zoo: models to reuse from other calls; its device must fit `device`.
        profile: a JSON file to write when all else is done: what each stage did when, see `mien.profile`.
        options: fields of `SwapOptions`.

    Raises:
        OptionsError: an unknown option or a value outside its limits.
        MediaError: a file that cannot be read.
        NoFaceError: no face in a source, or none anywhere in the target.
        OutputError: the output cannot be written there.
        DeviceError, ModelError: see `Zoo.load`.
    """
    started = perf_counter()
    chosen = parse_options(SwapOptions, options)
    inputs = [Path(target), *_paths(sources)]
    _check_output(Path(output), inputs)
    if profile is not None:
        _check_output(Path(profile), inputs)
        if Path(profile).resolve() == Path(output).resolve():
            raise OutputError(f"{profile}: the profile would overwrite the output; choose another name")
    models = zoo or Zoo.of(chosen)
    timings: dict[str, float] = {}
    # Writer and models come first: what cannot be written or used is known before the long work.
    place = Path(output).resolve() if Path(output).is_symlink() else Path(output)
    with _profiled(profile) as trace:
        with open_reader(target, chosen, output=place) as reader, open_writer(place, reader, chosen) as writer:
            models_of(chosen, models)
            identity = _identity(sources, models, chosen, timings, trace)
            task = _Task(chosen, models, identity, progress, timings, [], trace)
            pipeline, frames, tracks = task.run(reader, writer)
            rendered = perf_counter()
        _add(timings, "encode", rendered, _phase(trace, "render"))  # leaving `with` finished the file
    return Report(
        output=str(output),
        kind=reader.kind,
        frames=frames,
        frames_with_faces=pipeline.frames_with_faces,
        tracks=tracks,
        faces=pipeline.verdicts(),
        models=tuple(ModelReport(c.name, c.task, c.licence, c.commercial) for c in models.loaded),
        device=models.used_device,
        timings={name: round(value, 3) for name, value in timings.items()},
        peak_memory_mb=peak_memory_mb(),
        seconds=round(perf_counter() - started, 3),
        notes=tuple(dict.fromkeys((*task.notes, *reader.notes, *writer.notes, *models.notes))),
    )


def analyze(path: PathLike, *, progress: OnProgress | None = None, zoo: Zoo | None = None, **options: Any) -> Analysis:
    """Find the faces of every frame of a photo or a video, and follow them. Close the result, or use it in `with`.

    Args:
        options: fields of `AnalyzeOptions`.

    Raises:
        OptionsError, MediaError, DeviceError, ModelError: see `swap`. No face is no error here.
    """
    chosen = parse_options(AnalyzeOptions, options)
    models = zoo or Zoo.of(chosen)
    with open_reader(path, chosen) as reader:
        return _analyze(reader, chosen, models, progress, {}, None)


def cosine_similarity(a: FloatArray | Embedded, b: FloatArray | Embedded) -> float:
    """Likeness of two faces, −1 to 1; about 1 for the same photo, near 0 for strangers.

    Args:
        a, b: (D,) embeddings, or what has one: an Identity, or a Face that was embedded.

    Raises:
        OptionsError: embeddings of two different models, or a face without one.
    """
    first, second = _vector(a), _vector(b)
    if first.shape != second.shape:
        raise OptionsError(f"embeddings of {len(first)} and {len(second)} values; use one embedder for both")
    return float(first @ second / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12))


def parse_options(model: type[_O], values: Mapping[str, Any]) -> _O:
    """The options, checked.

    Raises:
        OptionsError: names the option, and the nearest one that exists.
    """
    for name in values:
        if name not in model.model_fields:
            near = get_close_matches(name, model.model_fields, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(model.model_fields)}"
            raise OptionsError(f"no option is called {name!r}; {hint}")
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        raise OptionsError(f"{name}={first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """One swap, once its inputs and models are there."""

    options: SwapOptions
    zoo: Zoo
    identity: IdentityData
    progress: OnProgress | None
    timings: dict[str, float]
    notes: list[str]
    """What was wrong with the target is added."""
    trace: Profile | None

    def run(self, reader: Reader, writer: Writer) -> tuple[Pipeline, int, int]:
        """Analyse and render; the pipeline that did it, frames and tracks."""
        video = writer if isinstance(writer, VideoWriter) else None  # only a video's writer can go on later
        last: Place | None = None
        if video is not None:
            last = video.begin(fingerprint(reader.path, self.identity, self.options, self.zoo))
        with self._analysis(reader, video) as analysis:
            if not analysis.face_count:
                raise NoFaceError(f"{reader.path}: no face was found; try a lower min_score or min_face")
            state = None if video is None else video.state
            pipeline = Pipeline(self.options, self.zoo, self.identity, analysis, state)
            self._render(reader, writer, video, pipeline, len(analysis), last)
            return pipeline, len(analysis), len(analysis.tracks)

    def _analysis(self, reader: Reader, video: VideoWriter | None) -> Analysis:
        def make() -> Analysis:
            return _analyze(reader, self.options, self.zoo, self.progress, self.timings, self.trace)

        if video is None:
            return make()
        analysis, notes = kept_analysis(video.folder, make, lambda: reader.notes)
        self.notes.extend(notes)
        return analysis

    def _render(
        self, reader: Reader, writer: Writer, video: VideoWriter | None, pipeline: Pipeline, total: int,
        last: Place | None,
    ) -> None:  # fmt: skip
        tell = _teller(self.progress, "render", total)
        done, phase = 0 if last is None else last.index + 1, _phase(self.trace, "render")
        with pipeline.run(_frames(reader, last), phase) as run:
            for frame in run:
                done += 1
                started = perf_counter()
                writer.write(frame)
                if video is not None and video.segment_is_full:
                    video.close_segment(pipeline.state(frame.index))
                _add(self.timings, "encode", started, phase)
                tell(done)
        if done != total:
            raise MediaError(f"{reader.path}: {done} frames now and {total} before; it changed while it was read")
        if video is not None:
            video.close_segment(pipeline.state())
        for name, seconds in pipeline.timings.items():
            self.timings[name] = self.timings.get(name, 0.0) + seconds


def _analyze(
    reader: Reader, options: AnalyzeOptions, zoo: Zoo, progress: OnProgress | None, timings: dict[str, float],
    trace: Profile | None,
) -> Analysis:  # fmt: skip
    analyzer = FrameAnalyzer(FaceFinder(zoo, options), thorough=reader.kind == "image")
    tell = _teller(progress, "analyze", reader.frame_count)
    return analyze_frames(
        reader,
        analyzer,
        timings=timings,
        progress=tell,
        cancel=zoo.cancel,
        limit=options.model_timeout,
        profile=_phase(trace, "analyze"),
    )


def _frames(reader: Reader, last: Place | None) -> Iterator[Frame]:
    """All frames, or those after the last one that is done."""
    if last is None:
        yield from reader
        return
    assert isinstance(reader, VideoReader)
    frames = reader.frames(last)
    next(frames, None)
    yield from frames


def _teller(
    progress: OnProgress | None, phase: Literal["analyze", "render"], total: int | None
) -> Callable[[int], None]:
    started = perf_counter()

    def tell(done: int) -> None:
        if progress is not None:
            progress(Progress(phase, done, total, perf_counter() - started))

    return tell


@contextmanager
def _profiled(path: PathLike | None) -> Iterator[Profile | None]:
    """A profile that is written once all went well; None where none is wanted."""
    if path is None:
        yield None
        return
    with Profile() as profile:
        yield profile
        with atomic_output(Path(path)) as partial, partial.open("w", encoding="utf-8") as out:
            out.writelines(profile.lines())


def _phase(trace: Profile | None, name: str) -> Phase | None:
    return None if trace is None else trace.phase(name)


def _add(timings: dict[str, float], name: str, began: float, phase: Phase | None) -> None:
    """Count the time since `began` as that of a stage."""
    ended = perf_counter()
    timings[name] = timings.get(name, 0.0) + ended - began
    if phase is not None:
        phase.call(name, began, ended)


def _identity(
    sources: Sources, zoo: Zoo, options: SwapOptions, timings: dict[str, float], trace: Profile | None
) -> IdentityData:
    if isinstance(sources, IdentityData):
        return sources
    if isinstance(sources, Identity):
        return sources.data
    started = perf_counter()
    identity = Identity.from_images(_paths(sources), zoo=zoo, options=options)
    _add(timings, "identity", started, _phase(trace, "source"))
    return identity.data


def _paths(sources: Sources) -> list[Path]:
    if isinstance(sources, Identity | IdentityData):
        return []
    if isinstance(sources, str | os.PathLike):
        return [Path(sources)]
    if not sources:
        raise OptionsError("no source was given; pass at least one photo")
    return [Path(source) for source in sources]


def _check_output(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse what `open_writer` does not: it knows no inputs but the target, and a folder has no ending."""
    check_output(output)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise OutputError(f"{output}: is one of the inputs; choose another output, since it would be overwritten")


def _vector(value: FloatArray | Embedded) -> FloatArray:
    embedding = value if isinstance(value, np.ndarray) else value.embedding
    if embedding is None:
        raise OptionsError("a face has no embedding; find it with embeddings, or compare identities")
    return np.asarray(embedding, np.float32).ravel()
