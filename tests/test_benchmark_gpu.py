"""The GPU benchmark: its verdicts and report, its end without a GPU, and all its ways on a CPU."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_parts
from benchmarks.gpu_parts import Results, Watch, rate, rate_of_many, report, verdicts
from benchmarks.standins import STAND_INS

GOOD = Results(
    "a GPU",
    rates={"fp32": {1: 10, 4: 9, 16: 12}, "fp16": {1: 20, 4: 30, 8: 40, 16: 41}},
    others={"xseg_1": {1: 5}},
    streams={1: 30, 2: 50},
    memory=[int(2.9e9), int(1e9), int(1e9)],
    together=int(5e9),
    fps={"720p": 60, "1080p": 30},
    latency={"720p": 21, "1080p": 80},
    loads={"720p": 55},
    peaks={"720p": int(3e9)},
    growth=-1.5,
    growth_seconds=60,
)


def words(results: Results) -> list[str]:
    return [each.word for each in verdicts(results)]


def test_all_goals_reached() -> None:
    assert words(GOOD) == ["pass"] * 7


def test_nothing_measured_is_no_pass() -> None:
    assert words(Results("a GPU")) == ["not measured"] * 7


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (0, {"latency": {"720p": 20, "1080p": 80.1}}),
        (1, {"fps": {"720p": 29.9, "1080p": 31}}),
        (2, {"fps": {"720p": 31, "1080p": 29.9}}),
        (3, {"rates": {"fp32": {1: 10, 4: 12}, "fp16": {1: 20, 4: 30, 8: 19}}}),
        (4, {"memory": [int(3.1e9), 1, 1]}),
        (5, {"together": int(24.1e9)}),
        (6, {"growth": 5.0}),
    ],
)
def test_each_goal_can_be_missed(place: int, change: dict[str, Any]) -> None:
    missed = replace(GOOD, **change)
    assert [index for index, word in enumerate(words(missed)) if word == "FAIL"] == [place]


def test_the_report_says_that_growth_is_extrapolated_and_leaves_out_what_is_not_known() -> None:
    text = report(GOOD, verdicts(GOOD), 100)
    assert "| device memory grows < 5 MB/h | -1.5 MB/h, extrapolated from 60 s | pass |" in text
    assert "| faces/s of the swap network by batch | 1 | 4 | 8 | 16 |" in text
    assert "| fp32 | 10.0 | 9.0 | - | 12.0 |" in text
    assert "| 720p | 60.0 | 21.0 ms | 55 % | 3.00 GB |" in text
    assert "| 1080p | 30.0 | 80.0 ms | - | - |" in text


class Meter:
    """Grows by a megabyte a look."""

    load = 40

    def __init__(self) -> None:
        self.now = 0

    @property
    def used(self) -> int:
        self.now += 1_000_000
        return self.now


def test_a_watch_sees_peak_load_and_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parts, "SAMPLE", 0.001)
    meter = Meter()
    with Watch(meter) as watch:
        while meter.now < 10_000_000:
            time.sleep(0.001)
    assert watch.peak == meter.now and watch.load == 40
    watch.times = [float(index) for index in range(len(watch.used))]
    assert watch.growth == pytest.approx(3600)


def test_rates_count_items() -> None:
    calls: list[int] = []
    assert rate(lambda: calls.append(1), 4, 0) > 0
    assert len(calls) == 2 + 3
    both: list[list[int]] = [[], []]
    assert rate_of_many([lambda: both[0].append(1), lambda: both[1].append(1)], 4, 0) > 0
    assert [len(each) for each in both] == [3, 3]


def test_without_a_gpu_it_says_so_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--device", "cuda:0"]) == 2
    assert capsys.readouterr().out.startswith("no GPU: cuda:0 is not in this ONNX Runtime, or does not load")


def test_a_dry_run_goes_all_the_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: STAND_INS[name] for name in (gpu.SWAP, gpu.EMBED, "xseg_1")}
    monkeypatch.setattr(gpu, "STAND_INS", few)
    assert gpu.main(["--dry", "--output", str(tmp_path / "gpu.md")]) == 0
    text = (tmp_path / "gpu.md").read_text()
    assert "no figure means anything" in text
    for row in ("fp32", "fp16, inputs and outputs on the device", "fp16, recorded (CUDA graph)", "sessions", "xseg_1"):
        assert f"\n| {row} | " in text
    assert text.count("not measured") == 0
    out = capsys.readouterr().out
    assert "failed" not in out.replace("TensorRT: failed (TensorRT is not installed", "")
