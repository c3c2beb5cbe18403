from __future__ import annotations

import json

import pytest

from mien import bench

from .conftest import Mien

FLAGS = ("--max-seconds", "0.12", "--preset", "ultrafast", "--device", "cpu")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_MODEL_SECONDS", 0.01)
    monkeypatch.setattr(bench, "ROUNDS", 1)


def test_a_table_is_printed(mien: Mien) -> None:
    result = mien("bench", *FLAGS)
    assert (result.code, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert ["model", "task", "device", "ms"] in lines
    rows = {line[0]: line[1:] for line in reversed(lines) if line}  # the stage `swap` comes after the whole swap
    assert rows["mesh478"][:2] == ["landmarker", "cpu"]
    assert float(rows["ratio"][0]) == pytest.approx(float(rows["swap"][0]) / float(rows["limit"][0]), abs=0.02)
    assert all(float(rows[stage][0]) >= 0 for stage in ("decode", "analyze", "paste"))
    assert "512×512, frames 3" in result.out


def test_json_contract(mien: Mien) -> None:
    result = mien("bench", "--json", *FLAGS)
    found = json.loads(result.out)
    assert set(found) == {
        "file", "width", "height", "frames", "fps", "limit_fps", "ratio", "stages", "peak_memory_mb", "models",
        "machine",
    }  # fmt: skip
    assert set(found["models"][0]) == {"name", "task", "device", "ms", "low", "high"}


def test_a_missing_file_is_one_line(mien: Mien) -> None:
    result = mien("bench", "missing.mp4")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("mien: missing.mp4: ")
