"""TensorRT engines built beforehand: `build_engine` writes one, with an ONNX file by which ONNX Runtime opens it.

The API is that of TensorRT 10 and 11. None of it was run on a GPU yet; tests put a made-up `tensorrt` in its place.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from mien.errors import DeviceError, MienError, ModelError
from mien.runtime.axes import dims_of, per_item
from mien.runtime.batching import free_batch, load_onnx
from mien.runtime.convert import converted, has_float32_weights
from mien.runtime.kept import key_of, read_json, sha256_of, write_json, write_whole
from mien.runtime.nvml import UNKNOWN, gpu_name

Progress: TypeAlias = Callable[[float, str], None]
"""Called with the part that is done, 0 to 1, and the name of what goes on."""
Profile: TypeAlias = Mapping[str, tuple[Sequence[int], Sequence[int], Sequence[int]]]
"""Smallest, usual and largest shape of inputs by name."""

WORKSPACE = 1 << 30
BATCHES = (1, 4, 16)
"""Smallest, usual and largest batch of inputs whose batch is free."""
ENGINE, WRAPPER, TIMING, PROGRESS, OUT = "model.engine", "model.onnx", "timing.cache", "progress.json", "out"
"""Names of files; the last is the folder in which a child leaves what it built."""
ORDER, TESTED, REFUSED = "order.json", "tested.json", "refused.json"
"""Records beside an engine: what was ordered; that it gave what CUDA gives; and, in its place, that it did not."""


@dataclass(frozen=True, slots=True)
class Order:
    """What an engine depends on, beside the GPU and the version of TensorRT."""

    file: str
    """The model's path."""
    sha256: str
    """Of the model that it stands for, which may be another version of the file."""
    fp16: bool = False
    workspace: int = WORKSPACE
    """Bytes that TensorRT may use while it works."""
    device: int = 0
    """CUDA's number of the GPU."""
    profile: Profile = field(default_factory=dict)
    """Shapes of inputs with free dimensions; a free batch needs none."""
    name: str = ""
    """What errors call it, if not its path."""
    by_hand: bool = False
    """A person asked for it: it is used for that file without a comparison with CUDA."""

    @property
    def called(self) -> str:
        """What errors call it."""
        return self.name or self.file


@dataclass(frozen=True, slots=True)
class Built:
    """An engine on disk."""

    engine: Path
    wrapper: Path
    """An ONNX file whose one node is the engine: what is opened with `--device tensorrt`."""
    seconds: float
    notes: tuple[str, ...] = ()


def build_engine(
    file: Path,
    *,
    fp16: bool = False,
    workspace: int = WORKSPACE,
    cache: Path,
    device: int = 0,
    profile: Profile = MappingProxyType({}),
    progress: Progress | None = None,
) -> Built:
    """Build a TensorRT engine of an ONNX file for the GPU of this machine, in this process; minutes.

    A file of one item is given a free batch first where that can be proved. The engine is written to a folder of its
    own within `cache`, where `--device tensorrt` finds it, and replaces an older one.

    Args:
        fp16: let it work in half precision.
        workspace: bytes that TensorRT may use while it works.
        cache: the folder of engines, `engines` in mien's cache folder.
        profile: shapes of inputs that are free in more than their batch.
        progress: called with the part that is done and the name of what goes on; what it raises ends the work.

    Raises:
        DeviceError: TensorRT is not installed, finds no GPU, or cannot build the engine.
        ModelError: the file cannot be read, or holds what TensorRT does not know.
        OutputError: the engine cannot be written.
    """
    tensorrt()
    sha256 = sha256_of(file)
    freed = None if profile else free_batch(file, cache, sha256=sha256)
    order = Order(str(freed or file), sha256, fp16, workspace, device, dict(profile), str(file), by_hand=True)
    if device:
        return _elsewhere(order, cache, progress)
    return build(order, folder_of(order, cache), cache / TIMING, progress)


def _elsewhere(order: Order, cache: Path, progress: Progress | None) -> Built:
    """Build for another GPU than CUDA's first: in a child, of which it is the first."""
    from mien.runtime.engine_job import EngineJob

    started = time.monotonic()
    shutil.rmtree(folder_of(order, cache), ignore_errors=True)
    job = EngineJob(order, cache, limit=float("inf"), progress=progress)
    try:
        job.start()
        while job.poll() in ("waiting", "building"):
            time.sleep(0.1)
    finally:
        job.cancel()
    if job.result is None:
        raise DeviceError(job.reason)
    return Built(job.result.with_name(ENGINE), job.result, time.monotonic() - started)


def folder_of(order: Order, cache: Path) -> Path:
    """Where the engine lies: by content of the model, GPU, version of TensorRT, flags and shapes.

    Raises:
        DeviceError: TensorRT is not installed.
    """
    profile = sorted((name, [list(shape) for shape in shapes]) for name, shapes in order.profile.items())
    version = str(tensorrt().__version__)
    gpu = gpu_name(order.device)
    place = (platform.node(), order.device) if gpu == UNKNOWN else ()
    return cache / key_of(order.sha256, gpu, *place, version, order.fp16, profile, BATCHES)


