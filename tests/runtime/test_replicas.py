"""One network on several devices, the choice of `auto`, what is made ready before, and warming up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mien.errors import DeviceError, ModelError
from mien.runtime import session as module
from mien.runtime.devices import DeviceSpec, Prepared
from mien.runtime.session import Runtime, Session
from mien.zoo.cards import ModelCard
from mien.zoo.registry import Zoo
from tests.runtime.fake_device import ARENA, FakeDevice, Value

X = np.arange(30, dtype=np.float32).reshape(10, 3)
SHIFT = np.array([[1, 2, 3]], np.float32)


def check(outputs: Any, x: npt.NDArray[Any] = X) -> None:
    np.testing.assert_array_equal(outputs[0], 2 * x + SHIFT)
    np.testing.assert_array_equal(outputs[1], x.sum(1))


def test_each_device_has_the_graph_and_a_batch_is_shared_out_in_order() -> None:
    device = FakeDevice()
    session = device.session("cuda:0,2")
    assert (device.opened, session.device) == (["cuda:0", "cuda:2"], "cuda:0, cuda:2")
    check(session(X, SHIFT))
    assert device.batches == [5, 5]
    assert sorted(device.ran) == ["cuda:0", "cuda:2"]
    check(session(X[:3], SHIFT), X[:3])
    check(session(X[:0], SHIFT), X[:0])


def test_single_items_take_turns_also_between_networks() -> None:
    device = FakeDevice()
    runtime = Runtime("cuda:0,1", opener=device.open)
    first, second = (Session(b"", runtime, name=name) for name in "ab")
    for _ in range(3):
        first(X[:1], SHIFT)
        second(X[:1], SHIFT)
    assert device.ran.count("cuda:0") == device.ran.count("cuda:1") == 3


def test_a_call_goes_to_the_device_that_has_less_to_do() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(device: str, items: int) -> bool:
        if not started.is_set():
            started.set()
            assert go_on.wait(20)
        return False

    device = FakeDevice(slow)
    session = device.session("cuda:0,1")
    thread = threading.Thread(target=session, args=(X[:1], SHIFT))
    thread.start()
    assert started.wait(20)
    for _ in range(4):
        check(session(X[:1], SHIFT), X[:1])
    assert device.ran == ["cuda:0", *["cuda:1"] * 4]
    go_on.set()
    thread.join(20)


def test_one_of_two_devices_without_memory_gives_way_to_the_cpu_alone() -> None:
    device = FakeDevice(lambda device, _: device == "cuda:1")
    session = device.session("cuda:0,1", "cpu")
    check(session(X[:2], SHIFT), X[:2])
    assert session.device == "cuda:0, cpu"
    assert session.notes == (
        "net: out of memory on cuda:1; opened again to free it",
        "net: out of memory on cuda:1; done on the CPU from there on",
    )


def test_a_part_that_gives_another_number_of_results_is_an_error() -> None:
    device = FakeDevice()
    session = device.session("cuda:0,1")
    device.more = 1
    with pytest.raises(ModelError, match="net: gave 6×3, 6 for 5 items; this file is not the model it is named after"):
        session(X, SHIFT)


def test_cancelling_and_looking_reach_every_device() -> None:
    session = FakeDevice().session("cuda:0,1")
    seen: list[object] = []
    for replica in session.replicas:
        replica.cancel = lambda: seen.append("cancel")  # type: ignore[method-assign]
        replica.expire = seen.append  # type: ignore[assignment, method-assign]
    session.cancel()
    session.expire(3)
    assert seen == ["cancel", "cancel", 3, 3]


def test_a_device_that_onnx_runtime_silently_replaces_is_an_error_when_asked_for() -> None:
    with pytest.raises(DeviceError, match=r"^device 'cuda:1' is not available: this ONNX Runtime has it but could not"):
        FakeDevice(missing=["cuda"]).session("cuda:1")


def has(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    monkeypatch.setattr(module, "available_devices", lambda: kinds)


def test_auto_takes_the_best_that_loads_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "tensorrt", "cuda", "coreml", "cpu")
    session = FakeDevice().session("auto")
    assert (session.device, session.notes) == ("cuda", ())
    assert session.chosen == "cuda, the best that this ONNX Runtime offers"
    assert FakeDevice().session("cuda").chosen == ""


def test_auto_tells_what_better_device_did_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "cuda", "directml", "coreml", "cpu")
    device = FakeDevice(missing=["cuda"], opening=lambda device: device == "directml", error=lambda: OSError("no DLL"))
    session = device.session("auto")
    assert device.opened == ["cuda", "directml", "cpu"]
    assert device.held[-1] == 0, "what loaded elsewhere is let go"
    chosen = "cpu, since cuda did not load and directml failed (no DLL); `mien doctor` tells what is missing"
    assert (session.device, session.chosen, session.notes) == ("cpu", chosen, (f"device auto took {chosen}",))


def test_a_file_that_no_device_opens_is_the_files_fault_under_auto_too(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "cuda", "cpu")
    device = FakeDevice(opening=lambda _: True, error=lambda: OSError("bad file"))
    with pytest.raises(ModelError, match=r"^net: cannot load the model \(bad file\); verify the file"):
        device.session("auto")


def test_a_zoo_tells_what_was_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "cuda", "cpu")
    device = FakeDevice(missing=["cuda"])

    class Model:
        card = ModelCard("net", "swapper", "CC0-1.0", True, "made here")

        def __init__(self) -> None:
            self.first, self.second = device.session("auto"), device.session("auto")

    zoo = Zoo("auto")
    assert not zoo.chosen
    zoo._loaded["swapper", "net"] = Model()
    assert list(zoo.chosen) == ["cpu, since cuda did not load; `mien doctor` tells what is missing"]
    assert list(zoo.notes) == ["device auto took cpu, since cuda did not load; `mien doctor` tells what is missing"]


class Preparing:
    """Gives bytes that name the device, and counts."""

    def __init__(self, *notes: str) -> None:
        self.notes = notes
        self.asked: list[str] = []

    def __call__(self, model: Path | bytes, spec: DeviceSpec) -> Prepared:
        self.asked.append(str(spec))
        return Prepared(b"ready", self.notes)


def test_a_graph_is_made_ready_once_for_each_device_and_not_for_the_cpu() -> None:
    device, prepare = FakeDevice(lambda *_: bool(fails) and fails.pop()), Preparing("stays in single precision")
    fails = [True]
    session = device.session("cuda:0,1", prepare=prepare)
    session(X[:1], SHIFT)
    assert prepare.asked == ["cuda:0", "cuda:1"]
    assert device.models == [b"ready"] * 3  # opened again once, for want of memory
    assert session.notes[0] == "net: stays in single precision"
    device.session("cpu", prepare=prepare)
    assert prepare.asked == ["cuda:0", "cuda:1"] and device.models[-1] == b""


def test_the_cpu_gets_the_file_as_it_is_and_one_item_at_a_time() -> None:
    """What was made ready may take a batch where the file does not."""
    device = FakeDevice(lambda device, _: device == "cuda")
    session = device.session("cuda", "cpu", prepare=Preparing())
    check(session(X[:3], SHIFT), X[:3])
    assert device.models == [b"ready", b"ready", b""]
    assert device.batches == [3, 1, 1, 1, 1, 1]


def test_zeros_of_the_declared_shape_warm_each_device() -> None:
    device = FakeDevice()
    assert device.session("cuda:0,1").warm()
    assert (device.ran, device.batches) == (["cuda:0", "cuda:1"], [1, 1])


def test_free_dimensions_are_given_by_name_or_nothing_is_run() -> None:
    device = FakeDevice(inputs=(Value("x", ("n", "width")), Value("shift", (1, 3))))
    session = device.session("cuda")
    assert not session.warm()
    assert device.batches == []
    assert session.warm({"width": 3, "n": 4})
    assert device.batches == [4]
    odd = FakeDevice(inputs=(Value("x", ("n", 3), "tensor(string)"), Value("shift", (1, 3)))).session("cuda")
    assert not odd.warm()


def test_a_zoo_warms_what_is_loaded() -> None:
    device, zoo = FakeDevice(), Zoo("cpu")

    class Model:
        card = ModelCard("net", "swapper", "CC0-1.0", True, "made here")
        network = device.session("cuda")

        def __init__(self) -> None:
            self.session = self.network

    zoo.warm()
    zoo._loaded["swapper", "net"] = Model()
    zoo.warm({"batch": 2})
    assert device.batches == [2]


def test_only_one_thread_at_a_time_runs_on_directml() -> None:
    inside, most = [0], [0]
    lock = threading.Lock()

    def work(device: str, items: int) -> bool:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.01)
        with lock:
            inside[0] -= 1
        return False

    session = FakeDevice(work).session("directml")
    threads = [threading.Thread(target=session, args=(X, SHIFT)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == [1]


def test_the_words_of_an_exhausted_memory_are_not_taken_for_a_bad_file() -> None:
    device = FakeDevice(opening=lambda _: True, error=lambda: RuntimeError(ARENA))
    with pytest.raises(DeviceError, match="net: out of memory on cuda:1, even for one item; close what else uses it"):
        device.session("cuda:1")
    with pytest.raises(DeviceError, match="net: out of memory on cpu, even for one item; close other programs"):
        device.session("cuda:1", "cpu")


def test_a_device_that_is_gone_when_the_graph_is_opened_again_is_told() -> None:
    device = FakeDevice()
    session = device.session("cuda:0")
    session(X, SHIFT)
    assert session.replicas[0].evict()
    device.missing = ["cuda"]
    with pytest.raises(DeviceError, match=r"^net: cuda:0 does not load any more; run `mien doctor`, pass --fallback"):
        session(X, SHIFT)
    device.missing = []
    check(session(X, SHIFT))
    assert (session.device, session.notes) == ("cuda:0", ())


def test_a_device_that_is_gone_gives_way_to_the_cpu() -> None:
    device = FakeDevice()
    session = device.session("cuda:0", "cpu", prepare=Preparing())
    assert session.replicas[0].evict()
    device.missing = ["cuda"]
    check(session(X[:3], SHIFT), X[:3])
    assert session.device == "cpu" and session.notes == (
        "net: cuda:0 does not load any more; done on the CPU from there on",
    )
    assert device.models == [b"ready", b"ready", b""] and device.batches == [1, 1, 1]


@pytest.mark.parametrize("without", ["cuda:0", "cuda:1"])
def test_a_replica_that_takes_one_item_at_a_time_gets_its_part_one_by_one(without: str) -> None:
    """The device has no room for the network, so that the CPU does its part, with the file as it is."""
    fixed = FakeDevice(
        inputs=(Value("x", (1, 3)), Value("shift", (1, 3))), outputs=(Value("y", (1, 3)), Value("sums", (1,)))
    )
    free = FakeDevice(opening=lambda device: device == without)

    def opener(model: Path | bytes, device: str, threads: int) -> Any:
        return (fixed if device == "cpu" else free).open(model, device, threads)

    session = Session(b"", Runtime("cuda:0,1", "cpu", opener, prepare=Preparing()), name="net")
    assert session.inputs[0].shape == ("batch", 3)
    for _ in range(2):
        check(session(X, SHIFT))
    check(session(X[:1], SHIFT), X[:1])
    assert set(fixed.batches) == {1} and 5 in free.batches
