"""What `mien.bench` tells of a machine: figures that fit each other, and nothing left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from mien import bench
from mien.media import open_reader
from mien.options import SwapOptions
from mien.runtime.session import Session, Tensor
from mien.zoo.registry import Zoo
from tests.fakes import FakeSwapper, NetworkSwapper
from tests.stand_ins import graph, node


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Short measurements; temporary files go to this folder."""
    monkeypatch.setattr(bench, "_MODEL_SECONDS", 0.01)
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_clip_is_measured(quick: Path) -> None:
    found = bench.bench(options=SwapOptions(device="cpu", max_seconds=0.2, preset="ultrafast"))
    assert (Path(found.file).name, found.width, found.height, found.frames) == ("clip.mp4", 512, 512, 5)
    assert found.ratio == pytest.approx(found.fps / found.limit_fps, abs=0.01)
    assert 0 < found.fps < found.limit_fps
    assert set(found.stages) == {"decode", "cut", "analyze", "find", "mask", "swap", "paste", "encode"}
    assert {(each.name, each.task) for each in found.models} == {
        ("texture", "swapper"),
        ("yunet", "detector"),
        ("retinaface_mnet025", "detector"),
        ("mesh478", "landmarker"),
        ("mobilefacenet", "embedder"),
        ("blendshapes52", "expression"),
        ("occluder", "masker"),
        ("skin_hair", "masker"),
    }
    assert all(0 < each.low <= each.ms <= each.high and each.device == "cpu" for each in found.models)
    assert {"processor", "cores", "mien", "ONNX Runtime", "PyAV"} <= set(found.machine)
    assert list(quick.iterdir()) == []


def test_a_photo_is_measured(quick: Path, portraits: Path) -> None:
    found = bench.bench(portraits / "male_009.jpg", portraits / "female_001.jpg", SwapOptions(device="cpu"))
    assert (found.frames, found.width > 0) == (1, True)
    assert found.limit_fps > found.fps


def test_models_are_timed_with_one_item() -> None:
    seen: list[tuple[int, ...]] = []

    class Watched(Session):
        def __call__(self, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> list[np.ndarray]:
            seen.extend(array.shape for array in arrays)
            return list(super().__call__(*arrays))

    dims = {"x": ("n", 3, "h", 5)}
    network = Watched(graph([node("Identity", ["x"], "y")], dims, {"y": ("n", 3, "h", 5)}), "cpu")
    times = bench.call_times(network, 0.0)
    assert (len(times), seen) == (3, [(1, 3, bench.SIDE, 5)] * 5)
    assert min(times) > 0
    assert bench.shape_of(Tensor("x", (None, 4), "tensor(float)")) == [1, 4]


def test_models_without_a_network_are_left_out() -> None:
    (found,) = bench.model_times([FakeSwapper(), NetworkSwapper()], 0.0)
    assert (found.name, found.task, found.device) == ("fake", "swapper", "cpu")


def test_each_model_counts_once(models: Zoo) -> None:
    found = bench.used_models(SwapOptions(masker="occluder+skin_hair"), models)
    names = [model.card.name for model in found]
    assert sorted(names) == sorted(set(names))
    assert {"occluder", "skin_hair", "yunet", "retinaface_mnet025"} <= set(names)


def test_the_limit_writes_a_whole_video(tmp_path: Path) -> None:
    options = SwapOptions(max_seconds=0.2, preset="ultrafast")
    assert bench.least_seconds(bench.example("clip.mp4"), tmp_path / "out.mp4", options) > 0
    with open_reader(tmp_path / "out.mp4") as reader:
        assert sum(1 for _ in reader) == 5
