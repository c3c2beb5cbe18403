"""One graph on one device, which survives a device whose memory runs out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError, ModelError
from mien.runtime.capture import recorded
from mien.runtime.devices import PROVIDERS, DeviceSpec, Prepared
from mien.runtime.graph import Graph, Tensor, tensors
from mien.runtime.memory import is_out_of_memory
from mien.runtime.where import Runtime

Arrays: TypeAlias = Sequence[npt.NDArray[Any]]
Outputs: TypeAlias = Sequence[npt.NDArray[np.float32]]

ONE_AT_A_TIME = ("directml",)
"""Kinds whose graphs only one thread may run at a time, by ONNX Runtime's documents."""

_CPU = DeviceSpec("cpu")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a graph comes from."""

    model: Path | bytes
    name: str
    """What errors call it."""
    file: str
    """What errors of the file call it."""
    threads: int = 0

    @property
    def size(self) -> int:
        """Bytes of its weights, those that lie in a second file beside it too."""
        if isinstance(self.model, bytes):
            return len(self.model)
        files = (
            self.model,
            self.model.with_name(f"{self.model.name}.data"),
            self.model.with_name(f"{self.model.name}_data"),
        )
        return sum(file.stat().st_size for file in files if file.is_file())


@dataclass(slots=True, eq=False)
class Call:
    """An inference that runs now."""

    options: ort.RunOptions
    seen: int = 0
    """How often `expire` found it."""
    expired: bool = False


class Replica:
    """A graph on one device. Any thread may call it.

    When the memory of the device runs out, the batch (inputs that share a free first dimension) is halved, and what
    fits is remembered; a single item that does not fit has the graph opened once more, which frees what
    ONNX Runtime kept, and then goes to the CPU if `Runtime.fallback` allows it. `notes` tells each of it.

    Raises:
        ModelError, DeviceError: see `session.Session`.
    """

    def __init__(self, source: Source, spec: DeviceSpec, runtime: Runtime) -> None:
        self._source, self._spec, self._runtime = source, spec, runtime
        self._lock = threading.Lock()
        self._one = threading.Lock() if spec.kind in ONE_AT_A_TIME else contextlib.nullcontext()
        self.running: set[Call] = set()
        self.notes: dict[tuple[str, str], str] = {}
        """What was done because memory ran out, or to make the graph ready, each once, in words."""
        self.most: int | None = None
        """Items of a batch that fit into the memory, as far as is known."""
        self._serial = 0
        """Counts how often the graph was given up, so that of several threads that fail only one acts."""
        self._uses = 0
        self._graph: Graph | None = None
        self._prepared: Prepared | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.outputs: tuple[Tensor, ...] = ()
        self._split: tuple[bool, ...] = ()

    @property
    def device(self) -> str:
        """Where it really runs."""
        return str(self._spec)

    @property
    def batch(self) -> int:
        """Items at a time that were measured to be fastest on its device; 0: not measured. It stays what it is."""
        return 0 if self._prepared is None else self._prepared.batch

    @property
    def told(self) -> tuple[str, ...]:
        """What a report must say: `notes`, and what the open graph says of itself."""
        own = tuple(getattr(self._graph, "notes", ()))
        return (*tuple(self.notes.copy().values()), *(f"{self._source.name}: {note}" for note in own))

    def start(self) -> bool:
        """Open the graph for the first time; False when it went to another device than its own."""
        try:
            graph = self._open()
        except MemoryError:
            if self.device == "cpu" or self._runtime.fallback != "cpu":
                raise self._exhausted() from None
            self._note("cpu", "done on the CPU instead")
            self._spec = _CPU
            try:
                graph = self._open()
            except MemoryError:
                raise self._exhausted() from None
        self.inputs, self.outputs = tensors(graph.get_inputs()), tensors(graph.get_outputs())
        self._split = _split(self.inputs, self.outputs)
        self._graph = graph  # last, since from now on others may close it
        return self._loaded(graph)

    def follow(self, other: Replica) -> None:
        """Take batches as another replica of the same network does; one by one where this graph takes no more."""
        if self._split != other._split:
            self._split, self.most = other._split, 1

    @property
    def is_split(self) -> bool:
        """Whether any of its inputs hold one item per row, of any number."""
        return any(self._split)

    def __call__(self, arrays: Arrays, *, whole: bool = True) -> Outputs:
        """Run once; arrays in the order of `inputs`, results in the order of `outputs`.

        Args:
            whole: these are not a part of a batch.
        """
        count = self.count(arrays)
        parts: list[Outputs] = []
        start, reopened = 0, False
        while start < count:
            size = min(count - start, self.most or count)
            part = arrays if size == count else self.part(arrays, start, start + size)
            spec, half = self._spec, self._is_half()
            serial, outputs = self._attempt(part, size)
            if outputs is not None and half and not _finite(outputs):
                self._to_full(serial)
            elif outputs is not None:
                self._check_count(outputs, size, whole=whole and size == count)
                parts.append(outputs)
                start += size
            elif self._spec is not spec or size > (self.most or count):
                reopened = False  # it went elsewhere meanwhile, or is another file
            elif size > 1:
                self._halve(size)
            elif not reopened:
                reopened = True
                self._reopen(serial)
            else:
                self._fall_back(serial)
        return joined(parts)

    def count(self, arrays: Arrays) -> int:
        """Items that may be given in parts; 1 where the arrays go in as they are."""
        counts = {array.shape[0] for array, split in zip(arrays, self._split, strict=True) if split and array.ndim}
        return max(1, counts.pop()) if len(counts) == 1 else 1

    def part(self, arrays: Arrays, start: int, stop: int) -> Arrays:
        """Some of the items."""
        return [array[start:stop] if split else array for array, split in zip(arrays, self._split, strict=True)]

    def evict(self) -> bool:
        """Close the graph unless it is in use; the next call opens it again."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            idle = self._uses == 0 and self._graph is not None
            if idle:
                self._graph = None
            return idle
        finally:
            self._lock.release()

    def cancel(self) -> None:
        """End the inferences that run now."""
        for call in self.running.copy():
            call.options.terminate = True

    def expire(self, looks: int) -> None:
        """End the inferences that run now and did at each of the last `looks` calls of this."""
        for call in self.running.copy():
            if call.seen >= looks:
                call.expired = call.options.terminate = True
            call.seen += 1

    def _open(self) -> Graph:
        """MemoryError when the device has too little memory for it."""
        with self._runtime.pool.opening(self, self.device, self._source.size):
            model = self._ready()
            try:
                return self._recorded(model)
            except (DeviceError, MemoryError):
                raise
            except Exception as error:
                if is_out_of_memory(error):
                    raise MemoryError from None
                if model is not self._source.model:
                    told = reason(error)
                else:
                    raise self._unreadable(error) from error
            return self._as_it_is(told)

    def _as_it_is(self, told: str) -> Graph:
        """The model's own file, after what was made ready of it did not open: if it does, the other was damaged."""
        assert self._prepared is not None
        damaged, self._prepared = self._prepared, Prepared(self._source.model)
        try:
            graph = self._recorded(self._source.model)
        except Exception as error:
            self._prepared = damaged
            if isinstance(error, DeviceError | MemoryError):
                raise
            if is_out_of_memory(error):
                raise MemoryError from None
            raise self._unreadable(error) from error
        for path in damaged.kept:
            path.unlink(missing_ok=True)
        for note in damaged.notes:
            self.notes.pop(("prepared", note), None)
        self.most = 1 if self._split else None  # it may take one item at a time where the other took more
        self.notes["prepared", "damaged"] = (
            f"{self._source.name}: done with the file as it is, since what was made of it does not open ({told})"
        )
        return graph

    def _unreadable(self, error: Exception) -> ModelError:
        return ModelError(
            f"{self._source.file}: cannot load the model ({reason(error)}); verify the file, or fetch it again"
        )

    def _open_again(self) -> Graph:
        """As `_open`; the device may not load any more, of which ONNX Runtime tells nobody."""
        graph = self._open()
        if self._loaded(graph):
            return graph
        del graph
        self._runtime.pool.forget(self)
        if self._runtime.fallback != "cpu":
            raise DeviceError(
                f"{self._source.name}: {self.device} does not load any more; run `mien doctor`, pass --fallback cpu, "
                "or choose --device cpu"
            )
        self.notes[self.device, "gone"] = (
            f"{self._source.name}: {self.device} does not load any more; done on the CPU from there on"
        )
        self._to_cpu()
        return self._open()

    def _loaded(self, graph: Graph) -> bool:
        """Whether it runs on the device that was asked for."""
        return graph.get_providers()[0] == PROVIDERS[self._spec.kind]

    def _to_cpu(self) -> None:
        # The file as it is may take one item at a time where what was made ready took more.
        self._spec, self.most = _CPU, None if self._prepared is None else 1

    def _is_half(self) -> bool:
        return self._spec.kind != "cpu" and self._prepared is not None and self._prepared.full is not None

    def _to_full(self, serial: int) -> None:
        """Full precision from here on: the test of half precision did not foresee these values."""
        with self._lock:
            half = self._prepared
            if serial == self._serial and half is not None and half.full is not None:
                self.notes[self.device, "full"] = (
                    f"{self._source.name}: half precision gave values that are not finite on {self.device}; "
                    "full precision from there on"
                )
                self._give_up()
                self._prepared = replace(half, model=half.full, full=None)

    def _recorded(self, model: Path | bytes) -> Graph:
        graph, note = recorded(self._runtime, model, self._spec, self._source.threads, half=self._is_half())
        if note:
            self.notes["record", note] = f"{self._source.name}: {note}"
        return graph

    def _ready(self) -> Path | bytes:
        """The file to open on this device."""
        if self._spec.kind == "cpu" or self._runtime.prepare is None:
            return self._source.model
        if self._prepared is None:
            self._prepared = self._runtime.prepare(self._source.model, self._spec)
            self.most = self._prepared.batch or self.most
            self.notes.update({("prepared", note): f"{self._source.name}: {note}" for note in self._prepared.notes})
        return self._prepared.model

    def _attempt(self, arrays: Arrays, size: int) -> tuple[int, Outputs | None]:
        """The serial of the graph that was used, and its outputs, or None when memory ran out or it takes fewer items.

        Nothing of the graph is left in the caller's hands, or in an exception's, so that it can be freed.
        """
        with self._lock:
            serial = self._serial
            try:
                graph = self._graph = self._graph or self._open_again()
            except MemoryError:
                return serial, None
            if size > (self.most or size):
                return serial, None
            self._uses += 1
        try:
            self._runtime.pool.touch(self)
            return serial, self._run(graph, arrays)
        finally:
            with self._lock:
                self._uses -= 1

    def _run(self, graph: Graph, arrays: Arrays) -> Outputs | None:
        feeds = {tensor.name: array for tensor, array in zip(self.inputs, arrays, strict=True)}
        with self._one, getattr(graph, "turn", contextlib.nullcontext()):
            call = Call(ort.RunOptions())
            call.options.log_severity_level = 4
            self.running.add(call)
            try:
                return graph.run(None, feeds, call.options)
            except Exception as error:
                if call.expired:
                    raise ModelError(
                        f"{self._source.name}: the model gave no answer in time; raise --model-timeout if it is only "
                        "slow, else run `mien doctor`"
                    ) from error
                if is_out_of_memory(error):
                    return None
                raise ModelError(
                    f"{self._source.name}: inference failed ({reason(error)}); run `mien doctor`, "
                    "or choose another device"
                ) from error
            finally:
                self.running.discard(call)

    def _halve(self, size: int) -> None:
        with self._lock:
            self.most = min(self.most or size, size // 2)
            self._note("batch", f"at most {self.most} done at a time")

    def _reopen(self, serial: int) -> None:
        with self._lock:
            if serial == self._serial:
                self._note("reopen", "opened again to free it")
                self._give_up()  # the next attempt opens it, when this one is gone

    def _fall_back(self, serial: int) -> None:
        with self._lock:
            if serial == self._serial:
                if self.device == "cpu" or self._runtime.fallback != "cpu":
                    raise self._exhausted()
                self._note("cpu", "done on the CPU from there on")
                self._give_up()
                self._to_cpu()

    def _give_up(self) -> None:
        self._graph = None
        self._serial += 1
        self._runtime.pool.forget(self)

    def _note(self, kind: str, text: str) -> None:
        self.notes[self.device, kind] = f"{self._source.name}: out of memory on {self.device}; {text}"

    def _exhausted(self) -> DeviceError:
        advice = (
            "close other programs, or work on a smaller --scale"
            if self.device == "cpu"
            else "close what else uses it, pass --fallback cpu, or choose --device cpu"
        )
        return DeviceError(f"{self._source.name}: out of memory on {self.device}, even for one item; {advice}")

    def _check_count(self, outputs: Outputs, size: int, *, whole: bool) -> None:
        """A part's results must be as many as its items, or they could not be put together."""
        if not whole and any(output.shape[:1] != (size,) for output in outputs):
            found = ", ".join("×".join(map(str, output.shape)) for output in outputs)
            raise ModelError(
                f"{self._source.name}: gave {found} for {size} items; this file is not the model it is named after"
            )


def _finite(outputs: Outputs) -> bool:
    return all(np.isfinite(output).all() for output in outputs)


def joined(parts: Sequence[Outputs]) -> Outputs:
    """The results of a batch that was done in parts."""
    return parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


def _split(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[bool, ...]:
    """Which inputs hold one item per row; none unless every output does too, by the graph's own word."""
    free = [bool(tensor.shape) and not isinstance(tensor.shape[0], int) for tensor in inputs]
    rows = {tensor.shape[0] for tensor, is_free in zip(inputs, free, strict=True) if is_free}
    same = len(rows) == 1 and all(tensor.shape and tensor.shape[0] in rows for tensor in outputs)
    return tuple(is_free and same for is_free in free)


def reason(error: BaseException) -> str:
    """The error in one line that is not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"
