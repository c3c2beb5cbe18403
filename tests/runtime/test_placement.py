"""Which provider runs what, and how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mien.errors import DeviceError, ModelError
from mien.runtime.devices import DeviceSpec
from mien.runtime.graph import open_graph
from mien.runtime.placement import SIDE, milliseconds, placement, probe, read_profile, zeros
from tests import stand_ins

CPU = DeviceSpec("cpu")


def event(name: str, provider: str, kind: str, category: str = "Node") -> dict[str, Any]:
    return {"cat": category, "name": name, "args": {"provider": provider, "op_name": kind}}


def test_a_profile_is_read_by_provider_each_node_once() -> None:
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    events: list[dict[str, Any]] = [
        event("a", cuda, "Conv"),
        event("a", cuda, "Conv"),
        event("b", cuda, "Relu"),
        event("c", cpu, "Shape"),
        event("d", cpu, "NonMaxSuppression"),
        event("e", cpu, "Conv", "Session"),
        {"cat": "Node", "name": "f", "args": {}},
        {"cat": "Session", "name": "g"},
    ]
    found = read_profile(events)
    assert dict(found.nodes) == {cuda: 2, cpu: 2}
    assert found.on_cpu == ("NonMaxSuppression",)


def test_a_real_profile_of_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = placement(probe(), CPU)
    assert dict(found.nodes) == {"CPUExecutionProvider": 1}
    assert found.on_cpu == ("MatMul",)
    assert list(tmp_path.iterdir()) == []


def test_zeros_of_one_item_and_a_pictures_sides() -> None:
    feeds = zeros(open_graph(stand_ins.detector(), "cpu", 0))
    assert {name: array.shape for name, array in feeds.items()} == {"input": (1, 3, SIDE, SIDE)}
    assert feeds["input"].dtype == np.float32


def test_a_timed_run() -> None:
    assert 0 < milliseconds(probe(), CPU, runs=3) < 10_000


def test_what_does_not_open_or_run_is_one_error() -> None:
    with pytest.raises(ModelError):
        placement(b"no", CPU)
    with pytest.raises(ModelError):
        milliseconds(b"no", CPU)
    with pytest.raises(DeviceError, match="is not in this ONNX Runtime"):
        milliseconds(probe(), DeviceSpec("migraphx"))
