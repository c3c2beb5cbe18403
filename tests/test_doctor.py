from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mien.doctor import examine
from mien.doctor.checks import check_disk, check_file, check_python, check_runtime_package
from mien.media.versions import encoders
from mien.zoo.registry import registry


@pytest.mark.parametrize(
    ("installed", "status", "fix"),
    [
        ({"onnxruntime": "1.2"}, "ok", ""),
        ({"onnxruntime-gpu": "1.2", "numpy": "2.0"}, "ok", ""),
        ({"numpy": "2.0"}, "problem", "pip install onnxruntime"),
        (
            {"onnxruntime": "1.2", "onnxruntime-gpu": "1.3"},
            "problem",
            "pip uninstall onnxruntime onnxruntime-gpu, then pip install just one of them",
        ),
    ],
)
def test_exactly_one_runtime(installed: dict[str, str], status: str, fix: str) -> None:
    check = check_runtime_package(installed)
    assert (check.status, check.fix) == (status, fix)


def test_python_below_the_minimum_is_a_problem() -> None:
    assert check_python((3, 10, 9)).status == "problem"
    assert check_python((3, 11, 0)).status == "ok"


def test_little_disk_is_a_warning() -> None:
    assert check_disk(10_000_000).status == "warning"
    assert check_disk(5 << 30).value == "5.0 GiB"


def test_damaged_and_missing_weights_are_problems(tmp_path: Path) -> None:
    path = tmp_path / "w.onnx"
    assert check_file("weights w", path, "0").value == f"{path} is missing"
    path.write_bytes(b"weights")
    good = hashlib.sha256(b"weights").hexdigest()
    assert check_file("weights w", path, good).status == "ok"
    damaged = check_file("weights w", path, "0" * 64)
    assert (damaged.status, good in damaged.value) == ("problem", True)


def test_examine_looks_at_every_weights_file_and_the_cpu() -> None:
    checks = {check.name: check for check in examine()}
    assert checks["device cpu"].status == "ok"
    for family in registry().values():
        if family.card.bundled is not None:
            assert checks[f"weights {family.card.name}"].status == "ok"
    assert checks["encoders"].value.split(", ") == list(encoders())
