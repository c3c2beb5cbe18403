"""The full-size stand-ins, in a tiny width: right inputs and outputs, and the same file each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import checker

from benchmarks.nets import Net, multiply_adds, parameters, save
from benchmarks.standins import STAND_INS

TINY = 0.04
OUTPUTS: dict[str, list[tuple[int, ...]]] = {
    "inswapper_128": [(1, 3, 128, 128)],
    "gfpgan_1.4": [(1, 3, 512, 512)],
    "scrfd_10g": [(2 * 64**2, 1), (2 * 32**2, 1), (2 * 16**2, 1), (8192, 4), (2048, 4), (512, 4)],
    "2dfan4": [(1, 68, 3), (1, 68, 64, 64)],
    "arcface_w600k_r50": [(1, 512)],
    "bisenet_resnet_18": [(1, 19, 512, 512)],
    "xseg_1": [(1, 256, 256, 1)],
}


OUTPUTS["scrfd_10g"] += [(8192, 10), (2048, 10), (512, 10)]


def test_every_network_has_its_outputs_listed_here() -> None:
    assert set(OUTPUTS) == set(STAND_INS)


@pytest.mark.parametrize("name", STAND_INS)
def test_runs_and_gives_finite_outputs_of_the_true_shapes(name: str) -> None:
    model = STAND_INS[name].make(TINY)
    checker.check_model(model, full_check=True)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    sizes = {"batch": 1, "height": 512, "width": 512}
    random = np.random.default_rng(0)
    feeds = {
        each.name: random.random([sizes.get(size, size) for size in each.shape], np.float32)
        for each in session.get_inputs()
    }
    outputs = session.run(None, feeds)
    assert [output.shape for output in outputs] == OUTPUTS[name]
    assert all(np.isfinite(output).all() and output.std() > 1e-6 for output in outputs)
    assert all(np.abs(output).max() < 1000 for output in outputs)


def test_inswapper_depends_on_both_inputs_and_holds_an_emap_that_no_node_reads() -> None:
    model = STAND_INS["inswapper_128"].make(TINY)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    assert shapes["emap"] == (512, 512)
    assert all("emap" not in node.input for node in model.graph.node)
    assert [value.name for value in model.graph.input] == ["target", "source"]


def test_cost_and_parameters_of_one_convolution() -> None:
    net = Net(0)
    net.op("Identity", net.conv(net.input("x", 3), 8, 5, stride=2), name="y")
    model = net.model({"x": (1, 3, 20, 20)}, {"y": (1, 8, 10, 10)})
    assert parameters(model) == 3 * 8 * 25 + 8
    assert multiply_adds(model) == 3 * 8 * 25 * 100


def test_the_same_file_each_time(tmp_path: Path) -> None:
    make = STAND_INS["xseg_1"].make
    assert save(make(TINY), tmp_path / "a.onnx") == (tmp_path / "a.onnx").stat().st_size
    save(make(TINY), tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert onnx.load(tmp_path / "a.onnx").producer_name == "mien stand-in"
    assert not list(tmp_path.glob("*.part"))
