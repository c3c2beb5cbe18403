"""One network on one device, which survives a device whose memory runs out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError, ModelError
from mien.options import Device
from mien.runtime.graph import PROVIDERS, Graph, Opener, available_devices, open_graph
from mien.runtime.memory import is_out_of_memory

Fallback: TypeAlias = Literal["none", "cpu"]
Arrays: TypeAlias = Sequence[npt.NDArray[Any]]
Outputs: TypeAlias = Sequence[npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where networks run, and what they do when that device has no memory left even for one item."""

    device: Device = "auto"
    fallback: Fallback = "none"
    opener: Opener = open_graph
    """Opens a graph; tests put one here that fails as a device would."""


Where: TypeAlias = Device | Runtime


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, shape (int, or str for a free dimension) and ONNX type of an input or output."""

    name: str
    shape: tuple[int | str | None, ...]
    type: str


@dataclass(slots=True, eq=False)
class _Call:
    """An inference that runs now."""

    options: ort.RunOptions
    seen: int = 0
    """How often `expire` found it."""
    expired: bool = False


class Session:
    """One ONNX graph on one device, as a callable: arrays in by input order, arrays out. Any thread may call it.

    ONNX Runtime only warns when a provider fails to load and then runs on the CPU. A device asked
    for by name is checked after loading; `auto` takes the first that really loads.

    When the memory of the device runs out, the batch (inputs that share a free first dimension) is halved, and what
    fits is remembered; a single item that does not fit has the graph opened once more, which frees what
    ONNX Runtime kept, and then goes to the CPU if `Runtime.fallback` allows it. `notes` tells each of it.

    Args:
        name: what errors call it; the file's name unless given.

    Raises:
        ModelError: the file is missing or corrupt, or an inference fails or gives another number of results.
        DeviceError: the requested device did not load, or has no memory left.
    """

    def __init__(
        self, model: Path | bytes, where: Where = "auto", *, threads: int = 0, name: str | None = None
    ) -> None:
        self._runtime = where if isinstance(where, Runtime) else Runtime(where)
        self._model, self._threads = model, threads
        self._file = str(model) if isinstance(model, Path) else name or "model"
        self.name = name or (model.name if isinstance(model, Path) else "model")
        self._lock = threading.Lock()
        self._running: set[_Call] = set()
        self._notes: dict[tuple[str, str], str] = {}
        self._most: int | None = None
        """Items of a batch that fit into the memory, as far as is known."""
        self._serial = 0
        """Counts how often the graph was given up, so that of several threads that fail only one acts."""
        graph, self.device = self._first()
        self._graph: Graph | None = graph
        self.inputs = tuple(Tensor(i.name, tuple(i.shape), i.type) for i in graph.get_inputs())
        self.outputs = tuple(Tensor(o.name, tuple(o.shape), o.type) for o in graph.get_outputs())
        self._split = _split(self.inputs, self.outputs)

    def __call__(self, *arrays: npt.NDArray[Any]) -> Outputs:
        """Run once; arrays in the order of `inputs`, results in the order of `outputs`."""
        count = self._count(arrays)
        parts: list[Outputs] = []
        start, reopened = 0, False
        while start < count:
            size = min(count - start, self._most or count)
            part = arrays if size == count else self._part(arrays, start, start + size)
            serial, outputs = self._attempt(part)
            if outputs is not None:
                self._check_count(outputs, size, whole=size == count)
                parts.append(outputs)
                start += size
            elif size > 1:
                self._halve(size)
            elif not reopened:
                reopened = True
                self._reopen(serial)
            else:
                self._fall_back(serial)
        return parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    def cancel(self) -> None:
        """End the inferences that run now, from any thread: they fail with ModelError. Later ones are not affected."""
        for call in self._running.copy():
            call.options.terminate = True

    def expire(self, looks: int) -> None:
        """End the inferences that run now and did at each of the last `looks` calls of this."""
        for call in self._running.copy():
            if call.seen >= looks:
                call.expired = call.options.terminate = True
            call.seen += 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done because memory ran out, each once, in words."""
        return tuple(self._notes.copy().values())

    def _first(self) -> tuple[Graph, Device]:
        device = self._runtime.device
        wanted: Sequence[Device] = available_devices() if device == "auto" else (device,)
        for candidate in wanted:
            try:
                graph = self._open(candidate)
            except MemoryError:
                if candidate == "cpu" or self._runtime.fallback != "cpu":
                    raise self._exhausted(candidate) from None
                self._note(candidate, "cpu", "done on the CPU instead")
                return self._open("cpu"), "cpu"
            if graph.get_providers()[0] == PROVIDERS[candidate]:
                return graph, candidate
        raise DeviceError(
            f"device {device!r} is not available (this ONNX Runtime offers {', '.join(available_devices())}); "
            "run `mien doctor`, or choose --device cpu"
        )

    def _open(self, device: Device) -> Graph:
        """MemoryError when the device has too little memory for it."""
        try:
            return self._runtime.opener(self._model, device, self._threads)
        except DeviceError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise MemoryError from None
            text = f"{self._file}: cannot load the model ({_reason(error)}); verify the file, or fetch it again"
            raise ModelError(text) from error

    def _attempt(self, arrays: Arrays) -> tuple[int, Outputs | None]:
        """The serial of the graph that was used, and its outputs, or None when memory ran out.

        Nothing of the graph is left in the caller's hands, or in an exception's, so that it can be freed.
        """
        with self._lock:
            serial = self._serial
            try:
                graph = self._graph = self._graph or self._open(self.device)
            except MemoryError:
                return serial, None
        feeds = {tensor.name: array for tensor, array in zip(self.inputs, arrays, strict=True)}
        call = _Call(ort.RunOptions())
        call.options.log_severity_level = 4
        self._running.add(call)
        try:
            return serial, graph.run(None, feeds, call.options)
        except Exception as error:
            if call.expired:
                raise ModelError(
                    f"{self.name}: the model gave no answer in time; raise --model-timeout if it is only slow, "
                    "else run `mien doctor`"
                ) from error
            if is_out_of_memory(error):
                return serial, None
            raise ModelError(
                f"{self.name}: inference failed ({_reason(error)}); run `mien doctor`, or choose another device"
            ) from error
        finally:
            self._running.discard(call)

    def _halve(self, size: int) -> None:
        with self._lock:
            self._most = min(self._most or size, size // 2)
            self._note(self.device, "batch", f"at most {self._most} done at a time")

    def _reopen(self, serial: int) -> None:
        with self._lock:
            if serial == self._serial:
                self._note(self.device, "reopen", "opened again to free it")
                self._graph = None  # the next attempt opens it, when this one is gone
                self._serial += 1

    def _fall_back(self, serial: int) -> None:
        with self._lock:
            if serial == self._serial:
                if self.device == "cpu" or self._runtime.fallback != "cpu":
                    raise self._exhausted(self.device)
                self._note(self.device, "cpu", "done on the CPU from there on")
                self._graph, self.device, self._most = None, "cpu", None
                self._serial += 1

    def _note(self, device: str, kind: str, text: str) -> None:
        self._notes[device, kind] = f"{self.name}: out of memory on {device}; {text}"

    def _exhausted(self, device: str) -> DeviceError:
        advice = (
            "close other programs, or work on a smaller --scale"
            if device == "cpu"
            else "close what else uses it, pass --fallback cpu, or choose --device cpu"
        )
        return DeviceError(f"{self.name}: out of memory on {device}, even for one item; {advice}")

    def _count(self, arrays: Arrays) -> int:
        """Items that may be given in parts; 1 where the arrays go in as they are."""
        counts = {array.shape[0] for array, split in zip(arrays, self._split, strict=True) if split and array.ndim}
        return max(1, counts.pop()) if len(counts) == 1 else 1

    def _part(self, arrays: Arrays, start: int, stop: int) -> Arrays:
        return [array[start:stop] if split else array for array, split in zip(arrays, self._split, strict=True)]

    def _check_count(self, outputs: Outputs, size: int, *, whole: bool) -> None:
        """A part's results must be as many as its items, or they could not be put together."""
        if not whole and any(output.shape[:1] != (size,) for output in outputs):
            found = ", ".join("×".join(map(str, output.shape)) for output in outputs)
            raise ModelError(
                f"{self.name}: gave {found} for {size} items; this file is not the model it is named after"
            )


def _split(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[bool, ...]:
    """Which inputs hold one item per row; none unless every output does too, by the graph's own word."""
    free = [bool(tensor.shape) and not isinstance(tensor.shape[0], int) for tensor in inputs]
    rows = {tensor.shape[0] for tensor, is_free in zip(inputs, free, strict=True) if is_free}
    same = len(rows) == 1 and all(tensor.shape and tensor.shape[0] in rows for tensor in outputs)
    return tuple(is_free and same for is_free in free)


def _reason(error: BaseException) -> str:
    """The error in one line that is not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"
