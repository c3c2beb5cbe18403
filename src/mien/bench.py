"""How fast this machine is: each model, a short swap by stage, and the decoding and encoding that it cannot spare."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import cv2
import numpy as np

from mien.api import Sources, swap
from mien.faces import SECOND
from mien.identity import Identity
from mien.media import open_reader, open_writer
from mien.media.versions import library_versions
from mien.options import SwapOptions
from mien.pipeline import models_of
from mien.report import Report
from mien.runtime.graph import NUMPY_TYPES, Tensor
from mien.runtime.session import Session
from mien.runtime.versions import runtime_versions
from mien.stages import Run
from mien.zoo.registry import Zoo, sessions

SIDE = 640
"""What a free height or width of a network stands for."""
SECONDS = 4.0
"""Of a clip that is swapped, unless told otherwise."""
ROUNDS = 3
"""Swaps, and as many passes without one, in turn; medians are told."""
_MODEL_SECONDS = 0.5
_ENDINGS = {"image": ".jpg", "video": ".mp4"}


@dataclass(frozen=True, slots=True)
class ModelTime:
    """Milliseconds of one item."""

    name: str
    task: str
    device: str
    ms: float
    """Median."""
    low: float
    """Lower quartile."""
    high: float
    """Upper quartile."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What `bench` measured."""

    file: str
    width: int
    height: int
    frames: int
    """Of one swap."""
    fps: float
    """Frames a second of a whole swap, both passes, without reading the source."""
    limit_fps: float
    """The same of decoding twice and encoding once, without anything between."""
    ratio: float
    """`fps` over `limit_fps`."""
    stages: Mapping[str, float]
    """Busy milliseconds a frame; stages run beside each other. `decode` is that of both passes."""
    peak_memory_mb: float | None
    models: tuple[ModelTime, ...]
    machine: Mapping[str, str | int]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def bench(file: Path | None = None, source: Path | None = None, options: SwapOptions | None = None) -> Bench:
    """Measure this machine with a photo or video; by default with an example that ships with mien.

    Args:
        options: as for a swap; without `max_seconds`, `SECONDS` of a video are swapped.

    Raises:
        MienError: whatever a swap raises.
    """
    file, chosen = file or example("clip.mp4"), options or SwapOptions()
    chosen = chosen.model_copy(update={"resume": False})
    with open_reader(file, chosen) as reader:
        width, height = next((frame.width, frame.height) for frame in reader)
        ending = _ENDINGS.get(reader.kind, file.suffix)
    if reader.kind == "video" and not chosen.max_seconds:
        chosen = chosen.model_copy(update={"max_seconds": SECONDS})
    zoo = Zoo.of(chosen)
    models = tuple(model_times(used_models(chosen, zoo)))
    person = Identity.from_images([source or example("source.jpg")], zoo=zoo, options=chosen)
    limits, swaps = [], []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, f"out{ending}")
        for _ in range(ROUNDS):
            limits.append(least_seconds(file, output, chosen))
            swaps.append(timed_swap(person, file, output, zoo, chosen))
    report = sorted(swaps, key=lambda each: each.seconds)[len(swaps) // 2]
    limit = median(limits)
    return Bench(
        file=str(file),
        width=width,
        height=height,
        frames=report.frames,
        fps=round(report.frames / report.seconds, 2),
        limit_fps=round(report.frames / limit, 2),
        ratio=round(limit / report.seconds, 3),
        stages={name: round(1000 * seconds / report.frames, 2) for name, seconds in report.timings.items()},
        peak_memory_mb=report.peak_memory_mb,
        models=models,
        machine=machine(),
    )


def example(name: str) -> Path:
    """A file of `examples/`: inside the package where it was installed, or beside its sources."""
    inside = Path(__file__).parent / "examples" / name
    return inside if inside.is_file() else Path(__file__).parents[2] / "examples" / name


def machine() -> dict[str, str | int]:
    """What figures depend on: processor, cores, system and versions."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processor": _processor(),
        "cores": usable,
        "system": platform.platform(),
        "Python": platform.python_version(),
        "mien": version("mien"),
        "NumPy": np.__version__,
        "OpenCV": cv2.__version__,
        **runtime_versions(),
        **library_versions(),
    }


def used_models(options: SwapOptions, zoo: Zoo) -> list[Any]:
    """All models that a swap with these options may use, loaded."""
    names = dict.fromkeys(options.source_masker.split("+"))
    more = [zoo.load("masker", name) for name in names] + [zoo.load("detector", SECOND)]
    return list(dict.fromkeys([*models_of(options, zoo), *more]))


def model_times(models: Iterable[Any], seconds: float = _MODEL_SECONDS) -> Iterable[ModelTime]:
    """The time of one item in each model's network; models without one are left out."""
    for model in models:
        for session in sessions_of(model):
            quartiles = np.percentile(call_times(session, seconds), (25, 50, 75)) * 1000
            low, middle, high = (round(float(value), 3) for value in quartiles)
            yield ModelTime(model.card.name, model.card.task, session.device, middle, low, high)


def sessions_of(model: Any) -> list[Session]:
    """A model's networks, those that its parts hold included."""
    inner = [part for value in vars(model).values() if not isinstance(value, Session) for part in sessions(value)]
    return [*sessions(model), *inner]


def call_times(session: Session, seconds: float) -> list[float]:
    """Seconds of each call with one random item, once it is warm; at least three."""
    random = np.random.default_rng(0)
    arrays = [random.random(shape_of(tensor)).astype(NUMPY_TYPES[tensor.type]) for tensor in session.inputs]
    for _ in range(2):
        session(*arrays)
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        started = perf_counter()
        session(*arrays)
        times.append(perf_counter() - started)
    return times


def shape_of(tensor: Tensor) -> list[int]:
    """Of one item; a free height or width is `SIDE`."""
    return [size if isinstance(size, int) else SIDE if place else 1 for place, size in enumerate(tensor.shape)]


def least_seconds(file: Path, output: Path, options: SwapOptions) -> float:
    """Seconds of what no swap can do without: decode everything twice, and encode it once beside that."""
    started = perf_counter()
    with open_reader(file, options, output=output) as reader, open_writer(output, reader, options) as writer:
        for _ in reader:
            pass
        with Run[Any](reader, [], queue_size=options.queue_size) as run:
            for frame in run:
                writer.write(frame)
    return perf_counter() - started


def timed_swap(person: Sources, file: Path, output: Path, zoo: Zoo, options: SwapOptions) -> Report:
    """The report of one swap of a person who is known already."""
    return swap(person, file, output, zoo=zoo, **options.model_dump())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
