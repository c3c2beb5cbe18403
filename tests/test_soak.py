"""The soak run's state, its report, and its jobs on a single cycle."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak import State, report, series
from benchmarks.soak_jobs import measure


def values(**changes: Any) -> dict[str, Any]:
    samples = [{"at": 600.0 * i, "rss": 400.0 + (i or 50), "handles": 9, "threads": 1} for i in range(7)]
    runs = [{"samples": samples}, {"samples": samples[:2]}]
    made = {"seconds": 7200.0, "jobs": 30, "cycles": 2, "failures": [], "hashes": {}, "runs": runs}
    return made | changes


def test_report_tells_growth_after_warm_up_and_the_time_between_failures() -> None:
    lines = report(values()).splitlines()
    assert lines[0] == "2.00 h, 30 jobs in 2 cycles and 2 processes"
    assert lines[1] == "0 failures: the mean time between failures is at least 0.67 h (95 %)"
    assert lines[2] == "memory: +6.000 MB an hour (95 %: +6.000 to +6.000)"
    assert lines[3] == "open files: +0.000 an hour (95 %: +0.000 to +0.000)"


def test_report_names_failures() -> None:
    failure = {"hours": 1.0, "cycle": 1, "job": "resume", "text": "other bytes than in the first cycle"}
    text = report(values(failures=[failure]))
    assert "1 failures: the mean time between failures is at least 0.42 h" in text
    assert text.endswith("failed: resume in cycle 1: other bytes than in the first cycle")


def test_samples_before_the_warm_up_do_not_count() -> None:
    first, second = series(values()["runs"], "rss")
    assert first == [(pytest.approx(i / 6), 400.0 + i) for i in range(1, 7)]  # type: ignore[comparison-overlap]
    assert second == first[:1]


def test_state_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    state = State(path)
    state.values["seconds"] = 12.5
    state.fail("swap", "ValueError: why")
    again = State(path).values
    assert again["seconds"] == 12.5
    assert again["failures"] == [{"hours": 0.0035, "cycle": 0, "job": "swap", "text": "ValueError: why"}]
    assert os.listdir(tmp_path) == ["soak.json"]


def test_measure_counts_this_process() -> None:
    before = measure()
    with open(os.devnull) as _:
        after = measure()
    assert after["handles"] == before["handles"] + 1
    assert 50 < after["rss"] < 20_000


def test_one_cycle_of_all_jobs(python: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    command = [python[0], "-m", "benchmarks.soak", "--child", "--hours", "0.00001", "--state", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(path.read_text())
    assert told["cycles"] == 1
    assert told["jobs"] == 30
    # The random damaged files have a test of their own.
    assert [f for f in told["failures"] if f["job"] != "damaged file"] == []
    assert len(told["runs"][0]["samples"]) == 1
