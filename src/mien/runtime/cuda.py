"""NVIDIA's driver and libraries: what is there, and what this ONNX Runtime needs.

What reads the machine can be replaced by the caller; it was not run on a machine with a GPU yet.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnxruntime as ort

from mien.runtime.libraries import preload

Load: TypeAlias = Callable[[str], Any]
"""Loads a shared library by name, or raises OSError; `ctypes.CDLL`."""

_QUERY = "index,name,driver_version,memory.total,memory.free"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU."""

    index: int
    name: str
    driver: str
    total: int
    """Bytes."""
    free: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that ONNX Runtime's provider loads."""

    name: str
    file: str
    package: str
    """What to install for it."""
    needed: str
    """Major version."""
    found: str
    """Version; empty where it does not load, `?` where it does not tell."""


def read_smi(text: str) -> tuple[Gpu, ...]:
    """GPUs from `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; lines that are none are left out."""
    gpus = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 5 and parts[0].isdigit():
            total, free = ((int(part) << 20) if part.isdigit() else 0 for part in parts[3:])
            gpus.append(Gpu(int(parts[0]), parts[1], parts[2], total, free))
    return tuple(gpus)


def find_gpus(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> tuple[Gpu, ...]:
    """The GPUs that the driver tells of; none without a driver."""
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return read_smi(done.stdout) if done.returncode == 0 else ()


def driver_cuda(load: Load = ctypes.CDLL) -> tuple[int, int]:
    """The newest CUDA that the driver runs, such as (12, 8); (0, 0) without a driver."""
    number = ctypes.c_int(0)
    try:
        load("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return 0, 0
    return number.value // 1000, number.value % 1000 // 10


def built_for() -> str:
    """The CUDA that this ONNX Runtime was built with, such as `12.8`; empty where it was built without."""
    return (
        str(getattr(ort, "cuda_version", "") or "") if "CUDAExecutionProvider" in ort.get_available_providers() else ""
    )


def find_libraries(cuda: str, load: Load = ctypes.CDLL) -> tuple[Library, ...]:
    """What an ONNX Runtime for this CUDA loads, and what of it is there. Loads them into this process.

    cuDNN 9 and TensorRT 10 are those of all ONNX Runtimes for CUDA 12 and later.
    """
    if load is ctypes.CDLL:
        preload()
    major = cuda.partition(".")[0] or "12"
    gpu = "onnxruntime-gpu[cuda,cudnn]"
    wanted: Sequence[tuple[str, str, str, str]] = (
        ("CUDA runtime", "cudart", major, gpu),
        ("cuBLAS", "cublas", major, gpu),
        ("cuDNN", "cudnn", "9", gpu),
        ("TensorRT", "nvinfer", "10", f"tensorrt-cu{major}"),
    )
    libraries = []
    for name, stem, needed, package in wanted:
        file = file_name(stem, needed)
        libraries.append(Library(name, file, package, needed, _version(stem, file, load)))
    return tuple(libraries)


def file_name(stem: str, major: str, platform: str = sys.platform) -> str:
    """What the system calls a library of NVIDIA's."""
    if platform != "win32":
        return f"lib{stem}.so.{major}"
    return f"nvinfer_{major}.dll" if stem == "nvinfer" else f"{stem}64_{major}.dll"


def _version(stem: str, file: str, load: Load) -> str:
    try:
        library = load(file)
    except OSError:
        return ""
    try:
        return _READERS[stem](library)
    except (AttributeError, KeyError):
        return "?"


def _cudart(library: Any) -> str:
    number = ctypes.c_int(0)
    library.cudaRuntimeGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def _cudnn(library: Any) -> str:
    library.cudnnGetVersion.restype = ctypes.c_size_t
    number = int(library.cudnnGetVersion())
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _nvinfer(library: Any) -> str:
    number = int(library.getInferLibVersion())
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


_READERS: Mapping[str, Callable[[Any], str]] = {"cudart": _cudart, "cudnn": _cudnn, "nvinfer": _nvinfer}