def built(order: Order, cache: Path) -> Path | None:
    """The file to open instead of the model, when its engine is there, tested or not."""
    wrapper = folder_of(order, cache) / WRAPPER
    return wrapper if wrapper.exists() else None


def tested(order: Order, cache: Path) -> Path | None:
    """The same, when the engine gave what CUDA gives."""
    wrapper = built(order, cache)
    return wrapper if wrapper is not None and wrapper.with_name(TESTED).exists() else None


def built_by_hand(order: Order, cache: Path) -> Path | None:
    """The same, when a person had the engine built."""
    wrapper = built(order, cache)
    if wrapper is None or not (read_json(wrapper.with_name(ORDER)) or {}).get("by_hand"):
        return None
    return wrapper


def refused(folder: Path) -> str:
    """Why the engine that was in this folder is not built again; empty when nothing is known against it."""
    return str((read_json(folder / REFUSED) or {}).get("reason", ""))


def settle(wrapper: Path, reason: str = "") -> None:
    """Keep what the comparison with CUDA found: an engine that failed it is removed, and not built again.

    Args:
        reason: what is wrong with the engine, in words; empty when it passed.

    Raises:
        OutputError: the folder cannot be written to.
    """
    if not reason:
        write_json(wrapper.with_name(TESTED), {"tested": True})
        return
    write_json(wrapper.with_name(REFUSED), {"reason": reason})
    discard(wrapper)


def discard(wrapper: Path) -> None:
    """Remove an engine that is of no use; it is built again unless it was refused."""
    for name in (TESTED, WRAPPER, ENGINE):
        with suppress(OSError):
            wrapper.with_name(name).unlink()


def tensorrt() -> Any:
    """The package.

    Raises:
        DeviceError: it is not installed, or too old.
    """
    try:
        module = importlib.import_module("tensorrt")
    except ImportError as error:
        raise DeviceError(f"TensorRT is not installed ({error}); pip install 'mien[tensorrt]'") from error
    version = str(getattr(module, "__version__", "0"))
    if int(version.split(".")[0]) < 10:
        raise DeviceError(f"TensorRT {version} is too old, 10 is needed; pip install --upgrade 'mien[tensorrt]'")
    return module


def build(order: Order, folder: Path, timing: Path, progress: Progress | None = None) -> Built:
    """Build what was ordered into a folder; see `build_engine`.

    Args:
        timing: file of kernels' times, which all engines share; whichever is of another GPU is replaced.
    """
    started = time.monotonic()
    trt = tensorrt()
    if order.device:  # it builds for CUDA's current device
        raise DeviceError(f"cannot build for GPU {order.device} from here; set CUDA_VISIBLE_DEVICES={order.device}")
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(_network_flags(trt))
    data, notes = _source(order, trt)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(data):
        reasons = "; ".join(str(parser.get_error(index).desc()) for index in range(parser.num_errors)) or "unknown"
        raise ModelError(
            f"{order.called}: TensorRT cannot read the model ({_short(reasons)}); choose --device cuda for this one"
        )
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, order.workspace)
    if order.fp16 and hasattr(trt.BuilderFlag, "FP16"):
        config.set_flag(trt.BuilderFlag.FP16)
    _add_profile(builder, config, order)
    _use_timings(config, timing)
    monitor = None if progress is None else _monitor(trt, progress)
    if monitor is not None:
        config.progress_monitor = monitor
    engine = builder.build_serialized_network(network, config)
    if monitor is not None and monitor.stopped is not None:
        raise monitor.stopped
    if engine is None:
        raise DeviceError(
            f"{order.called}: TensorRT cannot build the engine; give it more --workspace, "
            "close what else uses the GPU, or choose --device cuda"
        )
    for name in (TESTED, REFUSED):  # of the engine that is replaced
        (folder / name).unlink(missing_ok=True)
    write_whole(folder / ENGINE, bytes(engine))
    write_whole(folder / WRAPPER, wrapper_of(data, ENGINE))
    write_whole(timing, bytes(config.get_timing_cache().serialize()))
    seconds = time.monotonic() - started
    record = {**asdict(order), "profile": {name: list(map(list, shapes)) for name, shapes in order.profile.items()}}
    write_json(folder / ORDER, {**record, "gpu": gpu_name(order.device), "tensorrt": str(trt.__version__)})
    return Built(folder / ENGINE, folder / WRAPPER, seconds, notes)


def _network_flags(trt: Any) -> int:
    """Types as the file has them where half precision is no flag any more: from TensorRT 11 on that is the only way."""
    flags = trt.NetworkDefinitionCreationFlag
    if hasattr(trt.BuilderFlag, "FP16") or not hasattr(flags, "STRONGLY_TYPED"):
        return 0
    return int(1 << int(flags.STRONGLY_TYPED))


