"""What is done to a model before a GPU opens it: a free batch, half precision, and the look for its TensorRT engine."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError, MienError, ModelError
from mien.runtime import batching
from mien.runtime.axes import dims_of, per_item
from mien.runtime.batching import Run, RunOpener, best_batch, free_batch, is_free, load_onnx, probe_file, random_item
from mien.runtime.capture import REFUSALS
from mien.runtime.convert import half
from mien.runtime.devices import PROVIDERS, DeviceSpec, Kind, Prepared, Settings
from mien.runtime.engines import BATCHES, Order, built_by_hand, folder_of, refused, tested
from mien.runtime.graph import open_graph
from mien.runtime.kept import read_json, sha256_of, write_json
from mien.runtime.meanwhile import engine_order
from mien.runtime.memory import is_out_of_memory
from mien.runtime.nvml import UNKNOWN, gpu_name

Precision: TypeAlias = Literal["auto", "fp32", "fp16"]

BATCH_KINDS: tuple[Kind, ...] = ("cuda", "tensorrt", "openvino", "directml", "rocm", "migraphx")
HALF_KINDS: tuple[Kind, ...] = ("cuda", "tensorrt", "directml", "rocm", "migraphx")
"""Kinds that compute in the file's own precision; OpenVINO and CoreML choose for themselves."""
WORTH = 16_000_000
"""Bytes from which `auto` converts: below, half precision saves no time that matters, and detectors lose places."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """A `where.Prepare`: from a model and one device to what is opened there. Results are kept, so that it is quick.

    None of it raises for a model that cannot be made faster: it is then opened as it is, and a note says so.
    """

    cache: Path
    """Folder where what is made is kept."""
    precision: Precision = "auto"
    """`fp16`: half precision for every model that passes the test; `auto`: for large ones; `fp32`: never."""
    settings: Settings = field(default_factory=Settings)
    """How the device is used, for the test and to know its engine."""
    opener: RunOpener | None = None
    """Runs a graph on the device for the test of half precision; by default through `graph.open_graph`."""

    def __call__(self, model: Path | bytes, spec: DeviceSpec) -> Prepared:
        """What to open on that device.

        Raises:
            ModelError: the file cannot be read.
            OutputError: the cache cannot be written to.
            DeviceError, MemoryError: the device is not there, or has no memory left.
        """
        if spec.kind not in BATCH_KINDS or (self.opener is None and not _is_there(spec, self.settings)):
            return Prepared(model)
        sha256 = sha256_of(model)
        by_hand = self._built_by_hand(sha256, spec)
        if by_hand is not None:
            return Prepared(by_hand, ("done with the TensorRT engine that was built by hand",), BATCHES[-1])
        made = list[Path]()
        try:
            return self._made(model, spec, sha256, made)
        except ModelError as error:
            load_onnx(model)  # it may be the model itself
            for path in made:
                path.unlink(missing_ok=True)
            return Prepared(model, (f"done with the file as it is, since what was made of it is damaged ({error})",))

    def _made(self, model: Path | bytes, spec: DeviceSpec, sha256: str, kept: list[Path]) -> Prepared:
        """What is made of the model; files are told in `kept` as soon as they are there."""
        notes = list[str]()
        made: Path | bytes = model
        full: Path | bytes | None = None
        freed = free_batch(model, self.cache, sha256=sha256)
        if freed is not None:
            made, sha256 = freed, f"{sha256} freed {batching.RULES}"
            kept += [freed] if isinstance(freed, Path) else []
        if spec.kind in HALF_KINDS and self._wanted(made):
            opener = self.opener or opener_on(spec, self.settings)
            twin = half(made, opener, device=device_key(spec), cache=self.cache, sha256=sha256)
            if twin is not None:
                full, made = (None, made) if twin.model is None else (made, twin.model)
                notes.append(twin.note)
                kept += [twin.model] if isinstance(twin.model, Path) else []
        batch = self._batch(made, spec, sha256 if made is model else f"{sha256} {_identity(made)}")
        if spec.kind == "tensorrt":
            notes += self._of_engine(made, spec, half=full is not None)
        return Prepared(made, tuple(notes), batch, full, tuple(kept))

    def _wanted(self, model: Path | bytes) -> bool:
        size = len(model) if isinstance(model, bytes) else model.stat().st_size
        return self.precision == "fp16" or (self.precision == "auto" and size >= WORTH)

    def _of_engine(self, model: Path | bytes, spec: DeviceSpec, *, half: bool) -> list[str]:
        """A note where the engine is not there yet: `meanwhile.open_tensorrt` looks for it itself."""
        order = engine_order(model, spec, self.settings, half=half)
        if order is None or self.settings.cache is None:
            return ["ONNX Runtime builds the TensorRT engine itself, which takes minutes"]
        if tested(order, self.settings.cache) is not None or refused(folder_of(order, self.settings.cache)):
            return []  # what is refused is told when it is opened
        return ["done with CUDA until its TensorRT engine is built"]

    def _batch(self, model: Path | bytes, spec: DeviceSpec, name: str) -> int:
        """The size of batches that is fastest on the device; 0 where there is no choice."""
        key = (name, self.precision, self.settings.gpu_memory, *device_key(spec))
        file = probe_file(self.cache, key)
        kept = read_json(file)
        if kept is not None and isinstance(kept.get("size"), int):
            return int(kept["size"])
        made = load_onnx(model)
        given = set() if made is None else {tensor.name for tensor in made.graph.initializer}
        inputs = [] if made is None else [value for value in made.graph.input if value.name not in given]
        item = random_item(inputs, 0) if made is not None and is_free(made) else None
        del made  # the device's copy comes on top
        if item is None:
            write_json(file, {"size": 0})
            return 0
        items = {value.name for value in inputs if per_item(dims_of(value))}
        try:
            run = (self.opener or opener_on(spec, self.settings))(model)
            return best_batch(lambda count: run(_repeated(item, items, count)), cache=self.cache, key=key)
        except MienError:
            raise
        except REFUSALS as error:
            if is_out_of_memory(error):
                raise MemoryError from error
            return 0  # opening the model itself tells why

    def _built_by_hand(self, sha256: str, spec: DeviceSpec) -> Path | None:
        """The engine that `mien models build-engine` left for this file."""
        if spec.kind != "tensorrt" or self.settings.cache is None:
            return None
        flags = (False,) if self.precision == "fp32" else (True, False)
        try:
            orders = [Order("", sha256, fp16, device=spec.index) for fp16 in flags]
            found = [built_by_hand(order, self.settings.cache) for order in orders]
        except DeviceError:  # no `tensorrt` package
            return None
        return next((path for path in found if path is not None), None)


def _repeated(item: Mapping[str, npt.NDArray[Any]], items: set[str], count: int) -> dict[str, npt.NDArray[Any]]:
    return {name: array.repeat(count, 0) if name in items else array for name, array in item.items()}


def _identity(made: Path | bytes) -> str:
    """Of what was made of a model: files of it are named by content."""
    return made.name if isinstance(made, Path) else sha256_of(made)


def device_key(spec: DeviceSpec) -> tuple[object, ...]:
    """What measurements there depend on: where the product's name is not known, this machine and the number."""
    name = gpu_name(spec.index) if spec.kind in ("cuda", "tensorrt") else UNKNOWN
    place = (platform.node(), spec.index) if name == UNKNOWN else ()
    return spec.kind, name, *place, ort.__version__


def _is_there(spec: DeviceSpec, settings: Settings) -> bool:
    """Whether the device really loads: where it does not, minutes of work would go into what nobody opens."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    tiny = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    try:
        graph = open_graph(tiny, str(_without_engine(spec)), 1, settings)
    except (DeviceError, *REFUSALS):
        return False  # opening the model itself tells why
    return graph.get_providers()[0] == PROVIDERS[_without_engine(spec).kind]


def _without_engine(spec: DeviceSpec) -> DeviceSpec:
    """CUDA in TensorRT's place, which would build an engine for each test."""
    return DeviceSpec("cuda", spec.ids) if spec.kind == "tensorrt" else spec


def opener_on(spec: DeviceSpec, settings: Settings) -> RunOpener:
    """Runs graphs on the device, or on CUDA in TensorRT's place."""

    def opened(model: Path | bytes) -> Run:
        graph = open_graph(model, str(_without_engine(spec)), 0, settings)
        options = ort.RunOptions()
        options.log_severity_level = 4

        def run(feeds: Mapping[str, npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
            return graph.run(None, feeds, options)

        return run

    return opened
