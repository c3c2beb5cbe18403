"""Speed and memory on a GPU, with pass or fail: `python -m benchmarks.gpu [--device cuda:0] [--output FILE]`.

Takes less than eight minutes on a machine of the H200's class, and needs ONNX Runtime with CUDA; TensorRT is measured
where it is installed. Without a GPU it says so and ends with status 2; with a goal missed, with 1. `--dry` goes the
same ways on the CPU with tiny networks, to show that they work; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from benchmarks.gpu_parts import (
    Meter,
    ProcessMeter,
    Results,
    Watch,
    rate,
    rate_of_many,
    report,
    verdicts,
    write_clip,
)
from benchmarks.nets import save
from benchmarks.standins import STAND_INS
from mien.api import parse_options, swap
from mien.errors import MienError
from mien.identity import Identity
from mien.media import open_reader
from mien.options import SwapOptions
from mien.pipeline import Pipeline
from mien.runtime.batching import run_on_cpu
from mien.runtime.binding import DeviceArray, FixedBinding, run_bound
from mien.runtime.devices import PROVIDERS, DeviceSpec, Prepared, Settings, parse_device
from mien.runtime.engine_job import EngineJob
from mien.runtime.engines import Order
from mien.runtime.graph import available_devices, open_graph
from mien.runtime.kept import sha256_of
from mien.runtime.nvml import Nvml
from mien.runtime.prepare import Precision, Preparation
from mien.zoo.registry import Zoo
from mien.zoo.store import Store

SWAP, EMBED = "inswapper_128", "arcface_w600k_r50"
PHOTO = Path("examples/source.jpg")
FACE = Path("examples/target.jpg")


@dataclass
class Bench:
    """One run."""

    spec: DeviceSpec
    folder: Path
    meter: Meter
    results: Results
    width: float = 1.0
    """Factor on the channels of the networks."""
    sizes: tuple[int, ...] = (1, 4, 8, 16)
    seconds: float = 1.0
    """Of each measurement."""
    loop: float = 60.0
    """Seconds of the loop that shows growth."""
    frames: int = 120
    videos: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"720p": (1280, 720), "1080p": (1920, 1080)})
    limit: float = 460.0
    """Seconds after which nothing new is begun."""
    started: float = field(default_factory=time.perf_counter)
    base: int | None = None
    """Bytes of device memory in use before anything was opened."""

    def __post_init__(self) -> None:
        self.base = self.meter.used

    @property
    def dry(self) -> bool:
        """Whether the CPU stands in."""
        return self.spec.kind == "cpu"

    @property
    def left(self) -> float:
        """Seconds."""
        return self.limit - (time.perf_counter() - self.started)

    @contextmanager
    def step(self, name: str, needs: float) -> Iterator[bool]:
        """Tell what goes on; what fails is noted, and the rest goes on."""
        if not self.dry and self.left < needs:
            self.note(f"{name}: left out, since {needs:.0f} s are needed and {self.left:.0f} are left")
            yield False
            return
        since = time.perf_counter()
        try:
            yield True
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            self.note(f"{name}: failed ({' '.join(str(error).split())[:300]})")
        print(f"{name}: {time.perf_counter() - since:.1f} s", flush=True)

    def note(self, text: str) -> None:
        """Say it now and in the report."""
        print(text, flush=True)
        self.results.notes.append(text)

    def file(self, name: str) -> Path:
        """A stand-in, written once."""
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            save(STAND_INS[name].make(self.width), path)
        return path

    def prepare(self, name: str, precision: Precision) -> Prepared:
        """A stand-in as mien opens it there; what it is made of is kept for the pipeline."""
        if self.dry:  # nothing is prepared for a CPU, so that it pretends to be a GPU
            return Preparation(self.prepared, precision, opener=run_on_cpu)(self.file(name), DeviceSpec("cuda"))
        return Preparation(self.prepared, precision)(self.file(name), self.spec)

    @property
    def prepared(self) -> Path:
        """Folder of what is made ready."""
        return self.folder / "prepared"

    def open(self, model: Path, *, capture: bool = False) -> Any:
        """A session on the device, which must really be there."""
        graph = open_graph(model, str(self.spec), 0, Settings(), capture=capture)
        assert graph.get_providers()[0] == PROVIDERS[self.spec.kind], "the provider did not load"
        return graph


def feeds_of(graph: Any, count: int) -> dict[str, npt.NDArray[np.float32]]:
    """Random items for a graph whose batch is free or fixed to `count`; free sides are 640."""
    random = np.random.default_rng(0)
    shapes = {
        value.name: [
            size if isinstance(size, int) else count if place == 0 else 640 for place, size in enumerate(value.shape)
        ]
        for value in graph.get_inputs()
    }
    return {name: random.random(shape, np.float32) for name, shape in shapes.items()}


def swap_network(bench: Bench) -> None:
    """The swap network in every way there is."""
    rates = bench.results.rates
    models: dict[str, Path] = {}
    precisions: tuple[Precision, ...] = ("fp32", "fp16")
    for precision in precisions:
        with bench.step(f"{precision}: made ready", 60) as go:
            if go:
                made = bench.prepare(SWAP, precision)
                model = made.model if isinstance(made.model, Path) else bench.file(SWAP)
                if model not in models.values():  # half precision may have been given up
                    models[precision] = model
                bench.note(
                    f"swap network, {precision}: fastest batch {made.batch}; {'; '.join(made.notes) or 'as it is'}"
                )
    if not models:
        return
    name, fastest = list(models.items())[-1]
    ways: list[tuple[str, Callable[[Bench, Path], dict[int, float]], Path]]
    ways = [(precision, plain, model) for precision, model in models.items()]
    ways.append((f"{name}, inputs and outputs on the device", bound, fastest))
    ways.append((f"{name}, recorded (CUDA graph)", recorded, fastest))
    for way, measure, model in ways:
        with bench.step(way, 20) as go:
            if go:
                rates[way] = measure(bench, model)
    steps: tuple[tuple[str, float, Callable[[Bench, Path], None]], ...] = (
        ("several sessions", 30, several),
        ("memory", 30, memory),
        ("growth of memory", bench.loop + 10, growth),
        ("TensorRT", 90, tensorrt),
    )
    for what, needs, do in steps:
        with bench.step(what, needs) as go:
            if go:
                do(bench, fastest)


def plain(bench: Bench, model: Path) -> dict[int, float]:
    """Arrays from the host and back."""
    graph = bench.open(model)
    return {
        count: rate(partial(graph.run, None, feeds_of(graph, count)), count, bench.seconds) for count in bench.sizes
    }


def bound(bench: Bench, model: Path) -> dict[int, float]:
    """Arrays that stay on the device."""
    graph, found = bench.open(model), {}
    for count in bench.sizes:
        there = {name: DeviceArray.put(array, bench.spec) for name, array in feeds_of(graph, count).items()}
        found[count] = rate(partial(run_bound, graph, there, bench.spec), count, bench.seconds)
    return found


def recorded(bench: Bench, model: Path) -> dict[int, float]:
    """Fixed memory, the work recorded once and replayed."""
    found = {}
    for count in bench.sizes:
        graph = bench.open(model, capture=True)  # a recording is of one shape
        fixed = FixedBinding(graph, bench.spec, {"batch": count})
        fixed(feeds_of(graph, count))
        found[count] = rate(partial(fixed, {}), count, bench.seconds)
    return found


def several(bench: Bench, model: Path) -> None:
    """One to three sessions, each with a stream of its own, from as many threads."""
    graphs = [bench.open(model) for _ in range(3)]
    calls: list[Callable[[], object]] = [partial(graph.run, None, feeds_of(graph, 4)) for graph in graphs]
    for count in (1, 2, 3):
        bench.results.streams[count] = rate_of_many(calls[:count], 4, bench.seconds)


def memory(bench: Bench, model: Path) -> None:
    """What each of three instances takes, after a batch of eight, and all with what CUDA takes for itself."""
    graphs, before = [], bench.meter.used
    for _ in range(3):
        graphs.append(bench.open(model))
        graphs[-1].run(None, feeds_of(graphs[-1], 8 if 8 in bench.sizes else bench.sizes[-1]))
        after = bench.meter.used
        if before is None or after is None or bench.base is None:
            bench.note("memory: the driver does not tell (NVML)")
            return
        bench.results.memory.append(after - before)
        bench.results.together = after - bench.base
        before = after


def growth(bench: Bench, model: Path) -> None:
    """Changing batches over and over, after they were all seen once."""
    graph = bench.open(model)
    calls = [partial(graph.run, None, feeds_of(graph, count)) for count in bench.sizes]
    for call in (*calls, *calls):
        call()
    end = time.perf_counter() + bench.loop
    with Watch(bench.meter) as watch:
        while time.perf_counter() < end:
            for call in calls:
                call()
    bench.results.growth, bench.results.growth_seconds = watch.growth, bench.loop


def tensorrt(bench: Bench, model: Path) -> None:
    """An engine in half precision, built in a child process within the time that is left."""
    if not bench.dry and "tensorrt" not in available_devices():
        bench.note("TensorRT: not in this ONNX Runtime")
        return
    order = Order(str(model), sha256_of(model), model.parent.name == "half", device=bench.spec.index)
    job = EngineJob(order, bench.folder / "engines", limit=max(1.0, bench.left - 60))
    job.start()
    while job.poll() in ("waiting", "building"):
        time.sleep(0.5)
    if job.result is None:
        bench.note(f"TensorRT: no engine ({job.reason})")
        return
    spec = bench.spec if bench.dry else DeviceSpec("tensorrt", bench.spec.ids)
    graph: Any = open_graph(job.result, str(spec), 0, Settings())
    assert graph.get_providers()[0] == PROVIDERS[spec.kind], "TensorRT did not load"
    bench.results.rates[f"{'fp16' if order.fp16 else 'fp32'}, TensorRT"] = {
        count: rate(partial(graph.run, None, feeds_of(graph, count)), count, bench.seconds) for count in bench.sizes
    }


def other_networks(bench: Bench) -> None:
    """Each other network as mien prepares it: a batch where it allows one, else single items."""
    for name in STAND_INS:
        if name == SWAP:
            continue
        with bench.step(name, 25) as go:
            if not go:
                continue
            made = bench.prepare(name, "fp16")
            graph = bench.open(made.model if isinstance(made.model, Path) else bench.file(name))
            free = all(not isinstance(value.shape[0], int) for value in graph.get_inputs())
            bench.results.others[name] = {
                count: rate(partial(graph.run, None, feeds_of(graph, count)), count, bench.seconds)
                for count in (bench.sizes if free else (1,))
            }
            for note in made.notes:
                bench.note(f"{name}: {note}")


def videos(bench: Bench) -> None:
    """mien's own pipeline over clips with one moving face, the swap network and ArcFace being stand-ins."""
    settings = Settings()
    zoo = Zoo(
        str(bench.spec),
        settings=settings,
        prepare=Preparation(bench.prepared, "fp16"),
        store=Store(bench.folder / "store"),
    )
    zoo.lend("swapper", SWAP, SWAP, bench.file(SWAP))
    zoo.lend("embedder", EMBED, EMBED, bench.file(EMBED))
    options: dict[str, Any] = {"device": str(bench.spec), "swapper": SWAP}
    identity: Identity | None = None
    with bench.step("identity", 60) as go:
        if go:
            identity = Identity.from_images([PHOTO], zoo=zoo, options=parse_options(SwapOptions, options))
    for name, (width, height) in bench.videos.items():
        with bench.step(f"video {name}", 45) as go:
            if go and identity is not None:
                video(bench, zoo, identity, name, width, height)


