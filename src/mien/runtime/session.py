"""One network as a callable, on one device or on several."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.errors import DeviceError, ModelError
from mien.runtime.devices import AUTO, DeviceSpec, parse_device
from mien.runtime.graph import NUMPY_TYPES, available_devices
from mien.runtime.graph import Tensor as Tensor
from mien.runtime.replica import Arrays, Outputs, Replica, Source, joined, reason
from mien.runtime.where import Fallback as Fallback
from mien.runtime.where import Runtime as Runtime
from mien.runtime.where import Where as Where


class Session:
    """One ONNX graph as a callable: arrays in by input order, arrays out. Any thread may call it.

    ONNX Runtime only warns when a provider fails to load and then runs on the CPU. A device asked
    for by name is checked after loading; `auto` takes the first that really loads, and `chosen` tells which and why.

    On several devices (`cuda:0,1`) each has the graph; a batch is shared out between them, and anything else goes to
    the device that has least to do. What happens when memory runs out is told at `Replica`.

    Under a limit of memory the graph may be closed while it is not in use; the next call opens it again.

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
        self._file = str(model) if isinstance(model, Path) else name or "model"
        self.name = name or (model.name if isinstance(model, Path) else "model")
        self._source = Source(model, self.name, self._file, threads)
        self._notes: list[str] = []
        self.chosen = ""
        """Which device `auto` took, and why; empty for one that was asked for."""
        self.replicas = self._start()
        """The graph on each of its devices."""
        # One that fell to the CPU has the file as it is, which may take one item at a time where others take more.
        first = next((replica for replica in self.replicas if replica.is_split), self.replicas[0])
        for replica in self.replicas:
            replica.follow(first)
        self.inputs, self.outputs = first.inputs, first.outputs
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __call__(self, *arrays: npt.NDArray[Any]) -> Outputs:
        """Run once; arrays in the order of `inputs`, results in the order of `outputs`."""
        first = self.replicas[0]
        if len(self.replicas) == 1:
            return first(arrays)
        count = first.count(arrays)
        return self._one(arrays, whole=True) if count < 2 else self._shared_out(arrays, count)

    def warm(self, sizes: Mapping[str, int] = MappingProxyType({})) -> bool:
        """Run zeros once on each device, so that the first real call does not wait for what is made then.

        Args:
            sizes: of free dimensions, by their names in the file; a free first one is 1 unless named.

        Returns:
            False, and nothing is run, when a dimension is not known.
        """
        shapes = [
            [_size(size, sizes, 1 if place == 0 else None) for place, size in enumerate(tensor.shape)]
            for tensor in self.inputs
        ]
        if any(size is None for shape in shapes for size in shape) or any(
            t.type not in NUMPY_TYPES for t in self.inputs
        ):
            return False
        zeros = [
            np.zeros([size for size in shape if size is not None], NUMPY_TYPES[tensor.type])
            for shape, tensor in zip(shapes, self.inputs, strict=True)
        ]
        for replica in self.replicas:
            replica(zeros)
        return True

    def cancel(self) -> None:
        """End the inferences that run now, from any thread: they fail with ModelError. Later ones are not affected."""
        for replica in self.replicas:
            replica.cancel()

    def expire(self, looks: int) -> None:
        """End the inferences that run now and did at each of the last `looks` calls of this."""
        for replica in self.replicas:
            replica.expire(looks)

    @property
    def device(self) -> str:
        """Where it really runs, such as `cpu` or `cuda:0, cuda:1`."""
        return ", ".join(dict.fromkeys(replica.device for replica in self.replicas))

    @property
    def batch(self) -> int:
        """Items at a time that were measured to be fastest, of all its devices together; 0: not measured."""
        each = [replica.batch for replica in self.replicas]
        return sum(each) if all(each) else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report must say: a better device that failed, and what was done because memory ran out, each once."""
        told = [note for replica in self.replicas for note in replica.told]
        return tuple(dict.fromkeys((*self._notes, *told)))

    def _one(self, arrays: Arrays, *, whole: bool) -> Outputs:
        """On the device that has least to do."""
        pool, devices = self._runtime.pool, [replica.device for replica in self.replicas]
        items = self.replicas[0].count(arrays)
        place = pool.take(devices, items)
        try:
            return self.replicas[place](arrays, whole=whole)
        finally:
            pool.give(devices[place], items)

    def _shared_out(self, arrays: Arrays, count: int) -> Outputs:
        """A part of the batch on each device, all at the same time."""
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(2 * len(self.replicas), "mien-replica")
        parts = min(count, len(self.replicas))
        edges = [count * index // parts for index in range(parts + 1)]
        first = self.replicas[0]
        work = [first.part(arrays, *edge) for edge in pairwise(edges)]
        return joined(list(self._threads.map(partial(self._one, whole=False), work)))

    def _start(self) -> tuple[Replica, ...]:
        spec = parse_device(self._runtime.device)
        if spec.kind == "auto":
            return (self._best(),)
        replicas = tuple(Replica(self._source, one, self._runtime) for one in spec.each)
        for replica, one in zip(replicas, spec.each, strict=True):
            if not replica.start():
                raise DeviceError(
                    f"device {str(one)!r} is not available: this ONNX Runtime has it but could not load it; "
                    "run `mien doctor`, which tells what is missing, or choose --device cpu"
                )
        return replicas

    def _best(self) -> Replica:
        """The first device that really loads."""
        available = set(available_devices())
        failed: list[str] = []
        for kind in (kind for kind in AUTO if kind in available):
            replica = Replica(self._source, DeviceSpec(kind), self._runtime)
            try:
                loaded = replica.start()
            except ModelError as error:
                if kind == AUTO[-1]:
                    raise  # it is the file
                failed.append(f"{kind} failed ({reason(error.__cause__ or error)})")
                continue
            if loaded:
                self._tell(replica.device, failed)
                return replica
            failed.append(f"{kind} did not load")
        raise DeviceError(f"no device loads (this ONNX Runtime offers {', '.join(available)}); run `mien doctor`")

    def _tell(self, device: str, failed: list[str]) -> None:
        if failed:
            self.chosen = f"{device}, since {' and '.join(failed)}; `mien doctor` tells what is missing"
            self._notes.append(f"device auto took {self.chosen}")
        else:
            self.chosen = f"{device}, the best that this ONNX Runtime offers"


def _size(size: int | str | None, sizes: Mapping[str, int], default: int | None) -> int | None:
    if isinstance(size, int):
        return size
    return sizes.get(size, default) if isinstance(size, str) else default
