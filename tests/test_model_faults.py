"""Whole runs on networks that fail: one error and no file, or the same picture as ever and a note."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mien
from mien import Zoo
from mien.errors import DeviceError, MienError, ModelError, PipelineError
from mien.identity import Identity
from mien.media import open_reader, open_writer
from mien.options import Device, SwapOptions
from mien.runtime.graph import PROVIDERS, Graph, Value, open_graph

FRAMES = 4


class Faulty:
    """The real networks, opened on the CPU whatever was asked for, of which one fails."""

    def __init__(self, file: str, fault: Callable[[Device, int, Any], None] | None, spoil: Any = None) -> None:
        self.file, self.fault, self.spoil = file, fault, spoil

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        graph = open_graph(model, "cpu", threads)
        return Wrapped(graph, device, self if Path(str(model)).name == self.file else None)


class Wrapped:
    """A graph that says it is on some device, and does what it is told before or after it runs."""

    def __init__(self, graph: Graph, device: Device, owner: Faulty | None) -> None:
        self._graph, self._device, self._owner = graph, device, owner
        self.get_inputs: Callable[[], Sequence[Value]] = graph.get_inputs
        self.get_outputs: Callable[[], Sequence[Value]] = graph.get_outputs

    def get_providers(self) -> Sequence[str]:
        return [PROVIDERS[self._device]]

    def run(
        self, names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], options: Any
    ) -> Sequence[npt.NDArray[np.float32]]:
        if self._owner is not None and self._owner.fault is not None:
            self._owner.fault(self._device, len(next(iter(feeds.values()))), options)
        outputs = self._graph.run(names, feeds, options)
        if self._owner is not None and self._owner.spoil is not None:
            self._owner.spoil(outputs)
        return outputs


def raising(device: Device, items: int, options: Any) -> None:
    raise RuntimeError("Non-zero status code returned while running Conv node.\nName:'a'")


def without_memory(device: Device, items: int, options: Any) -> None:
    if device != "cpu":
        raise RuntimeError("CUDA failure 2: out of memory ; GPU=0")


def hanging(device: Device, items: int, options: Any) -> None:
    until = time.monotonic() + 60
    while not options.terminate:
        assert time.monotonic() < until
        time.sleep(0.005)
    raise RuntimeError("Exiting due to terminate flag being set to true.")


def with_nan(outputs: Sequence[npt.NDArray[np.float32]]) -> None:
    outputs[0].reshape(-1)[3] = np.nan


@pytest.fixture(scope="module")
def clip(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first frames of the example clip, without loss."""
    path = tmp_path_factory.mktemp("clip") / "short.mkv"
    with open_reader(examples / "clip.mp4") as reader, open_writer(path, reader, SwapOptions(encoder="ffv1")) as writer:
        for frame, _ in zip(reader, range(FRAMES), strict=False):
            writer.write(frame)
    return path


@pytest.fixture(params=["photo", "video"])
def target(request: pytest.FixtureRequest, portraits: Path, clip: Path) -> Path:
    return clip if request.param == "video" else portraits / "male_009.jpg"


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    names = {"mien-decode", "mien-analyze", "mien-find", "mien-mask", "mien-swap", "mien-paste"}
    assert not [thread.name for thread in threading.enumerate() if thread.name in names]


NETWORKS = ("yunet_n.onnx", "mesh478.onnx", "mobilefacenet_128.onnx", "blendshapes52.onnx", "occluder.onnx")


def fails(zoo: Zoo, woman: Identity, target: Path, folder: Path, **options: Any) -> MienError:
    """The error of a run that leaves nothing, not even of a file that was there."""
    output = folder / f"out{target.suffix}"
    output.write_bytes(b"was there")
    with pytest.raises(MienError) as caught:
        mien.swap(woman, target, output, zoo=zoo, **options)
    assert [path.name for path in folder.iterdir()] == [output.name]
    assert output.read_bytes() == b"was there"
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("file", NETWORKS)
def test_a_network_that_raises(file: str, woman: Identity, clip: Path, tmp_path: Path) -> None:
    error = fails(Zoo("cpu", opener=Faulty(file, raising).open), woman, clip, tmp_path)
    assert type(error) is ModelError
    name = file.split(".")[0].removesuffix("_n").removesuffix("_128")
    assert str(error) == (
        f"{name}: inference failed (Non-zero status code returned while running Conv node. Name:'a'); "
        "run `mien doctor`, or choose another device"
    )


@pytest.mark.parametrize("file", NETWORKS)
def test_a_network_that_gives_nan(file: str, woman: Identity, clip: Path, tmp_path: Path) -> None:
    error = fails(Zoo("cpu", opener=Faulty(file, None, with_nan).open), woman, clip, tmp_path)
    assert type(error) is ModelError
    assert str(error).endswith(": the model gave values that are not finite; verify the file and the device")


def test_a_network_that_hangs_is_ended_by_the_run(woman: Identity, clip: Path, tmp_path: Path) -> None:
    zoo = Zoo("cpu", opener=Faulty("mesh478.onnx", hanging).open)
    began = time.monotonic()
    error = fails(zoo, woman, clip, tmp_path, model_timeout=2.0)
    assert type(error) is PipelineError
    assert str(error).startswith("analyze: a step did not end within 2 s (mesh478: inference failed (Exiting due to")
    assert time.monotonic() - began < 40


def test_a_network_that_hangs_where_no_run_watches_is_ended_by_the_zoo(
    portraits: Path, clip: Path, tmp_path: Path
) -> None:
    zoo = Zoo("cpu", timeout=1.5, opener=Faulty("mesh478.onnx", hanging).open)
    with pytest.raises(ModelError, match=r"^mesh478: the model gave no answer in time; raise --model-timeout"):
        mien.swap(portraits / "female_001.jpg", clip, tmp_path / "out.mkv", zoo=zoo)
    assert list(tmp_path.iterdir()) == []


def test_a_device_without_memory_is_one_error(woman: Identity, target: Path, tmp_path: Path) -> None:
    error = fails(Zoo("cuda", opener=Faulty("mesh478.onnx", without_memory).open), woman, target, tmp_path)
    assert type(error) is DeviceError
    assert str(error).startswith("mesh478: out of memory on cuda, even for one item; close what else uses it, pass")


def test_a_device_without_memory_gives_way_to_the_cpu_with_the_same_result(
    woman: Identity, target: Path, tmp_path: Path, models: Zoo
) -> None:
    calls = []

    def runs_out(device: Device, items: int, options: Any) -> None:
        calls.append(device)
        if len(calls) > 1:
            without_memory(device, items, options)

    zoo = Zoo("cuda", fallback="cpu", opener=Faulty("mesh478.onnx", runs_out).open)
    plain = mien.swap(woman, target, tmp_path / f"plain{target.suffix}", zoo=models)
    report = mien.swap(woman, target, tmp_path / f"out{target.suffix}", zoo=zoo)
    assert report.notes == (
        *plain.notes,
        "mesh478: out of memory on cuda; opened again to free it",
        "mesh478: out of memory on cuda; done on the CPU from there on",
    )
    assert (plain.device, report.device) == ("cpu", "cpu, cuda")
    assert calls[:3] == ["cuda"] * 3 and set(calls[3:]) == {"cpu"}
    assert (tmp_path / f"out{target.suffix}").read_bytes() == (tmp_path / f"plain{target.suffix}").read_bytes()
