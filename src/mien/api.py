"""The library: swap, analyse, compare. Each call owns what it opens, and leaves nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
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
from mien.media import Reader, VideoReader, Writer, open_reader, open_writer
from mien.options import AnalyzeOptions, SwapOptions
from mien.pipeline import Pipeline
from mien.report import ModelReport, Progress, Report, peak_memory_mb
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
    **options: Any,
) -> Report:
    """Put one person's face on every face of a photo or a video.

    Args:
        sources: photos of one person (fused), or an Identity made from them.
        target: the photo or video to change.
        output: the file to write; its ending chooses the format.
        progress: called after each frame; what it raises ends the run, and nothing is written.
        zoo: models to reuse from other calls; its device must fit `device`.
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
    _check_output(Path(output), [Path(target), *_paths(sources)])
    models = zoo or Zoo(chosen.device)
    timings: dict[str, float] = {}
    # Writer and models come first: what cannot be written or used is known before the long work.
    with open_reader(target) as reader, open_writer(output, reader, chosen) as writer:
        _load(chosen, models)
        identity = _identity(sources, models, chosen, timings)
        with _analyze(reader, chosen, models, progress, timings) as analysis:
            if not analysis.face_count:
                raise NoFaceError(f"{target}: no face was found; try a lower min_score or min_face")
            pipeline = Pipeline(chosen, models, identity, analysis)
            _render(reader, writer, pipeline, len(analysis), progress, timings)
            frames, tracks = len(analysis), len(analysis.tracks)
        rendered = perf_counter()
    timings["encode"] += perf_counter() - rendered  # leaving `with` finished the file
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
        notes=(*_damage(reader), *writer.notes),
    )


def analyze(path: PathLike, *, progress: OnProgress | None = None, zoo: Zoo | None = None, **options: Any) -> Analysis:
    """Find the faces of every frame of a photo or a video, and follow them. Close the result, or use it in `with`.

    Args:
        options: fields of `AnalyzeOptions`.

    Raises:
        OptionsError, MediaError, DeviceError, ModelError: see `swap`. No face is no error here.
    """
    chosen = parse_options(AnalyzeOptions, options)
    with open_reader(path) as reader:
        return _analyze(reader, chosen, zoo or Zoo(chosen.device), progress, {})


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


def _load(options: SwapOptions, zoo: Zoo) -> None:
    zoo.load("embedder", options.embedder)
    if zoo.load("swapper", options.swapper).needs_mask:
        for name in options.masker.split("+"):
            zoo.load("masker", name)


def _analyze(
    reader: Reader, options: AnalyzeOptions, zoo: Zoo, progress: OnProgress | None, timings: dict[str, float]
) -> Analysis:
    analyzer = FrameAnalyzer(FaceFinder(zoo, options), thorough=reader.kind == "image")
    tell = _teller(progress, "analyze", reader.frame_count)
    return analyze_frames(reader, analyzer, timings=timings, progress=tell, cancel=zoo.cancel)


def _render(
    reader: Reader,
    writer: Writer,
    pipeline: Pipeline,
    frames: int,
    progress: OnProgress | None,
    timings: dict[str, float],
) -> None:
    tell = _teller(progress, "render", frames)
    done, encode = 0, 0.0
    with pipeline.run(reader) as run:
        for done, frame in enumerate(run, 1):
            started = perf_counter()
            writer.write(frame)
            encode += perf_counter() - started
            tell(done)
    if done != frames:
        raise MediaError(f"{reader.path}: {done} frames now and {frames} before; it changed while it was read")
    for name, seconds in (*pipeline.timings.items(), ("encode", encode)):
        timings[name] = timings.get(name, 0.0) + seconds


def _damage(reader: Reader) -> tuple[str, ...]:
    lost = reader.decode_errors if isinstance(reader, VideoReader) else 0
    return (f"{lost} damaged packets of the target were left out",) if lost else ()


def _teller(
    progress: OnProgress | None, phase: Literal["analyze", "render"], total: int | None
) -> Callable[[int], None]:
    started = perf_counter()

    def tell(done: int) -> None:
        if progress is not None:
            progress(Progress(phase, done, total, perf_counter() - started))

    return tell


def _identity(sources: Sources, zoo: Zoo, options: SwapOptions, timings: dict[str, float]) -> IdentityData:
    if isinstance(sources, IdentityData):
        return sources
    if isinstance(sources, Identity):
        return sources.data
    started = perf_counter()
    identity = Identity.from_images(_paths(sources), zoo=zoo, options=options)
    timings["identity"] = perf_counter() - started
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
    if output.is_dir():
        raise OutputError(f"{output}: is a folder; name a file in it")
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise OutputError(f"{output}: is one of the inputs; choose another output, since it would be overwritten")


def _vector(value: FloatArray | Embedded) -> FloatArray:
    embedding = value if isinstance(value, np.ndarray) else value.embedding
    if embedding is None:
        raise OptionsError("a face has no embedding; find it with embeddings, or compare identities")
    return np.asarray(embedding, np.float32).ravel()
