"""Reading NVIDIA's driver and libraries, from made-up ones."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from mien.runtime.cuda import Gpu, driver_cuda, file_name, find_gpus, find_libraries, read_smi

SMI = """0, NVIDIA H200, 570.86.15, 143771, 143167
1, NVIDIA A100-SXM4-80GB, 570.86.15, 81920, [N/A]

Failed to initialize NVML
"""


def test_gpus_are_read_from_nvidia_smi() -> None:
    first, second = read_smi(SMI)
    assert first == Gpu(0, "NVIDIA H200", "570.86.15", 143771 << 20, 143167 << 20)
    assert (second.index, second.name, second.free) == (1, "NVIDIA A100-SXM4-80GB", 0)


def test_nvidia_smi_is_asked_and_its_failures_mean_no_gpu() -> None:
    asked: list[Any] = []

    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, SMI, "")

    assert len(find_gpus(run)) == 2
    assert asked[0][0] == "nvidia-smi" and asked[0][2] == "--format=csv,noheader,nounits"
    assert find_gpus(lambda *_, **__: subprocess.CompletedProcess([], 9, SMI, "")) == ()

    def missing(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError

    def hangs(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired("nvidia-smi", 10)

    assert find_gpus(missing) == find_gpus(hangs) == ()


def setter(value: int) -> Any:
    def write(reference: Any) -> int:
        reference._obj.value = value
        return 0

    return write


class Function:
    """A C function that gives a number; its types may be set."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __call__(self) -> int:
        return self.value


def test_the_newest_cuda_that_the_driver_runs() -> None:
    assert driver_cuda(lambda _: SimpleNamespace(cuDriverGetVersion=setter(12080))) == (12, 8)
    assert driver_cuda(lambda _: SimpleNamespace()) == (0, 0)

    def missing(name: str) -> Any:
        raise OSError(name)

    assert driver_cuda(missing) == (0, 0)


def test_libraries_and_their_versions() -> None:
    there = {
        file_name("cudart", "13"): SimpleNamespace(cudaRuntimeGetVersion=setter(13010)),
        file_name("cublas", "13"): SimpleNamespace(),
        file_name("nvinfer", "10"): SimpleNamespace(getInferLibVersion=Function(101301)),
    }

    def load(name: str) -> Any:
        if name not in there:
            raise OSError(name)
        return there[name]

    found = {each.name: each for each in find_libraries("13.1", load)}
    assert {name: each.found for name, each in found.items()} == {
        "CUDA runtime": "13.1", "cuBLAS": "?", "cuDNN": "", "TensorRT": "10.13.1"
    }  # fmt: skip
    assert {name: each.needed for name, each in found.items()} == {
        "CUDA runtime": "13", "cuBLAS": "13", "cuDNN": "9", "TensorRT": "10"
    }  # fmt: skip
    assert found["TensorRT"].package == "tensorrt-cu13"
    there[file_name("cudnn", "9")] = SimpleNamespace(cudnnGetVersion=Function(91002))
    assert {each.name: each.found for each in find_libraries("13.1", load)}["cuDNN"] == "9.10.2"


@pytest.mark.parametrize(
    ("stem", "major", "platform", "name"),
    [
        ("cudart", "12", "linux", "libcudart.so.12"),
        ("cudnn", "9", "win32", "cudnn64_9.dll"),
        ("nvinfer", "10", "win32", "nvinfer_10.dll"),
    ],
)
def test_what_the_system_calls_them(stem: str, major: str, platform: str, name: str) -> None:
    assert file_name(stem, major, platform) == name
