from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Mien


def test_json_contract(mien: Mien) -> None:
    result = mien("doctor", "--json")
    report = json.loads(result.out)
    assert set(report) == {"ok", "checks"}
    assert all(set(check) == {"name", "status", "value", "fix"} for check in report["checks"])
    assert {check["status"] for check in report["checks"]} <= {"ok", "warning", "problem"}
    broken = [check for check in report["checks"] if check["status"] == "problem"]
    assert (report["ok"], result.code) == (not broken, int(bool(broken)))


def test_a_second_runtime_is_a_problem_with_its_fix(
    mien: Mien, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "onnxruntime_gpu-1.2.3.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = mien("doctor")
    assert result.code == 1
    found = next(line for line in result.out.splitlines() if line.startswith("problem onnxruntime"))
    assert "onnxruntime-gpu 1.2.3 are installed together" in found
    assert "fix: pip uninstall onnxruntime onnxruntime-gpu, then pip install just one of them" in result.out
