"""Devices by name: how they are written, the ONNX Runtime provider of each, and the options it is opened with.

The options of all but the CPU are those of ONNX Runtime's documents; they were not run on such a device yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mien.errors import OptionsError
from mien.options import DEVICES, is_device

Kind: TypeAlias = Literal["auto", "cpu", "cuda", "tensorrt", "openvino", "coreml", "directml", "rocm", "migraphx"]
KINDS: tuple[Kind, ...] = get_args(Kind)

PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
}
"""ONNX Runtime's name for each kind."""

PACKAGES: Mapping[str, str] = {
    "cpu": "onnxruntime",
    "cuda": "onnxruntime-gpu[cuda,cudnn]",
    "tensorrt": "onnxruntime-gpu[cuda,cudnn] and tensorrt",
    "openvino": "onnxruntime-openvino",
    "coreml": "onnxruntime, on a Mac",
    "directml": "onnxruntime-directml, on Windows",
    "rocm": "onnxruntime-rocm, from AMD",
    "migraphx": "onnxruntime-migraphx, from AMD",
}
"""What to install for each kind."""

AUTO: tuple[Kind, ...] = ("cuda", "tensorrt", "migraphx", "rocm", "directml", "openvino", "cpu")
"""What `auto` tries, best first.

TensorRT comes after CUDA since it builds an engine for minutes. CoreML is not here: it is in every Mac's ONNX
Runtime and opens any graph, even one of which it then runs nothing, so that opening it shows nothing.
"""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One kind of device, and which of them; none named means the first."""

    kind: Kind
    ids: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(map(str, self.ids))}" if self.ids else self.kind

    @property
    def each(self) -> tuple[DeviceSpec, ...]:
        """One for each device."""
        return tuple(DeviceSpec(self.kind, (index,)) for index in self.ids) or (self,)

    @property
    def index(self) -> int:
        """Number of the first device."""
        return self.ids[0] if self.ids else 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph made ready for one device."""

    model: Path | bytes
    notes: tuple[str, ...] = ()
    """What the report must say of it, such as a conversion that was given up."""
    batch: int = 0
    """Items at a time that were measured to be fastest there; 0: not measured."""
    full: Path | bytes | None = None
    """The same in full precision, where `model` is in half precision; else None."""
    kept: tuple[Path, ...] = ()
    """Files that were made for it, which are made anew where they are not there: to be removed if they do not open."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How devices other than the CPU are used."""

    gpu_memory: int = 0
    """Bytes that ONNX Runtime may take on the device for each graph; 0: no limit."""
    conv_search: Literal["DEFAULT", "HEURISTIC", "EXHAUSTIVE"] = "HEURISTIC"
    """How cuDNN finds its convolutions. EXHAUSTIVE times them all at each new shape, and takes memory for it."""
    fp16: bool = True
    """Whether TensorRT may work in half precision."""
    workspace: int = 0
    """Bytes that TensorRT may use while it works; 0: its own limit."""
    cache: Path | None = None
    """Folder of engines and timings of TensorRT, and of what OpenVINO compiled; None keeps none."""


Provider: TypeAlias = tuple[str, dict[str, str]]
"""Name and options, as ONNX Runtime takes them."""


def parse_device(text: str) -> DeviceSpec:
    """What a `--device` names.

    Raises:
        OptionsError: no such device, or one named twice; tells what there is.
    """
    if not is_device(text):
        raise OptionsError(f"no device is called {text!r}; choose {DEVICES}")
    kind, _, ids = text.partition(":")
    return DeviceSpec(next(each for each in KINDS if each == kind), tuple(map(int, ids.split(","))) if ids else ())


def providers(spec: DeviceSpec, settings: Settings, *, capture: bool = False) -> Sequence[Provider]:
    """Providers to ask for, best first: the device's, and what does the rest of the graph if not the CPU.

    Args:
        spec: one device, not `auto`.
        capture: record the work of a graph of fixed shapes once and replay it (CUDA graphs).
    """
    name = PROVIDERS[spec.kind]
    match spec.kind:
        case "cuda":
            return [(name, _cuda(spec, settings, capture))]
        case "tensorrt":
            cuda = (PROVIDERS["cuda"], _cuda(spec, settings, False))
            return [(name, _tensorrt(spec, settings, capture)), cuda]
        case "openvino":
            cache = {"cache_dir": str(settings.cache)} if settings.cache else {}
            return [(name, {"device_type": f"GPU.{spec.ids[0]}" if spec.ids else "AUTO", **cache})]
        case "coreml":
            return [(name, {"ModelFormat": "MLProgram", "MLComputeUnits": "ALL"})]
        case "rocm":
            return [(name, {"device_id": str(spec.index), **_arena(settings)})]
        case "directml" | "migraphx":
            return [(name, {"device_id": str(spec.index)})]
        case _:
            return [(name, {})]


def _arena(settings: Settings) -> dict[str, str]:
    """Grow by what is asked for; the default doubles, and a second program then finds no memory."""
    limit = {"gpu_mem_limit": str(settings.gpu_memory)} if settings.gpu_memory else {}
    return {"arena_extend_strategy": "kSameAsRequested", **limit}


def _cuda(spec: DeviceSpec, settings: Settings, capture: bool) -> dict[str, str]:
    return {
        "device_id": str(spec.index),
        **_arena(settings),
        "cudnn_conv_algo_search": settings.conv_search,
        **({"enable_cuda_graph": "1"} if capture else {}),
    }


def _tensorrt(spec: DeviceSpec, settings: Settings, capture: bool) -> dict[str, str]:
    made = {"device_id": str(spec.index), "trt_fp16_enable": str(int(settings.fp16))}
    if settings.workspace:
        made["trt_max_workspace_size"] = str(settings.workspace)
    if settings.cache:
        for what in ("engine", "timing"):
            made |= {f"trt_{what}_cache_enable": "1", f"trt_{what}_cache_path": str(settings.cache)}
    return made | ({"trt_cuda_graph_enable": "1"} if capture else {})
