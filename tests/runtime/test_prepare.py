"""What is done to a model before a GPU opens it, and CUDA serving until TensorRT's engine is there."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest

from mien.errors import DeviceError, ModelError
from mien.runtime.batching import Run, probe_file, run_on_cpu
from mien.runtime.devices import DeviceSpec, Prepared, Settings
from mien.runtime.engine_job import EngineJob, State
from mien.runtime.engines import Order, build, build_engine, folder_of, settle
from mien.runtime.graph import Graph, Value, open_graph
from mien.runtime.meanwhile import Meanwhile, engine_order, is_engine, open_tensorrt
from mien.runtime.prepare import Precision, Preparation, device_key
from mien.runtime.session import Runtime, Session
from tests.stand_ins import graph, node

PRETENDED = Path(__file__).with_name("pretended")
NET = graph([node("MatMul", ["x", "w"], "y")], {"x": (1, 32)}, {"y": (1, 32)}, {}, w=np.eye(32, dtype=np.float32))
CUDA, TENSORRT = DeviceSpec("cuda"), DeviceSpec("tensorrt", (0,))


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A pretended `tensorrt`, here and in children."""
    monkeypatch.setenv("PYTHONPATH", str(PRETENDED))
    monkeypatch.setenv("PRETENDED_TENSORRT", json.dumps({}))
    monkeypatch.syspath_prepend(PRETENDED)
    sys.modules.pop("tensorrt", None)
    yield
    sys.modules.pop("tensorrt", None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(NET)
    return path


def preparation(folder: Path, precision: Precision, **settings: Any) -> Preparation:
    return Preparation(folder, precision, Settings(**settings), run_on_cpu)


@pytest.mark.parametrize("kind", ["cpu", "coreml"])
def test_devices_that_gain_nothing_open_the_file_itself(kind: Any, file: Path, tmp_path: Path) -> None:
    assert preparation(tmp_path / "c", "fp16")(file, DeviceSpec(kind)).model == file
    assert not (tmp_path / "c").exists()


def test_a_free_batch_then_half_precision(file: Path, tmp_path: Path) -> None:
    made = preparation(tmp_path / "c", "fp16")(file, CUDA)
    assert made.notes == ("half precision",)
    assert isinstance(made.model, Path) and made.model.parent == tmp_path / "c" / "half"
    session = Session(made.model, "cpu")
    assert session.inputs[0].shape == ("batch", 32)
    assert session.inputs[0].type == session.outputs[0].type == "tensor(float)"
    x = np.random.default_rng(0).random((5, 32), np.float32)
    np.testing.assert_allclose(session(x)[0], x, rtol=1e-3)
    assert preparation(tmp_path / "c", "fp16")(file, CUDA) == made


@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_small_or_unwanted_is_only_freed(precision: Precision, file: Path, tmp_path: Path) -> None:
    made = preparation(tmp_path / "c", precision)(file, CUDA)
    assert made.notes == ()
    assert isinstance(made.model, Path) and made.model.parent == tmp_path / "c" / "batch"


def test_auto_converts_large_files(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mien.runtime.prepare.WORTH", 1000)
    assert preparation(tmp_path / "c", "auto")(file, CUDA).notes == ("half precision",)


def test_openvino_chooses_its_precision_itself(file: Path, tmp_path: Path) -> None:
    assert preparation(tmp_path / "c", "fp16")(file, DeviceSpec("openvino")).notes == ()


def test_a_device_that_breaks_half_precision_gets_float32_and_says_so(file: Path, tmp_path: Path) -> None:
    def opener(model: Path | bytes) -> Run:
        run = run_on_cpu(model)
        assert isinstance(model, Path)
        return (lambda feeds: [y * 2 for y in run(feeds)]) if model.parent.name == "half" else run

    made = Preparation(tmp_path / "c", "fp16", opener=opener)(file, CUDA)
    assert made.notes[0].startswith("full precision, since in half precision its outputs are off by 100.0%")
    assert isinstance(made.model, Path) and made.model.parent.name == "batch"


def test_tensorrt_without_its_package_leaves_the_engine_to_onnx_runtime(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    made = preparation(tmp_path / "c", "fp32", cache=tmp_path / "e")(file, TENSORRT)
    assert made.notes == ("ONNX Runtime builds the TensorRT engine itself, which takes minutes",)


def test_tensorrt_tells_that_cuda_serves_until_the_engine_is_there(file: Path, tmp_path: Path, tensorrt: None) -> None:
    prepare = preparation(tmp_path / "c", "fp16", cache=tmp_path / "e")
    made = prepare(file, TENSORRT)
    assert made.notes == ("half precision", "done with CUDA until its TensorRT engine is built")


def test_an_engine_built_by_hand_is_used(file: Path, tmp_path: Path, tensorrt: None) -> None:
    engine = build_engine(file, fp16=True, cache=tmp_path / "e")
    made = preparation(tmp_path / "c", "auto", cache=tmp_path / "e")(file, TENSORRT)
    assert made.model == engine.wrapper and is_engine(engine.wrapper)
    assert made.notes == ("done with the TensorRT engine that was built by hand",)
    exact = preparation(tmp_path / "c", "fp32", cache=tmp_path / "e")(file, TENSORRT)
    assert exact.model != engine.wrapper
    assert preparation(tmp_path / "c", "fp32", cache=tmp_path / "e")(file, CUDA).model != engine.wrapper


class Pretending:
    """A graph on the CPU that names other providers."""

    def __init__(self, model: Path | bytes, provider: str, factor: float = 1.0) -> None:
        self._graph, self.provider, self._factor = open_graph(model, "cpu", 1), provider, factor

    def get_providers(self) -> Sequence[str]:
        return [self.provider, "CPUExecutionProvider"]

    def get_inputs(self) -> Sequence[Value]:
        return self._graph.get_inputs()

    def get_outputs(self) -> Sequence[Value]:
        return self._graph.get_outputs()

    def run(self, names: Any, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions) -> Any:
        return [self._factor * output for output in self._graph.run(names, feeds, options)]


class Job(EngineJob):
    """One whose state is told."""

    def __init__(self, path: Path) -> None:
        self.state, self.reason, self._path = "new", "", path

    def start(self) -> State:
        if self.state == "new":
            self.state = "building"
        return self.state

    def poll(self) -> State:
        return self.state

    @property
    def result(self) -> Path:
        return self._path


def ran(graph: Graph) -> bool:
    y = graph.run(None, {"x": np.full((1, 32), 2, np.float32)}, ort.RunOptions())[0]
    return bool((y == 2).all())


def settled(graph: Meanwhile, until: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not until() and time.monotonic() < end:
        assert ran(graph)
        time.sleep(0.01)
    assert until()


TRT, CUDA_NAME = "TensorrtExecutionProvider", "CUDAExecutionProvider"


def test_cuda_serves_until_the_engine_is_there(file: Path) -> None:
    job = Job(file)
    graph = Meanwhile(Pretending(file, CUDA_NAME), job, lambda path: Pretending(path, TRT))
    assert job.state == "new"
    assert ran(graph) and graph.serving == "cuda"
    assert list(graph.get_providers())[:2] == [TRT, CUDA_NAME]
    job.state = "done"
    settled(graph, lambda: graph.serving == "tensorrt")
    assert ran(graph) and graph.notes == ()
    assert list(graph.get_providers()) == [TRT, "CPUExecutionProvider"]
    assert [value.name for value in (*graph.get_inputs(), *graph.get_outputs())] == ["x", "y"]


@pytest.mark.parametrize(
    ("provider", "factor", "reason"),
    [(TRT, 1.2, "its outputs are off by 20.0%"), (CUDA_NAME, 1.0, "TensorRT does not load")],
)
def test_an_engine_that_fails_its_test_is_not_used(provider: str, factor: float, reason: str, file: Path) -> None:
    job = Job(file)
    graph = Meanwhile(Pretending(file, CUDA_NAME), job, lambda path: Pretending(path, provider, factor))
    job.state = "done"
    settled(graph, lambda: bool(graph.notes))
    assert graph.serving == "cuda"
    assert graph.notes[0].startswith(f"done with CUDA, since its TensorRT engine failed ({reason}")


def test_a_job_that_fails_leaves_cuda_serving(file: Path) -> None:
    job = Job(file)
    graph = Meanwhile(Pretending(file, CUDA_NAME), job, lambda path: Pretending(path, TRT))
    job.state, job.reason = "failed", "it took longer than 1200 s"
    settled(graph, lambda: bool(graph.notes))
    assert graph.notes == ("done with CUDA, since its TensorRT engine failed (it took longer than 1200 s)",)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DeviceError("no device")])
def test_a_job_that_raises_leaves_cuda_serving(error: Exception, file: Path) -> None:
    class Raising(Job):
        def start(self) -> State:
            raise error

    graph = Meanwhile(Pretending(file, CUDA_NAME), Raising(file), lambda path: Pretending(path, TRT))
    assert ran(graph)
    assert graph.notes == (f"done with CUDA, since its TensorRT engine failed ({error})",)


def test_a_file_that_does_not_open_leaves_cuda_serving(file: Path) -> None:
    job = Job(file.with_name("none.onnx"))
    graph = Meanwhile(Pretending(file, CUDA_NAME), job, lambda path: Pretending(path, TRT))
    job.state = "done"
    settled(graph, lambda: bool(graph.notes))
    assert "none.onnx" in graph.notes[0]


def test_opening_on_tensorrt_from_the_first_run_to_the_second(file: Path, tmp_path: Path, tensorrt: None) -> None:
    opened: list[tuple[str, str, bool]] = []

    def open_one(model: Path | bytes, device: str, threads: int, settings: Settings) -> Graph:
        assert isinstance(model, Path)
        opened.append((model.name, device, settings.fp16))
        # The pretended engine holds nothing that could run.
        return Pretending(file, TRT if device.startswith("tensorrt") else CUDA_NAME)

    settings = Settings(cache=tmp_path / "e", fp16=True)
    graph = open_tensorrt(file, TENSORRT, 0, settings, open_one=open_one)
    assert isinstance(graph, Meanwhile) and opened == [("net.onnx", "cuda:0", False)]
    settled(graph, lambda: graph.serving == "tensorrt")
    assert opened[1:] == [("model.onnx", "tensorrt:0", False)]
    again = open_tensorrt(file, TENSORRT, 0, settings, open_one=open_one)
    assert isinstance(again, Pretending) and opened[2:] == opened[1:2]


class Opening:
    """Opens the pretended engine, which holds nothing that could run, as the model times a factor."""

    def __init__(self, file: Path, factor: float = 1.0) -> None:
        self.file, self.factor = file, factor
        self.opened: list[str] = []

    def __call__(self, model: Path | bytes, device: str, threads: int, settings: Settings) -> Graph:
        assert isinstance(model, Path)
        self.opened.append(model.name)
        if device.startswith("tensorrt"):
            return Pretending(self.file, TRT, self.factor)
        return Pretending(self.file, CUDA_NAME)

    def graph(self, cache: Path) -> Graph:
        return open_tensorrt(self.file, TENSORRT, 0, Settings(cache=cache), open_one=self)


def test_an_engine_that_failed_its_test_is_never_used_nor_built_again(
    file: Path, tmp_path: Path, tensorrt: None
) -> None:
    note = "done with CUDA, since its TensorRT engine failed (its outputs are off by 20.0%"
    for opened in (["net.onnx", "model.onnx"], ["net.onnx"]):
        opening = Opening(file, 1.2)
        graph = opening.graph(tmp_path / "e")
        assert isinstance(graph, Meanwhile)
        settled(graph, lambda graph=graph: bool(graph.notes))  # type: ignore[misc]
        assert graph.notes[0].startswith(note)
        assert opening.opened == opened
    assert not list((tmp_path / "e").glob("*/model.*"))


def test_an_engine_that_nobody_tested_is_tested_first(file: Path, tmp_path: Path, tensorrt: None) -> None:
    order = engine_order(file, TENSORRT, Settings(cache=tmp_path / "e"))
    assert order is not None
    build(order, folder_of(order, tmp_path / "e"), tmp_path / "e" / "timing.cache")
    opening = Opening(file)
    graph = opening.graph(tmp_path / "e")
    assert isinstance(graph, Meanwhile) and graph.serving == "cuda"
    settled(graph, lambda: graph.serving == "tensorrt")
    assert opening.opened == ["net.onnx", "model.onnx"]
    assert isinstance(opening.graph(tmp_path / "e"), Pretending)


def test_an_engine_that_was_built_by_itself_is_not_taken_for_one_built_by_hand(tmp_path: Path, tensorrt: None) -> None:
    """A file that is free already has the same engine either way."""
    file = tmp_path / "free.onnx"
    file.write_bytes(graph([node("Relu", ["x"], "y")], {"x": ("n", 32)}, {"y": ("n", 32)}))
    order = engine_order(file, TENSORRT, Settings(cache=tmp_path / "e"))
    assert order is not None
    build(order, folder_of(order, tmp_path / "e"), tmp_path / "e" / "timing.cache")
    prepare = preparation(tmp_path / "c", "fp32", cache=tmp_path / "e")
    assert prepare(file, TENSORRT).model == file
    assert build_engine(file, cache=tmp_path / "e").wrapper == prepare(file, TENSORRT).model


def test_half_files_let_tensorrt_use_half_precision(file: Path, tmp_path: Path, tensorrt: None) -> None:
    orders: list[Order] = []

    class Recorder(Job):
        def __init__(self, order: Order, cache: Path) -> None:
            super().__init__(file)
            orders.append(order)

    made = preparation(tmp_path / "c", "fp16", cache=tmp_path / "e")(file, TENSORRT)
    assert made.full is not None
    lookalike = tmp_path / "half" / "net.onnx"
    lookalike.parent.mkdir()
    lookalike.write_bytes(NET)
    for model in (made.model, lookalike):
        open_tensorrt(
            model, TENSORRT, 0, Settings(cache=tmp_path / "e", workspace=7), half=model == made.model,
            open_one=lambda *_: Pretending(file, CUDA_NAME), make_job=Recorder,
        )  # fmt: skip
    assert [(order.fp16, order.workspace) for order in orders] == [(True, 7), (False, 7)]


@pytest.mark.parametrize("cache", [None, "e"])
def test_models_that_are_no_files_or_have_no_cache_go_to_onnx_runtime(cache: str | None, tmp_path: Path) -> None:
    settings = Settings(cache=None if cache is None else tmp_path / cache)
    opened = open_tensorrt(NET, TENSORRT, 0, settings, open_one=lambda *told: Pretending(NET, TRT))
    assert isinstance(opened, Pretending)


def test_the_fastest_batch_is_measured_once_and_kept(file: Path, tmp_path: Path) -> None:
    sizes: list[int] = []

    def opener(model: Path | bytes) -> Run:
        run = run_on_cpu(model)

        def counted(feeds: Mapping[str, npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
            sizes.append(len(feeds["x"]))
            time.sleep(0.02)  # so that the largest batch is the fastest by far
            return run(feeds)

        return counted

    prepare = Preparation(tmp_path / "c", "fp32", opener=opener)
    assert prepare(file, CUDA).batch == 16
    assert set(sizes) == {1, 2, 4, 8, 16}
    sizes.clear()
    assert prepare(file, CUDA).batch == 16
    assert sizes == []


@pytest.mark.parametrize("outputs", [("rows", 4), (2, 4)])
def test_a_graph_without_one_free_batch_has_no_fastest(outputs: tuple[Any, ...], tmp_path: Path) -> None:
    model = graph([node("Reshape", ["x", "s"], "y")], {"x": (1, 2, "w")}, {"y": outputs}, {}, s=np.array([-1, 4]))
    assert preparation(tmp_path, "fp32")(model, CUDA).batch == 0


def test_a_session_takes_batches_of_the_fastest_size(file: Path, tmp_path: Path) -> None:
    made = preparation(tmp_path / "c", "fp32")(file, CUDA)
    sizes: list[int] = []

    class Counted(Pretending):
        def run(self, names: Any, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions) -> Any:
            sizes.append(len(feeds["x"]))
            return super().run(names, feeds, options)

    runtime = Runtime(
        "cuda:0",
        opener=lambda model, device, threads: Counted(model, CUDA_NAME),
        prepare=lambda model, spec: Prepared(made.model, made.notes, 3),
    )
    session = Session(file, runtime)
    assert session(np.zeros((7, 32), np.float32))[0].shape == (7, 32)
    assert sizes == [3, 3, 1]


def test_a_runtime_with_a_cache_opens_tensorrt_through_cuda(
    file: Path, tmp_path: Path, tensorrt: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_one(model: Path | bytes, device: str, *rest: Any) -> Graph:
        opened.append(device)
        return Pretending(file, TRT if device.startswith("tensorrt") else CUDA_NAME)

    monkeypatch.setattr("mien.runtime.where.open_graph", open_one)
    runtime = Runtime("tensorrt:0", settings=Settings(cache=tmp_path / "e"))
    session = Session(file, runtime)
    assert opened == ["cuda:0"] and session.device == "tensorrt:0"
    np.testing.assert_array_equal(session(np.ones((1, 32), np.float32))[0], np.ones((1, 32)))


@pytest.mark.parametrize("kind", ["cuda", "tensorrt", "directml"])
def test_nothing_is_made_for_a_device_that_is_not_there(kind: Any, file: Path, tmp_path: Path) -> None:
    assert Preparation(tmp_path / "c", "fp16")(file, DeviceSpec(kind)) == Prepared(file)
    assert not (tmp_path / "c").exists()


def test_a_device_that_is_there_runs_the_tests_itself(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_one(model: Path | bytes, device: str, threads: int, settings: Settings) -> Graph:
        opened.append(device)
        return Pretending(model, CUDA_NAME)

    monkeypatch.setattr("mien.runtime.prepare.open_graph", open_one)
    assert Preparation(tmp_path / "c", "fp16")(file, DeviceSpec("tensorrt", (1,))).notes[0] == "half precision"
    assert set(opened) == {"cuda:1"}


def test_memory_that_runs_out_in_the_probe_is_told_and_other_failures_leave_it_out(file: Path, tmp_path: Path) -> None:
    def opener(model: Path | bytes) -> Run:
        raise RuntimeError(text)

    text = "CUDA failure 2: out of memory"
    with pytest.raises(MemoryError):
        Preparation(tmp_path / "c", "fp32", opener=opener)(file, CUDA)
    text = "Non-zero status code returned"
    assert Preparation(tmp_path / "c", "fp32", opener=opener)(file, CUDA).batch == 0
    assert preparation(tmp_path / "c", "fp32")(file, CUDA).batch > 0


def test_without_cuda_tensorrt_is_not_there_either(
    file: Path, tmp_path: Path, tensorrt: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mien.runtime.where.open_graph", lambda model, *_, **__: open_graph(model, "cpu", 1))
    monkeypatch.setattr("mien.runtime.session.available_devices", lambda: ("tensorrt", "cpu"))
    settings = Settings(cache=tmp_path / "e")
    with pytest.raises(DeviceError, match=r"^device 'tensorrt:0' is not available"):
        Session(file, Runtime("tensorrt:0", settings=settings))
    session = Session(file, Runtime("auto", settings=settings))
    assert session.chosen == "cpu, since tensorrt did not load; `mien doctor` tells what is missing"
    assert not list((tmp_path / "e").glob(".*"))


def test_half_precision_that_overflows_in_use_gives_way_to_full(file: Path, tmp_path: Path) -> None:
    opened: list[Path | bytes] = []

    class Overflowing(Pretending):
        def __init__(self, model: Path | bytes) -> None:
            super().__init__(model, CUDA_NAME)
            self.half = isinstance(model, Path) and model.parent.name == "half"
            opened.append(model)

        def run(self, names: Any, feeds: Mapping[str, npt.NDArray[Any]], options: ort.RunOptions) -> Any:
            large = self.half and np.abs(feeds["x"]).max() > 1000
            return [output * (np.inf if large else 1) for output in super().run(names, feeds, options)]

    prepare = preparation(tmp_path / "c", "fp16")
    session = Session(file, Runtime("cuda:0", opener=lambda model, *_: Overflowing(model), prepare=prepare), name="net")
    small, large = np.ones((2, 32), np.float32), np.full((2, 32), 2000, np.float32)
    np.testing.assert_allclose(session(small)[0], small, rtol=1e-3)
    for _ in range(2):
        np.testing.assert_array_equal(session(large)[0], large)
    assert opened == [prepare(file, CUDA).model, prepare(file, CUDA).full]
    assert session.notes == (
        "net: half precision",
        "net: half precision gave values that are not finite on cuda:0; full precision from there on",
    )
    with np.errstate(all="ignore"):
        assert np.isnan(session(large * np.nan)[0]).all(), "a full one is not opened again"
    assert len(opened) == 2


def test_a_graph_that_is_closed_and_opened_again_keeps_its_job(
    file: Path, tmp_path: Path, tensorrt: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRETENDED_TENSORRT", json.dumps({"fail": "parse"}))
    monkeypatch.setattr("mien.runtime.where.open_graph", lambda *_, **__: Pretending(file, CUDA_NAME))
    runtime = Runtime("tensorrt:0", settings=Settings(cache=tmp_path / "e"))
    session, x = Session(file, runtime), np.ones((1, 32), np.float32)
    session(x)
    (job,) = runtime.jobs._jobs.values()
    while job.poll() == "building":
        time.sleep(0.02)
    for _ in range(2):
        session(x)
        assert "TensorRT cannot read the model" in session.notes[0]
        assert session.replicas[0].evict()
    assert list(runtime.jobs._jobs.values()) == [job] and job.state == "failed"


@pytest.mark.parametrize("folder", ["half", "batch"])
def test_a_damaged_copy_is_made_anew_and_the_file_is_not_blamed(folder: str, file: Path, tmp_path: Path) -> None:
    def session() -> Session:
        prepare = preparation(tmp_path / "c", "fp16" if folder == "half" else "fp32")
        return Session(file, Runtime("cuda:0", opener=lambda model, *_: Pretending(model, CUDA_NAME), prepare=prepare))

    good = session().notes
    (copy,) = (tmp_path / "c" / folder).glob("*.onnx")
    copy.write_bytes(copy.read_bytes()[:100])
    healed = session()
    assert len(healed.notes) == 1
    assert healed.notes[0].startswith("net.onnx: done with the file as it is, since what was made of it does not open")
    np.testing.assert_array_equal(healed(np.ones((1, 32), np.float32))[0], np.ones((1, 32)))
    assert not copy.exists()
    assert session().notes == good and copy.exists()


def test_a_damaged_copy_of_a_half_file_is_found_where_the_copy_is_made_from(file: Path, tmp_path: Path) -> None:
    made = preparation(tmp_path / "c", "fp32")(file, CUDA)
    assert isinstance(made.model, Path)
    made.model.write_bytes(made.model.read_bytes()[:100])
    healed = preparation(tmp_path / "c", "fp16")(file, CUDA)
    assert healed.model == file and healed.notes[0].startswith("done with the file as it is, since what was made of")
    assert preparation(tmp_path / "c", "fp16")(file, CUDA).notes == ("half precision",)


def test_a_bad_file_is_blamed_and_what_was_made_stays(file: Path, tmp_path: Path) -> None:
    prepare = preparation(tmp_path / "c", "fp16")
    made = prepare(file, CUDA)

    def broken(*_: Any) -> Graph:
        raise RuntimeError("no kernel image")

    with pytest.raises(ModelError, match=r"net\.onnx: cannot load the model \(no kernel image\); verify the file"):
        Session(file, Runtime("cuda:0", opener=broken, prepare=prepare))
    assert isinstance(made.model, Path) and made.model.exists()


def test_an_engine_that_does_not_open_any_more_is_built_anew(file: Path, tmp_path: Path, tensorrt: None) -> None:
    opening = Opening(file)
    first = opening.graph(tmp_path / "e")
    assert isinstance(first, Meanwhile)
    settled(first, lambda: first.serving == "tensorrt")

    class Damaged(Opening):
        def __call__(self, model: Path | bytes, device: str, threads: int, settings: Settings) -> Graph:
            graph = super().__call__(model, device, threads, settings)
            if self.opened == ["model.onnx"]:
                raise RuntimeError("cannot deserialize the engine")
            return graph

    again = Damaged(file)
    second = again.graph(tmp_path / "e")
    assert isinstance(second, Meanwhile)
    settled(second, lambda: second.serving == "tensorrt")
    assert again.opened == ["model.onnx", "net.onnx", "model.onnx"]
    assert second.notes == ("its TensorRT engine does not open (cannot deserialize the engine), and was removed",)


def test_a_copy_that_is_damaged_between_two_calls_gives_way_to_the_file(file: Path, tmp_path: Path) -> None:
    prepare = preparation(tmp_path / "c", "fp32")
    session = Session(file, Runtime("cuda:0", opener=lambda model, *_: Pretending(model, CUDA_NAME), prepare=prepare))
    x = np.random.default_rng(0).random((3, 32), np.float32)
    np.testing.assert_allclose(session(x)[0], x, rtol=1e-6)
    (copy,) = (tmp_path / "c" / "batch").glob("*.onnx")
    copy.write_bytes(b"")
    assert session.replicas[0].evict()
    np.testing.assert_allclose(session(x)[0], x, rtol=1e-6)  # which takes one item at a time


def test_what_was_measured_of_one_file_is_not_taken_for_another(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []

    def keep(cache: Path, key: Sequence[object], *rest: Any) -> Path:
        path = probe_file(cache, key, *rest)
        keys.append(path.name)
        return path

    monkeypatch.setattr("mien.runtime.prepare.probe_file", keep)
    for precision, memory in (("fp16", 0), ("fp32", 0), ("auto", 0), ("fp32", 1), ("fp32", 0)):
        preparation(tmp_path / "c", precision, gpu_memory=memory)(file, CUDA)  # type: ignore[arg-type]
    assert len(keys) == 5 and len(set(keys)) == 4 and keys[1] == keys[4]


def test_devices_without_a_name_are_told_apart_by_number_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (device_key(DeviceSpec("directml", (index,))) for index in (0, 1))
    assert first[:2] == second[:2] == ("directml", "unknown") and first != second
    monkeypatch.setattr("mien.runtime.prepare.gpu_name", lambda index: "NVIDIA H200")
    assert device_key(DeviceSpec("cuda", (0,))) == device_key(DeviceSpec("cuda", (1,)))
    assert device_key(DeviceSpec("rocm"))[1] == "unknown", "the name would be that of an NVIDIA GPU beside it"
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert device_key(DeviceSpec("directml", (0,))) != first


def test_the_fastest_batch_of_a_half_file_is_not_that_of_the_full_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both under the same options, where another driver refuses half precision."""
    keys: list[str] = []

    def keep(cache: Path, key: Sequence[object], *rest: Any) -> Path:
        keys.append(probe_file(cache, key, *rest).name)
        return tmp_path / "none"

    def broken(model: Path | bytes) -> Run:
        run = run_on_cpu(model)
        return (lambda feeds: [y * 2 for y in run(feeds)]) if "half" in str(model) else run

    monkeypatch.setattr("mien.runtime.prepare.probe_file", keep)
    assert preparation(tmp_path / "c", "fp16")(file, CUDA).full is not None
    for verdict in (tmp_path / "c" / "half").glob("*.json"):
        verdict.unlink()
    assert Preparation(tmp_path / "c", "fp16", opener=broken)(file, CUDA).full is None
    assert len(set(keys)) == 2


def test_a_tested_engine_of_a_half_file_is_known(file: Path, tmp_path: Path, tensorrt: None) -> None:
    prepare, settings = preparation(tmp_path / "c", "fp16", cache=tmp_path / "e"), Settings(cache=tmp_path / "e")
    order = engine_order(prepare(file, TENSORRT).model, TENSORRT, settings, half=True)
    assert order is not None
    settle(build(order, folder_of(order, tmp_path / "e"), tmp_path / "e" / "timing.cache").wrapper)
    assert prepare(file, TENSORRT).notes == ("half precision",)
