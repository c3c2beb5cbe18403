"""What the doctor says of devices and models; devices other than the CPU are made up."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from mien.doctor import devices as module
from mien.doctor.devices import Model, check_auto, check_devices, check_models, devices, installed
from mien.errors import ModelError
from mien.runtime import session
from mien.runtime.devices import DeviceSpec
from mien.runtime.placement import Placement
from mien.runtime.session import Runtime
from mien.zoo.cards import ModelCard
from mien.zoo.registry import registry
from mien.zoo.store import FOLDER
from tests import stand_ins
from tests.runtime.fake_device import FakeDevice

CUDA = DeviceSpec("cuda")


def test_a_device_that_does_not_load_has_its_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "milliseconds", lambda *_: 3.21)
    fake = FakeDevice(missing=["cuda", "openvino"])
    names = ["cuda:1", "openvino", "tensorrt", "cpu"]
    cuda, openvino, tensorrt, cpu = check_devices(names, lambda name: Runtime(name, opener=fake.open))
    assert (cuda.name, cuda.status) == ("device cuda:1", "warning")
    assert cuda.value == "device 'cuda:1' is not available: this ONNX Runtime has it but could not load it"
    assert cuda.fix.startswith("see the lines on gpu, cuda and libraries above")
    assert openvino.fix.startswith("install onnxruntime-openvino and the driver of that device again")
    assert tensorrt.value == "loads; not timed, since it would build an engine"
    assert (cpu.status, cpu.value) == ("ok", "loads; mobilefacenet takes 3.2 ms")


def test_a_timed_run_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> float:
        raise ModelError("no")

    monkeypatch.setattr(module, "milliseconds", fails)
    (check,) = check_devices(["cpu"])
    assert check.value == "loads; mobilefacenet does not run (no)"


def test_each_of_several_gpus_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_devices", lambda: ("cuda", "tensorrt", "cpu"))
    assert devices(0) == devices(1) == ["cuda", "tensorrt", "cpu"]
    assert devices(2) == ["cuda:0", "cuda:1", "tensorrt", "cpu"]


def test_what_auto_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = check_auto()
    assert (check.status, device) == ("ok", "cpu")
    assert check.value == "cpu, the best that this ONNX Runtime offers"
    monkeypatch.setattr(session, "available_devices", lambda: ("cuda", "cpu"))
    check, device = check_auto(Runtime("auto", opener=FakeDevice(missing=["cuda"]).open))
    assert (check.status, check.value, device) == ("warning", "cpu, since cuda did not load", "cpu")
    check, device = check_auto(Runtime("auto", opener=FakeDevice().open))
    assert (check.status, device) == ("ok", "cuda")


def test_models_that_ship_and_those_of_the_user_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    folder = tmp_path / "models" / "embedder"
    folder.mkdir(parents=True)
    (folder / "mine.onnx").write_bytes(stand_ins.embedder())
    (folder / "mine.json").write_text(
        '{"name": "mine", "task": "embedder", "family": "mobilefacenet", "file": "mine.onnx", "sha256": "", "size": 9}'
    )
    cards: list[ModelCard] = [family.card for family in registry().values() if family.card.bundled]
    models = installed()
    assert {model.name for model in models} == {card.name for card in cards} | {"mine"}
    assert models[-1] == Model("mine", folder / "mine.onnx", 9, False)
    assert [model.size for model in models[:-1]] == sorted(model.size for model in models[:-1])


def model(name: str, bundled: bool = False) -> Model:
    return Model(name, Path(f"{name}.onnx"), 1, bundled)


def test_the_provider_of_each_model_and_what_falls_to_the_cpu() -> None:
    found = {
        "good.onnx": Placement({"CUDAExecutionProvider": 9, "CPUExecutionProvider": 1}, ()),
        "half.onnx": Placement({"CUDAExecutionProvider": 6, "CPUExecutionProvider": 4}, ("GridSample", "NonZero")),
        "none.onnx": Placement({"CPUExecutionProvider": 10}, ("Conv",)),
    }
    checks = check_models([model(n) for n in ("good", "half", "none")], CUDA, place=lambda path, _: found[path.name])
    good, half, none = checks
    assert (good.status, good.value) == (
        "ok",
        "CUDAExecutionProvider: 9 of 10 nodes, CPUExecutionProvider: 1 of 10 nodes",
    )
    assert half.status == "warning" and half.value.endswith("; GridSample, NonZero fall to the CPU")
    assert half.fix.startswith("cuda lacks these operations")
    assert (none.status, none.value) == ("warning", "runs on CPUExecutionProvider alone, not on cuda")


def test_a_model_that_does_not_run_is_a_problem_when_it_ships(tmp_path: Path) -> None:
    def place(path: Path, spec: DeviceSpec) -> Placement:
        raise ModelError("bad file")

    shipped, own = check_models([model("a", True), model("b")], CUDA, place=place)
    assert (shipped.status, shipped.value, shipped.fix) == ("problem", "does not run: bad file", "install mien again")
    assert (own.status, own.fix) == ("warning", "`mien models verify b`")
    path = tmp_path / "net.onnx"
    path.write_bytes(b"no")
    (check,) = check_models([Model("c", path, 2, False)], DeviceSpec("cpu"))
    assert check.status == "warning" and "cannot load the model" in check.value
    path.write_bytes(stand_ins.embedder())
    (check,) = check_models([Model("c", path, 2, False)], DeviceSpec("cpu"))
    assert (check.status, check.value) == ("ok", "CPUExecutionProvider")


def test_no_other_model_is_begun_when_the_time_is_over() -> None:
    ticks = count()
    checks = list(
        check_models(
            [model(name) for name in "abcd"], CUDA, seconds=2.5,
            place=lambda *_: Placement({"CUDAExecutionProvider": 1}, ()), clock=lambda: float(next(ticks)),
        )
    )  # fmt: skip
    assert [check.name for check in checks] == ["model a", "model b", "models left out"]
    assert checks[-1].value == "c, d: no time; `mien doctor --full` looks at all"
