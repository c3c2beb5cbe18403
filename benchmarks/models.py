"""Each network alone, against what this machine's matrix product reaches: `python -m benchmarks models`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from benchmarks.nets import OPSET, multiply_adds, save
from benchmarks.pairs import Spread, Table
from benchmarks.standins import STAND_INS
from mien.bench import SIDE, call_times
from mien.runtime.session import Session
from mien.zoo.registry import registry

GEMM = 2048
"""Side of the square matrices whose product is taken for the machine's peak."""
FULL_SIZE = ("inswapper_128",)
"""Stand-ins of public files that are measured too."""


def gemm_peak(seconds: float, side: int = GEMM) -> float:
    """FLOP a second of the float32 matrix product with all cores: the best of NumPy's and ONNX Runtime's.

    NumPy's alone is half of what the processor can do where its OpenBLAS has no kernels for it.
    """
    random = np.random.default_rng(0)
    one, other = (random.random((side, side), np.float32) for _ in range(2))
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds / 2:
        started = perf_counter()
        np.matmul(one, other)
        times.append(perf_counter() - started)
    times += call_times(Session(_product(side).SerializeToString(), "cpu"), seconds / 2)
    return 2 * side**3 / min(times)


def _product(side: int) -> onnx.ModelProto:
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [side, side]) for name in "abc"]
    made = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["a", "b"], ["c"])], "m", values[:2], values[2:])
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=6)


def flop(path: Path) -> int:
    """Of one item: twice the multiplications of its convolutions and matrix products."""
    model = onnx.load(path)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].dim_value:
            dims[0].dim_value = 1
    return 2 * multiply_adds(model, SIDE)


def files(folder: Path, only: str) -> Iterator[tuple[str, Path]]:
    """Name and file of each network that ships, and of each stand-in."""
    for family in registry().values():
        weights = family.card.bundled
        if weights is not None and only in family.card.name and weights.path.suffix == ".onnx":
            yield family.card.name, weights.path
    for name in FULL_SIZE:
        if only in name:
            path = folder / f"{name}.onnx"
            if not path.exists():
                save(STAND_INS[name].make(1.0), path)
            yield f"{name} (stand-in)", path


def measure(name: str, path: Path, seconds: float) -> dict[str, Any]:
    """One row; the peak is measured before and after, and the better one counts."""
    work = flop(path)
    before = gemm_peak(seconds / 2)
    times = Spread.of([1000 * each for each in _middle(call_times(Session(path, "cpu"), seconds))])
    peak = max(before, gemm_peak(seconds / 2))
    return {
        "model": name,
        "GFLOP": round(work / 1e9, 3),
        "ms": times,
        "GFLOP/s": work / times.median / 1e6,
        "machine's product, GFLOP/s": peak / 1e9,
        "share": work / times.median * 1000 / peak,
    }


def _middle(times: list[float]) -> list[float]:
    """Without the fastest and the slowest quarter, so that the range told is that of quartiles."""
    cut = len(times) // 4
    return sorted(times)[cut : len(times) - cut]


def tables(folder: Path, seconds: float, only: str) -> dict[str, Table]:
    """All networks whose names hold `only`."""
    ort.set_default_logger_severity(4)
    return {"models": [measure(name, path, seconds) for name, path in files(folder, only)]}