def _source(order: Order, trt: Any) -> tuple[bytes, tuple[str, ...]]:
    """The file, in half precision where TensorRT takes that from the file."""
    try:
        data = Path(order.file).read_bytes()
    except OSError as error:
        raise ModelError(f"{order.called}: cannot be read ({error.strerror}); give another file") from error
    if not order.fp16 or hasattr(trt.BuilderFlag, "FP16"):
        return data, ()
    model = load_onnx(data)
    if model is None or not has_float32_weights(model):
        return data, ()  # it is in half precision already
    half = converted(data)
    if half is None:
        return data, ("full precision, since the file cannot be converted to half precision",)
    return half, ()


def _add_profile(builder: Any, config: Any, order: Order) -> None:
    """Shapes of inputs with free dimensions, which TensorRT must know."""
    model = load_onnx(Path(order.file))
    if model is None:
        raise ModelError(f"{order.called}: its weights lie in other files; put them into one")
    given = {tensor.name for tensor in model.graph.initializer}
    shapes = {value.name: dims_of(value) for value in model.graph.input if value.name not in given}
    free = {name: dims for name, dims in shapes.items() if not all(isinstance(size, int) for size in dims)}
    if not free:
        return
    profile = builder.create_optimization_profile()
    for name, dims in free.items():
        if name in order.profile:
            profile.set_shape(name, *(tuple(shape) for shape in order.profile[name]))
        elif per_item(dims) and all(isinstance(size, int) for size in dims[1:]):
            profile.set_shape(name, *((batch, *dims[1:]) for batch in BATCHES))
        else:
            found = "×".join("?" if size is None else str(size) for size in dims)
            raise ModelError(f"{order.called}: input {name} of {found} is free in more than its batch; give its shapes")
    config.add_optimization_profile(profile)


def _use_timings(config: Any, path: Path) -> None:
    """Times of kernels that were measured before are not measured again."""
    try:
        known = path.read_bytes()
    except OSError:
        known = b""
    if not config.set_timing_cache(config.create_timing_cache(known), False):  # of another GPU or version
        config.set_timing_cache(config.create_timing_cache(b""), False)


def _monitor(trt: Any, progress: Progress) -> Any:
    """TensorRT's own account of its phases, which may be told from several threads."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        """Tells the outermost phase; ends the work when the listener raises."""

        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.stopped: BaseException | None = None
            self._outer: tuple[str, int] | None = None
            self._lock = threading.Lock()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            with self._lock:
                if parent_phase is None:
                    self._outer = (phase_name, max(num_steps, 1))
                    self._tell(0.0, phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            with self._lock:
                if self._outer is not None and phase_name == self._outer[0]:
                    self._tell(min((step + 1) / self._outer[1], 1.0), phase_name)
                return self.stopped is None

        def phase_finish(self, phase_name: str) -> None:
            """Nothing to tell."""

        def _tell(self, done: float, phase: str) -> None:
            try:
                progress(done, phase)
            except BaseException as error:  # raised again when TensorRT has come to an end
                self.stopped = self.stopped or error

    return Monitor()


def wrapper_of(model: bytes, engine: str) -> bytes:
    """An ONNX file with the model's inputs and outputs whose one node is an engine beside it."""
    import onnx
    from onnx import helper

    made = onnx.load_model_from_string(model)
    given = {tensor.name for tensor in made.graph.initializer}
    inputs = [value for value in made.graph.input if value.name not in given]
    outputs = list(made.graph.output)
    node = helper.make_node(
        "EPContext",
        [value.name for value in inputs],
        [value.name for value in outputs],
        domain="com.microsoft",
        embed_mode=0,
        ep_cache_context=engine,
        main_context=1,
    )
    graph = helper.make_graph([node], "engine", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:299]}…"


def child(arguments: Sequence[str]) -> int:
    """Build in a process of its own: told the order (JSON), the folder, the seconds it may take, and its parent.

    It writes its progress into the folder, and ends with its parent.
    """
    text, target, limit, parent = arguments
    folder, values = Path(target), json.loads(text)
    threading.Thread(target=_end_with, args=(int(parent), float(limit)), daemon=True).start()

    def tell(done: float, phase: str) -> None:
        write_json(folder / PROGRESS, {"done": done, "phase": phase}, lasting=False)

    try:
        build(Order(**values), folder / OUT, folder.parent / TIMING, tell)
    except MienError as error:
        write_json(folder / PROGRESS, {"failed": str(error)})
        return 1
    return 0


def _end_with(parent: int, limit: float) -> None:
    started = time.monotonic()
    while os.getppid() == parent and time.monotonic() - started < limit:
        time.sleep(0.5)
    os._exit(3)


if __name__ == "__main__":
    raise SystemExit(child(sys.argv[1:]))
