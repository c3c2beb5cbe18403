"""Shared libraries that ONNX Runtime's providers need, and where Python packages keep them."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import onnxruntime as ort


@cache
def preload() -> None:
    """Load CUDA, cuDNN and TensorRT from their Python packages, where the system's loader does not look.

    What is missing is not told here: the provider then does not load, which is told, and `mien doctor` names it.
    """
    load = getattr(ort, "preload_dlls", None)  # from ONNX Runtime 1.21 on
    if load is not None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not find
            load()
    for path in tensorrt_libraries():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(path))


def tensorrt_libraries() -> Iterator[Path]:
    """TensorRT's libraries in its Python package, those that others need first."""
    with contextlib.suppress(ImportError, ValueError):
        found = importlib.util.find_spec("tensorrt_libs")
        folders = found.submodule_search_locations if found is not None else None
        for folder in folders or ():
            for name in ("libnvinfer.so.*", "libnvinfer_plugin.so.*", "libnvonnxparser.so.*", "nvinfer_1*.dll"):
                yield from sorted(Path(folder).glob(name))