def video(bench: Bench, zoo: Zoo, identity: Identity, name: str, width: int, height: int) -> None:
    """One size: a short clip to warm up, a longer one, then frames one by one."""
    options: dict[str, Any] = {"device": str(bench.spec), "swapper": SWAP}
    clip, short, output = (bench.folder / f"{name}{part}.mp4" for part in ("", "-short", "-out"))
    write_clip(FACE, clip, width, height, bench.frames)
    write_clip(FACE, short, width, height, 3 if bench.dry else 20)
    swap(identity, short, output, zoo=zoo, **options)
    with Watch(bench.meter) as watch:
        told = swap(identity, clip, output, zoo=zoo, **options)
    bench.results.fps[name] = told.frames / told.seconds
    if watch.load is not None:
        bench.results.loads[name] = watch.load
    if watch.peak is not None:
        bench.results.peaks[name] = watch.peak
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in told.timings.items())
    bench.note(f"{name}: {told.frames} frames in {told.seconds:.2f} s on {told.device}; busy seconds: {stages}")
    chosen = parse_options(SwapOptions, options)
    times = []
    with open_reader(short, chosen) as reader:
        for frame in reader:
            since = time.perf_counter()
            with Pipeline(chosen, zoo, identity.data).run([frame]) as run:
                assert len(list(run)) == 1
            times.append(1000 * (time.perf_counter() - since))
    bench.results.latency[name] = float(np.median(times))


