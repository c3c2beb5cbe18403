"""TensorRT without waiting: CUDA serves until the engine, which a child process builds, is there and passed a test.

It was not run on a GPU yet; tests put the CPU in the place of both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError, MienError
from mien.runtime.convert import PICTURES, fault
from mien.runtime.devices import PROVIDERS, DeviceSpec, Settings
from mien.runtime.engine_job import EngineJob
from mien.runtime.engines import ENGINE, WORKSPACE, WRAPPER, Order, discard, settle, tested
from mien.runtime.graph import NUMPY_TYPES, Graph, Value, open_graph, tensors
from mien.runtime.kept import sha256_of
from mien.runtime.memory import is_out_of_memory

Open: TypeAlias = Callable[..., Graph]
"""`graph.open_graph`."""
StartJob: TypeAlias = Callable[[Order, Path], EngineJob]


def open_tensorrt(
    model: Path | bytes,
    spec: DeviceSpec,
    threads: int,
    settings: Settings,
    *,
    half: bool = False,
    open_one: Open = open_graph,
    make_job: StartJob = EngineJob,
) -> Graph:
    """The graph on TensorRT: its engine if that is there and passed its test, else CUDA until it did.

    Without the `tensorrt` package, without a cache folder, or for a model that is no file, ONNX Runtime builds the
    engine itself, which takes minutes.

    Args:
        half: the file is in half precision, and passed its test; no other may be computed so.

    Raises:
        DeviceError: see `graph.open_graph`.
        Exception: whatever ONNX Runtime says of the file.
    """
    settings = replace(settings, fp16=half)
    if isinstance(model, Path) and is_engine(model):
        return open_one(model, str(spec), threads, settings)
    order = engine_order(model, spec, settings, half=half)
    if order is None or settings.cache is None:
        return open_one(model, str(spec), threads, settings)
    notes = list[str]()
    wrapper = tested(order, settings.cache)
    if wrapper is not None:
        try:
            return open_one(wrapper, str(spec), threads, settings)
        except Exception as error:
            if isinstance(error, DeviceError) or is_out_of_memory(error):
                raise
            notes.append(f"its TensorRT engine does not open ({_line(error)}), and was removed")
        discard(wrapper)
    serving = open_one(model, str(DeviceSpec("cuda", spec.ids)), threads, settings)
    if serving.get_providers()[0] != PROVIDERS["cuda"]:
        return serving  # nor would TensorRT load; the caller compares
    return Meanwhile(
        serving,
        make_job(order, settings.cache),
        lambda path: open_one(path, str(spec), threads, settings),
        notes,
    )


def is_engine(model: Path) -> bool:
    """Whether a file is one that opens an engine beside it."""
    return model.name == WRAPPER and model.with_name(ENGINE).exists()


def engine_order(model: Path | bytes, spec: DeviceSpec, settings: Settings, *, half: bool = False) -> Order | None:
    """What to build for a model, in half precision if that is its own, or None where ONNX Runtime has to do it."""
    if isinstance(model, bytes) or settings.cache is None:
        return None
    order = Order(str(model), sha256_of(model), half, settings.workspace or WORKSPACE, spec.index)
    try:
        tested(order, settings.cache)
    except DeviceError:  # no `tensorrt` package
        return None
    return order


class Meanwhile:
    """A graph on CUDA that becomes one on TensorRT when its engine is there. Any thread may run it.

    It names TensorRT as its provider from the start; `serving` tells what really runs, `notes` what went wrong.

    Args:
        serving: the graph on CUDA.
        job: builds the engine; it is started by the first run.
        opener: opens the engine.
        notes: what is known to be wrong already, but does not keep an engine from being built.
    """

    def __init__(
        self, serving: Graph, job: EngineJob, opener: Callable[[Path], Graph], notes: Sequence[str] = ()
    ) -> None:
        self._graph, self._job, self._opener = serving, job, opener
        self._lock = threading.Lock()
        self._opening: threading.Thread | None = None
        self.serving = "cuda"
        self.notes = tuple(notes)
        self._given_up = False

    def get_providers(self) -> Sequence[str]:
        """See `Graph`."""
        names = list(self._graph.get_providers())
        return names if self.serving == "tensorrt" else [PROVIDERS["tensorrt"], *names]

    def get_inputs(self) -> Sequence[Value]:
        """See `Graph`."""
        return self._graph.get_inputs()

    def get_outputs(self) -> Sequence[Value]:
        """See `Graph`."""
        return self._graph.get_outputs()

    def run(
        self, names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions
    ) -> Sequence[npt.NDArray[np.float32]]:
        """See `Graph`."""
        if self.serving == "cuda" and self._opening is None and not self._given_up:
            self._look()
        return self._graph.run(names, feeds, options)

    def _look(self) -> None:
        with self._lock:
            if self._opening is not None or self._given_up:
                return
            try:
                self._job.start()
                state = self._job.poll()
            except (OSError, MienError) as error:
                self._give_up(_line(error))
                return
            if state == "done":
                # Not a daemon: a process that ends within ONNX Runtime's code is aborted.
                self._opening = threading.Thread(target=self._switch, name="mien-engine")
                self._opening.start()
            elif state in ("failed", "cancelled"):
                self._give_up(self._job.reason or state)

    def _switch(self) -> None:
        """Open the engine and compare it with CUDA, beside the calls that go on; the outcome is kept beside it."""
        wrapper = self._job.result
        assert wrapper is not None
        try:
            graph = self._opener(wrapper)
            reason = "TensorRT does not load"
            if graph.get_providers()[0] == PROVIDERS["tensorrt"]:
                reason = self._compare(graph)
                settle(wrapper, reason)
        except Exception as error:
            reason = _line(error)
            if not (isinstance(error, MienError) or is_out_of_memory(error)):
                discard(wrapper)
        if reason:
            self._give_up(reason)
        else:
            self._graph, self.serving = graph, "tensorrt"

    def _compare(self, graph: Graph) -> str:
        """What is wrong with it, in words, by pictures of each range that CUDA bears."""
        options = ort.RunOptions()
        for ends in PICTURES:
            feeds = self._feeds(ends)
            if feeds is None:
                return "its inputs are of a kind that cannot be tested"
            wanted, found = (
                [np.asarray(output, np.float64) for output in each.run(None, feeds, options)]
                for each in (self._graph, graph)
            )
            bears = all(np.isfinite(output).all() for output in wanted)
            if not bears and ends == PICTURES[0]:
                return "random inputs give no finite outputs to compare with"
            wrong = fault(found, wanted) if bears else ""
            if wrong:
                return wrong
        return ""

    def _feeds(self, picture: tuple[float, float]) -> dict[str, npt.NDArray[Any]] | None:
        """One random item; None where the shapes are not known."""
        feeds = {}
        for place, tensor in enumerate(tensors(self._graph.get_inputs())):
            shape = [1 if index == 0 and not isinstance(n, int) else n for index, n in enumerate(tensor.shape)]
            if not all(isinstance(size, int) for size in shape) or tensor.type not in NUMPY_TYPES:
                return None
            low, high = picture if len(shape) > 2 else (-1.0, 1.0)
            sizes = [size for size in shape if isinstance(size, int)]
            values = np.random.default_rng(place).uniform(low, high, sizes)
            feeds[tensor.name] = values.astype(NUMPY_TYPES[tensor.type])
        return feeds

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        self.notes = (*self.notes, f"done with CUDA, since its TensorRT engine failed ({reason})")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
