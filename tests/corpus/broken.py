"""Models, devices, encoders and files that fail on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mien.options import Device
from mien.runtime.graph import Graph, open_graph
from mien.zoo.cards import Task
from mien.zoo.registry import Zoo

NO_MEMORY = "Non-zero status code returned: bfc_arena.cc AllocateRawInternal Failed to allocate memory for buffer of 99"
Act = Callable[[Any, int, tuple[Any, ...]], Any]
"""What a broken model does: the real one, how often it was called before, and its arguments → its result."""


class BrokenModel:
    """A model in whose place something else answers."""

    def __init__(self, model: Any, act: Act) -> None:
        self._model, self._act, self._calls = model, act, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        self._calls += 1
        return self._act(self._model, self._calls - 1, (*args, *keywords.values()))


class BrokenZoo(Zoo):
    """The models of `zoo`, one of them broken; `cancel` is remembered, for models that hang until then."""

    def __init__(self, zoo: Zoo, task: Task, act: Act) -> None:
        super().__init__("cpu")
        self._zoo, self._task, self._act = zoo, task, act
        self._broken: dict[str, BrokenModel] = {}
        self.cancelled = threading.Event()

    def load(self, task: Task, name: str) -> Any:
        model = self._zoo.load(task, name)
        if task != self._task:
            return model
        return self._broken.setdefault(name, BrokenModel(model, self._act))

    def cancel(self) -> None:
        self.cancelled.set()
        self._zoo.cancel()


class SmallDevice:
    """Opens graphs on a device with room for a few items at a time.

    Args:
        nan: the name of a network that gives NaN from its third run on.
    """

    def __init__(self, room: int = 1000, nan: str = "") -> None:
        self.room, self.nan = room, nan
        self.refused = 0

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        return _SmallGraph(self, open_graph(model, "cpu", threads), bool(self.nan) and self.nan in str(model))


class _SmallGraph:
    def __init__(self, device: SmallDevice, graph: Graph, nan: bool) -> None:
        self._device, self._graph, self._nan, self._runs = device, graph, nan, 0

    def get_providers(self) -> Sequence[str]:
        return self._graph.get_providers()

    def get_inputs(self) -> Sequence[Any]:
        return self._graph.get_inputs()

    def get_outputs(self) -> Sequence[Any]:
        return self._graph.get_outputs()

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any], options: Any) -> Any:
        if max((len(array) for array in feeds.values() if np.ndim(array)), default=1) > self._device.room:
            self._device.refused += 1
            raise RuntimeError(NO_MEMORY)
        self._runs += 1
        made = self._graph.run(names, feeds, options)
        return [np.full_like(array, np.nan) for array in made] if self._nan and self._runs > 2 else made


def flipped(data: bytes, seed: int, flips: int, spare: int = 0) -> bytes:
    """The bytes with some bits flipped, none in the first `spare`."""
    rng = np.random.default_rng(seed)
    made = bytearray(data)
    for place in rng.integers(spare, len(made), flips):
        made[place] ^= 1 << int(rng.integers(8))
    return bytes(made)


def spoiled(source: Path, made: Path, bad: Callable[[int], bool]) -> Path:
    """A copy of a clip in which the packets of the video for whose index `bad` is true hold noise."""
    import av

    rng, index = np.random.default_rng(6), 0
    with av.open(str(source)) as container, av.open(str(made), "w") as out:
        streams = {s.index: out.add_stream_from_template(s, opaque=True) for s in container.streams}
        for packet in container.demux():
            if not packet.size:
                continue
            copy = packet
            if packet.stream.type == "video":
                if bad(index):
                    copy = av.Packet(rng.bytes(packet.size))
                    copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
                    copy.duration, copy.is_keyframe = packet.duration, packet.is_keyframe
                index += 1
            copy.stream = streams[packet.stream.index]
            out.mux(copy)
    return made
