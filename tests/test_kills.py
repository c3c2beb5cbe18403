"""The kill harness: moments are drawn as documented, and two kills of a tiny clip end in the undisturbed bytes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks.kills import Bench, Plan, build, plan_kill, run_kills


def test_moments_follow_from_the_numbers_and_cover_the_run() -> None:
    plans = [plan_kill(1, number, 30.0, 12) for number in range(600)]
    assert plans == [plan_kill(1, number, 30.0, 12) for number in range(600)]
    first = [plan[0] for plan in plans]
    timed = sorted(plan.seconds for plan in first if plan.seconds is not None)
    assert 0.6 < len(timed) / 600 < 0.73
    assert timed[0] < 1 and timed[-1] > 29
    assert timed[len(timed) // 2] == pytest.approx(15, abs=2)
    assert {plan.change for plan in first if plan.seconds is None} == set(range(1, 13))
    assert 0.27 < sum(plan.signal == signal.SIGINT for plan in first) / 600 < 0.4
    assert 0.27 < sum(len(plan) == 2 for plan in plans) / 600 < 0.4


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, examples: Path, portraits: Path) -> Bench:
    folder = tmp_path_factory.mktemp("kills")
    build(examples / "clip.mp4", folder / "target.mp4", 0.4, 128)
    return Bench(folder, folder / "target.mp4", ["-s", str(portraits / "female_031.jpg"), "--segment-frames", "2"])


def test_killed_and_resumed_runs_give_the_same_bytes(bench: Bench) -> None:
    (bench.folder / "state.json").write_text(json.dumps({"settings": "of another run", "kills": ["one"]}))
    assert run_kills(bench, 0) == []
    kept = json.loads((bench.folder / "state.json").read_text())
    assert kept["settings"]["output"] == "out.mp4"
    assert kept["kills"] == []
    told = kept["reference"]
    assert told["changes"] >= 10  # folder, journal, analysis, five segments
    for number, kind in enumerate((signal.SIGKILL, signal.SIGINT)):
        kill = bench.kill(number, [Plan(kind, None, told["changes"] * 2 // 3)], told["sha256"])
        assert kill.failure == ""
        assert "journal" in kill.left[0]
    assert not bench.work.exists()