def prepared_bench(arguments: argparse.Namespace, folder: Path) -> Bench | None:
    """What to run on, or None without a GPU."""
    runtime = f"ONNX Runtime {ort.__version__}, Python {platform.python_version()}"
    if arguments.dry:
        results = Results(f"Dry run on a CPU, {runtime}: no figure means anything")
        return Bench(
            DeviceSpec("cpu"), folder, ProcessMeter(), results,
            width=0.04, sizes=(1, 4), seconds=0.01, loop=0.3, frames=3,
            videos={"720p": (480, 270), "1080p": (480, 270)},
        )  # fmt: skip
    spec = parse_device(arguments.device)
    if spec.kind not in available_devices():
        return None
    meter = Nvml(spec.index)
    bench = Bench(spec, folder, meter, Results(f"{meter.name or 'unknown GPU'}, {runtime}"), limit=arguments.limit)
    try:
        bench.open(bench.file("xseg_1"))
    except (MienError, AssertionError, RuntimeError):
        return None
    return bench


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dry", action="store_true", help="the same ways on the CPU with tiny networks")
    parser.add_argument("--limit", type=float, default=460.0, help="seconds after which nothing new is begun")
    parser.add_argument("--output", type=Path, help="file for the report, by default benchmarks/gpu.md; none for --dry")
    arguments = parser.parse_args(words)
    ort.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as folder:
        bench = prepared_bench(arguments, Path(folder))
        if bench is None:
            print(f"no GPU: {arguments.device} is not in this ONNX Runtime, or does not load; run `mien doctor`")
            return 2
        videos(bench)
        swap_network(bench)
        other_networks(bench)
        judged = verdicts(bench.results)
        text = report(bench.results, judged, time.perf_counter() - bench.started)
    output = arguments.output or (None if arguments.dry else Path("benchmarks/gpu.md"))
    if output is not None:
        output.write_text(text)
    print(text)
    for each in judged:
        print(f"{each.word:12} {each.goal}: {each.found}")
    return 0 if arguments.dry or all(each.passed for each in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main())
