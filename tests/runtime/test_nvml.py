"""NVIDIA's management library, by a pretended one."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from mien.runtime.nvml import Nvml, gpu_name


class Library:
    """What of the driver's library is used."""

    def __init__(self, gpus: int = 4, status: int = 0) -> None:
        self.gpus, self.status, self.asked = gpus, status, list[int]()

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:
        self.asked.append(index.value)
        return 0 if index.value < self.gpus else 2

    def nvmlDeviceGetName(self, handle: Any, text: Any, length: Any) -> int:
        text.value = b"NVIDIA H200"
        return self.status

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.used = 150 << 30, 3 << 30
        return self.status

    def nvmlDeviceGetUtilizationRates(self, handle: Any, load: Any) -> int:
        load._obj.gpu = 73
        return self.status


def test_what_a_gpu_says_of_itself() -> None:
    found = Nvml(1, Library())
    assert (found.name, found.used, found.total, found.load) == ("NVIDIA H200", 3 << 30, 150 << 30, 73)


@pytest.mark.parametrize("library", [Library(gpus=0), Library(status=3)], ids=["no such GPU", "not told"])
def test_what_is_not_known_is_none(library: Library) -> None:
    found = Nvml(0, library)
    assert (found.name, found.used, found.total, found.load) == (None, None, None, None)


@pytest.mark.parametrize(("visible", "number"), [("", 1), ("3,2", 2), ("5", 1), ("GPU-a,GPU-b", 1)])
def test_numbers_are_those_of_cuda(visible: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    library = Library()
    Nvml(1, library)
    assert library.asked == [number]


def test_without_a_driver_the_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mien.runtime.nvml._loaded", lambda: None)
    assert gpu_name(0) == "unknown"
    assert Nvml().used is None
