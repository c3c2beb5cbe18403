"""What a machine with a GPU would be told; the machine is made up."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mien.doctor.checks import Check
from mien.doctor.gpu import DRIVER, Facts, check_codecs, check_gpu, read_facts
from mien.runtime.cuda import Gpu, Library

GPU = Gpu(0, "NVIDIA L4", "550.90", 24 << 30, 20 << 30)
CUDART = Library("CUDA runtime", "libcudart.so.12", "onnxruntime-gpu[cuda,cudnn]", "12", "12.4")
CUDNN = Library("cuDNN", "libcudnn.so.9", "onnxruntime-gpu[cuda,cudnn]", "9", "9.1.0")
NVINFER = Library("TensorRT", "libnvinfer.so.10", "tensorrt-cu12", "10", "10.3.0")


def found(facts: Facts) -> Mapping[str, Check]:
    return {check.name: check for check in check_gpu(facts)}


def test_everything_in_place() -> None:
    checks = found(Facts([GPU], (12, 8), "12.8", [CUDART, CUDNN, NVINFER]))
    assert [check.status for check in checks.values()] == ["ok"] * 5
    assert checks["gpu 0"].value == "NVIDIA L4, driver 550.90, 20.0 GiB of 24.0 GiB free"
    assert checks["cuda"].value == "the driver runs CUDA up to 12.8; this ONNX Runtime was built for 12.8"
    assert checks["library cuDNN"].value == "9.1.0"
    assert not any(check.fix for check in checks.values())


def test_neither_gpu_nor_cuda_is_all_right() -> None:
    (check,) = found(Facts()).values()
    assert (check.name, check.status, check.fix) == ("gpu", "ok", "")


def test_a_gpu_and_an_onnx_runtime_without_cuda() -> None:
    check = found(Facts([GPU], (12, 8)))["cuda"]
    assert (check.status, check.fix) == (
        "warning",
        "pip uninstall onnxruntime, then pip install onnxruntime-gpu[cuda,cudnn]",
    )


def test_an_onnx_runtime_with_cuda_and_no_gpu() -> None:
    check = found(Facts((), (0, 0), "12.8"))["cuda"]
    assert check.status == "warning"
    assert check.fix == f"{DRIVER}; without a GPU, choose --device cpu"


@pytest.mark.parametrize(
    ("driver", "cuda", "status"),
    [((12, 2), "12.8", "ok"), ((13, 0), "12.8", "ok"), ((12, 8), "13.0", "warning"), ((0, 0), "12.8", "warning")],
)
def test_a_driver_runs_its_own_major_version_and_all_older_ones(
    driver: tuple[int, int], cuda: str, status: str
) -> None:
    check = found(Facts([GPU], driver, cuda))["cuda"]
    assert (check.status, check.fix) == (status, DRIVER if status == "warning" else "")


def test_libraries_that_are_missing_or_of_another_version() -> None:
    missing = Library(CUDNN.name, CUDNN.file, CUDNN.package, "9", "")
    old = Library(CUDART.name, CUDART.file, CUDART.package, "13", "12.4")
    silent = Library("cuBLAS", "libcublas.so.12", CUDART.package, "12", "?")
    no_tensorrt = Library(NVINFER.name, NVINFER.file, NVINFER.package, "10", "")
    checks = found(Facts([GPU], (13, 0), "13.0", [missing, old, silent, no_tensorrt]))
    assert checks["library cuDNN"] == Check(
        "library cuDNN", "warning", "libcudnn.so.9 does not load", "pip install onnxruntime-gpu[cuda,cudnn]"
    )
    assert checks["library CUDA runtime"].value == "12.4 is loaded; this ONNX Runtime needs 13"
    assert checks["library CUDA runtime"].status == "warning"
    assert (checks["library cuBLAS"].status, checks["library cuBLAS"].value) == ("ok", "libcublas.so.12 loads")
    assert checks["library TensorRT"].status == "ok"
    assert checks["library TensorRT"].fix == "pip install tensorrt-cu12, or do without --device tensorrt"


def test_a_gpu_whose_memory_is_taken() -> None:
    check = found(Facts([Gpu(1, "A", "1", 8 << 30, 100 << 20)], (12, 8), "12.8"))["gpu 1"]
    assert (check.status, check.fix) == ("warning", "close what else uses it; nvidia-smi lists it")


def test_codecs() -> None:
    reasons = {"h264_nvenc": "", "av1_nvenc": "Function not implemented", "h264_qsv": "no"}
    assert check_codecs(reasons, nvidia=False).status == "ok"
    assert check_codecs({}, nvidia=True).value == "none open"
    assert check_codecs({"h264_nvenc": ""}, nvidia=True) == Check("hardware codecs", "ok", "h264_nvenc opens")
    check = check_codecs(reasons, nvidia=True)
    assert (check.status, check.value) == (
        "warning",
        "open: h264_nvenc; do not: av1_nvenc (Function not implemented)",
    )
    assert DRIVER in check.fix


def test_facts_of_this_machine_are_read_without_an_error() -> None:
    facts = read_facts()
    assert bool(facts.libraries) == bool(facts.cuda)
