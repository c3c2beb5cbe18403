"""TensorRT engines, built by a pretended `tensorrt`: in this process, and in a child."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mien.errors import DeviceError, ModelError
from mien.runtime import engines
from mien.runtime.engine_job import COMMAND, EngineJob, Jobs
from mien.runtime.engines import Order, build_engine, built, folder_of, wrapper_of
from tests.stand_ins import graph, node

PRETENDED = Path(__file__).with_name("pretended")
FIXED = graph([node("Relu", ["x"], "y")], {"x": (1, 3)}, {"y": (1, 3)})
MERGING = graph([node("ReduceMean", ["x"], "y", axes=[0])], {"x": (1, 3)}, {"y": (1, 3)})
FREE = graph([node("Relu", ["x"], "y")], {"x": ("batch", 3)}, {"y": ("batch", 3)})
Pretend = Callable[..., None]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretend]:
    """Puts a `tensorrt` in place, here and in children."""

    def put(**told: Any) -> None:
        monkeypatch.setenv("PRETENDED_TENSORRT", json.dumps(told))
        sys.modules.pop("tensorrt", None)

    monkeypatch.setenv("PYTHONPATH", str(PRETENDED))
    monkeypatch.syspath_prepend(PRETENDED)
    put()
    yield put
    sys.modules.pop("tensorrt", None)


def write(folder: Path, model: bytes) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model)
    return path


def told(engine: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(engine.read_bytes())
    return values


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(
        DeviceError, match=r"^TensorRT is not installed \(import of .*\); pip install 'mien\[tensorrt\]'$"
    ):
        build_engine(write(tmp_path, FIXED), cache=tmp_path)


def test_too_old_a_package(tmp_path: Path, pretend: Pretend) -> None:
    pretend(version="8.6.1")
    with pytest.raises(DeviceError, match=r"^TensorRT 8\.6\.1 is too old, 10 is needed"):
        build_engine(write(tmp_path, FIXED), cache=tmp_path)


def test_an_engine_and_the_file_that_opens_it(tmp_path: Path, pretend: Pretend) -> None:
    heard: list[tuple[float, str]] = []
    file = write(tmp_path, MERGING)
    found = build_engine(
        file,
        fp16=True,
        workspace=1 << 29,
        cache=tmp_path / "e",
        progress=lambda part, phase: heard.append((part, phase)),
    )
    assert told(found.engine) == {
        "flags": ["FP16"], "profiles": [], "WORKSPACE": 1 << 29, "network": 0, "sha256": sha256(MERGING).hexdigest(),
        "visible": None,
    }  # fmt: skip
    assert heard == [(part, "Building Engine") for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    wrapper = onnx.load(found.wrapper).graph
    assert [n.op_type for n in wrapper.node] == ["EPContext"]
    assert {a.name: a.s or a.i for a in wrapper.node[0].attribute} == {
        "embed_mode": 0, "ep_cache_context": b"model.engine", "main_context": 1,
    }  # fmt: skip
    assert [value.name for value in (*wrapper.input, *wrapper.output)] == ["x", "y"]
    assert (tmp_path / "e" / "timing.cache").read_bytes() == b"+"
    assert not list(tmp_path.glob("**/*.part"))


def test_a_free_batch_gets_a_profile(tmp_path: Path, pretend: Pretend) -> None:
    for model in (FREE, FIXED):
        found = build_engine(write(tmp_path, model), cache=tmp_path)
        assert told(found.engine)["profiles"] == [{"x": [[1, 3], [4, 3], [16, 3]]}]
        assert told(found.engine)["flags"] == []


def test_other_free_dimensions_need_shapes(tmp_path: Path, pretend: Pretend) -> None:
    file = write(tmp_path, graph([node("Relu", ["x"], "y")], {"x": (1, "w")}, {"y": (1, "w")}))
    with pytest.raises(
        ModelError, match=r"net\.onnx: input x of batch×w is free in more than its batch; give its shapes"
    ):
        build_engine(file, cache=tmp_path)
    found = build_engine(file, cache=tmp_path, profile={"x": ((1, 2), (1, 5), (1, 9))})
    assert told(found.engine)["profiles"] == [{"x": [[1, 2], [1, 5], [1, 9]]}]


def test_tensorrt_11_takes_its_types_from_the_file(tmp_path: Path, pretend: Pretend) -> None:
    pretend(version="11.3.0")
    nodes = [node("MatMul", ["x", "w"], "m"), node("ReduceMean", ["m"], "y", axes=[0])]
    model = graph(nodes, {"x": (1, 32)}, {"y": (1, 32)}, {}, w=np.eye(32, dtype=np.float32))
    file = write(tmp_path, model)
    plain = told(build_engine(file, cache=tmp_path).engine)
    half = told(build_engine(file, fp16=True, cache=tmp_path).engine)
    assert plain["network"] == half["network"] == 2
    assert plain["sha256"] == sha256(model).hexdigest() != half["sha256"]
    assert plain["flags"] == half["flags"] == []


@pytest.mark.parametrize(
    ("fail", "error", "text"),
    [
        (
            "parse",
            ModelError,
            r"net\.onnx: TensorRT cannot read the model \(No importer registered for op: Foo\); choose",
        ),
        ("build", DeviceError, r"net\.onnx: TensorRT cannot build the engine; give it more --workspace"),
    ],
)
def test_failures_leave_nothing(fail: str, error: type[Exception], text: str, tmp_path: Path, pretend: Pretend) -> None:
    pretend(fail=fail)
    with pytest.raises(error, match=text):
        build_engine(write(tmp_path, MERGING), cache=tmp_path / "e")
    assert [path for path in (tmp_path / "e").iterdir() if path.name != "batch"] == []


def test_what_progress_raises_ends_the_work(tmp_path: Path, pretend: Pretend) -> None:
    def stop(part: float, phase: str) -> None:
        if part >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_engine(write(tmp_path, FIXED), cache=tmp_path / "e", progress=stop)
    assert [path for path in (tmp_path / "e").iterdir() if path.name != "batch"] == []


def test_timings_are_used_again_and_those_of_another_gpu_dropped(tmp_path: Path, pretend: Pretend) -> None:
    file = write(tmp_path, FIXED)
    for expected in (b"+", b"++"):
        build_engine(file, cache=tmp_path)
        assert (tmp_path / "timing.cache").read_bytes() == expected
    (tmp_path / "timing.cache").write_bytes(b"other")
    build_engine(file, cache=tmp_path)
    assert (tmp_path / "timing.cache").read_bytes() == b"+"


def test_the_folder_depends_on_all_that_the_engine_does(
    tmp_path: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = {"x": ((1, 2), (1, 5), (1, 9))}
    orders = [Order("a", "1"), Order("a", "2"), Order("a", "1", True), Order("a", "1", profile=shapes)]
    folders = {folder_of(order, tmp_path) for order in orders}
    monkeypatch.setattr(engines, "gpu_name", lambda index: "another")
    folders.add(folder_of(orders[0], tmp_path))
    pretend(version="10.13.0")
    folders.add(folder_of(orders[0], tmp_path))
    assert len(folders) == 6
    assert folder_of(Order("elsewhere", "1", workspace=9), tmp_path) == folder_of(orders[0], tmp_path)


def order_of(folder: Path, **told: Any) -> Order:
    file = write(folder, FIXED)
    return Order(str(file), sha256(FIXED).hexdigest(), **told)


def wait(job: EngineJob, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while job.poll() in ("waiting", "building") and time.monotonic() < end:
        time.sleep(0.02)


def test_a_child_builds_while_the_caller_goes_on(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=0.4)
    heard: list[tuple[float, str]] = []
    job = EngineJob(order_of(tmp_path, fp16=True), tmp_path / "e", progress=lambda *now: heard.append(now))
    assert job.state == "new" and job.result is None
    assert job.start() == "building"
    wait(job)
    assert (job.state, job.reason) == ("done", "")
    assert job.result is not None and job.result.exists()
    assert told(job.result.with_name("model.engine"))["flags"] == ["FP16"]
    assert heard and heard == sorted(heard) and heard[-1][1] == "Building Engine"
    assert sorted(path.name for path in (tmp_path / "e").iterdir() if not path.name.endswith(".lock")) == [
        job.result.parent.name,
        "timing.cache",
    ]
    assert built(order_of(tmp_path, fp16=True), tmp_path / "e") == job.result
    again = EngineJob(order_of(tmp_path, fp16=True), tmp_path / "e", command=("false",))
    assert again.start() == "done"


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        ("parse", "TensorRT cannot read the model"),
        ("build", "TensorRT cannot build the engine"),
        ("crash", "Segmentation fault (pretended)"),
    ],
)
def test_a_child_that_fails_says_why_and_leaves_nothing(
    fail: str, reason: str, tmp_path: Path, pretend: Pretend
) -> None:
    pretend(fail=fail)
    job = EngineJob(order_of(tmp_path), tmp_path / "e")
    job.start()
    wait(job)
    assert job.state == "failed"
    assert reason in job.reason and "\n" not in job.reason
    assert [path.name for path in (tmp_path / "e").iterdir() if not path.name.endswith(".lock")] == []


def test_a_child_that_takes_too_long_is_killed(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=60)
    now = [0.0]
    job = EngineJob(order_of(tmp_path), tmp_path / "e", limit=100, clock=lambda: now[0])
    job.start()
    process = children(job)
    while job.progress[0] == 0:
        assert job.poll() == "building"
        time.sleep(0.02)
    now[0] = 101
    assert job.poll() == "failed"
    assert job.reason == "it took longer than 100 s"
    assert process.poll() is not None
    assert [path.name for path in (tmp_path / "e").iterdir() if not path.name.endswith(".lock")] == []


def test_cancelling_ends_the_child(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=60)
    job = EngineJob(order_of(tmp_path), tmp_path / "e")
    job.start()
    process = children(job)
    job.cancel()
    assert job.state == "cancelled" and process.poll() is not None
    job.cancel()
    assert job.poll() == "cancelled"


def test_one_builds_and_the_others_wait(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=0.4)
    order = order_of(tmp_path)
    first, second = EngineJob(order, tmp_path / "e"), EngineJob(order, tmp_path / "e", command=("false",))
    assert first.start() == "building"
    assert second.start() == "waiting"
    wait(first)
    assert second.poll() == "done" and second.result == first.result


def test_a_waiting_one_builds_itself_when_the_other_gives_up(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=60)
    order = order_of(tmp_path)
    first, second = EngineJob(order, tmp_path / "e"), EngineJob(order, tmp_path / "e")
    first.start()
    second.start()
    first.cancel()
    assert second.poll() == "building"
    second.cancel()


def test_the_child_ends_with_its_limit(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=60)
    job = EngineJob(order_of(tmp_path), tmp_path / "e", limit=0.1, clock=lambda: 0.0)
    job.start()
    wait(job)
    assert (job.state, job.reason) == ("failed", "the process that builds it ended with 3")


def test_the_wrapper_of_a_model_leaves_its_weights_out() -> None:
    assert len(wrapper_of(FIXED, "e")) < 400


def test_another_gpu_is_the_first_of_a_child(tmp_path: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    file, heard = write(tmp_path, MERGING), list[float]()
    found = build_engine(file, cache=tmp_path / "e", device=1, progress=lambda part, phase: heard.append(part))
    assert told(found.engine)["visible"] == "7"
    assert found.wrapper.exists() and found.seconds > 0 and heard == sorted(heard)
    pretend(fail="parse")
    with pytest.raises(DeviceError, match=r"net\.onnx: TensorRT cannot read the model"):
        build_engine(file, cache=tmp_path / "e", device=1)


def children(job: EngineJob) -> Any:
    process = job._held.process
    assert process is not None
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_one_that_is_dropped_leaves_nothing(tmp_path: Path, pretend: Pretend) -> None:
    pretend(seconds=60)
    order, before = order_of(tmp_path), len(list(Path("/proc/self/fd").iterdir()))
    job = EngineJob(order, tmp_path / "e")
    assert job.start() == "building"
    process = children(job)
    del job
    gc.collect()
    assert process.returncode is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [path.suffix for path in (tmp_path / "e").iterdir()] == [".lock"]
    again = EngineJob(order, tmp_path / "e")
    assert again.start() == "building"
    again.cancel()


def test_a_full_disk_ends_it_with_a_reason(tmp_path: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    job = EngineJob(order_of(tmp_path), tmp_path / "e", command=("true",))
    monkeypatch.setattr(EngineJob, "_spawn", full)
    assert job.start() == "failed"
    assert job.reason == "[Errno 28] No space left on device"


def test_jobs_of_one_order_are_one_and_remember_what_became_of_it(tmp_path: Path, pretend: Pretend) -> None:
    order, jobs = order_of(tmp_path), Jobs()
    job = jobs.get(order, tmp_path / "e")
    assert jobs.get(order, tmp_path / "e") is job
    assert jobs.get(order_of(tmp_path, fp16=True), tmp_path / "e") is not job
    job.start()
    wait(job)
    assert job.result is not None
    job.result.unlink()  # as one that does not open
    assert job.start() == "failed" and job.reason == "its engine does not open"


def test_a_child_whose_parent_is_gone_ends(tmp_path: Path, pretend: Pretend) -> None:
    """Even one that was gone before the child looked."""
    pretend(seconds=60)
    order = json.dumps({"file": str(write(tmp_path, FIXED)), "sha256": "0"})
    done = subprocess.run([*COMMAND, order, str(tmp_path / "w"), "1000", "1"], check=False, timeout=60)
    assert done.returncode == 3
