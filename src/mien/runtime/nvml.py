"""NVIDIA's management library: name, memory and load of a GPU, through the driver's own file and no package."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Load(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Nvml:
    """What one GPU says of itself. Numbers follow `CUDA_VISIBLE_DEVICES` where that lists numbers.

    It was not run on a GPU yet; without a driver everything is None.

    Args:
        index: the number that CUDA gives the GPU.
        library: the driver's library, by default as the system finds it.
    """

    def __init__(self, index: int = 0, library: Any = None) -> None:
        self._library = _loaded() if library is None else library
        self._handle = ctypes.c_void_p()
        if self._library is not None:
            number = ctypes.c_uint(_physical(index))
            if self._library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(self._handle)):
                self._library = None

    @property
    def name(self) -> str | None:
        """Product name, such as NVIDIA H200."""
        text = ctypes.create_string_buffer(96)
        length = ctypes.c_uint(len(text))
        return text.value.decode() if self._ask("nvmlDeviceGetName", text, length) else None

    @property
    def used(self) -> int | None:
        """Bytes of its memory that any program uses."""
        memory = _Memory()
        return int(memory.used) if self._ask("nvmlDeviceGetMemoryInfo", ctypes.byref(memory)) else None

    @property
    def total(self) -> int | None:
        """Bytes of its memory."""
        memory = _Memory()
        return int(memory.total) if self._ask("nvmlDeviceGetMemoryInfo", ctypes.byref(memory)) else None

    @property
    def load(self) -> int | None:
        """Percent of the last moments in which it was at work."""
        load = _Load()
        return int(load.gpu) if self._ask("nvmlDeviceGetUtilizationRates", ctypes.byref(load)) else None

    def _ask(self, function: str, *arguments: Any) -> bool:
        if self._library is None:
            return False
        call: Callable[..., int] = getattr(self._library, function)
        return call(self._handle, *arguments) == 0


UNKNOWN = "unknown"


def gpu_name(index: int = 0) -> str:
    """Product name of a GPU, or `UNKNOWN`: what is measured or built for it is kept under that name."""
    return Nvml(index).name or UNKNOWN


@cache
def _loaded() -> Any:
    """The library, ready to be asked; None where there is no driver."""
    for name in ("libnvidia-ml.so.1", "nvml.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if library.nvmlInit_v2() == 0:
            return library
    return None


def _physical(index: int) -> int:
    """The driver's number of what CUDA calls so."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if index < len(visible) and visible[index].strip().isdigit():
        return int(visible[index])
    return index
