"""The fuzzer notices what it should, and 200 fixed cases end well."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.fuzz import campaign, cases
from benchmarks.fuzz.campaign import Worker, run_cases
from benchmarks.fuzz.seeds import all_seeds
from benchmarks.fuzz.trial import Bench, Flaw, Outcome, judge_output, judge_text
from benchmarks.fuzz.worker import Samples

CASES = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the seeds are made, once."""
    return tmp_path_factory.mktemp("fuzz")


def test_fixed_cases_end_in_a_right_output_or_a_clear_error(folder: Path) -> None:
    done = run_cases([f"20:{number}" for number in range(CASES)], folder, limit=60)
    assert done.cases == CASES
    assert [f"{f['name']} {f['verdict']}: {f['text']}" for f in done.findings] == []
    assert done.results["success"] > CASES / 10
    assert done.results["MediaError"] > CASES / 10


def test_a_case_follows_from_its_name() -> None:
    made = [cases.case(f"1:{number}") for number in range(900)]
    assert made == [cases.case(f"1:{number}") for number in range(900)]
    assert {one.file for one in made} == {seed.name for seed in all_seeds()}
    assert {one.role for one in made} == {"target", "source", "analysis", "identity", "journal"}


def test_a_kept_case_is_loaded_as_it_was(tmp_path: Path) -> None:
    made = cases.case("1:5")
    told = cases.save(made, b"damaged", tmp_path, {"verdict": "ruined", "text": "why"})
    assert told == tmp_path / "1-5" / "case.json"
    assert cases.load(told) == (made, b"damaged")
    assert json.loads(told.read_text())["text"] == "why"


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("{folder}/a.mp4: cannot be read (it is damaged); convert it", ""),
        ("cannot be read (it is damaged); convert it", "names no file"),
        ("{folder}/a.mp4: line\nline; convert it", "more than one short line"),
        ("{folder}/a.mp4: 'NoneType' object has no attribute 'pts'", "reads like a crash"),
        ("{folder}/a.mp4: cannot be written; check the disk's space", "reads like a crash"),
    ],
)
def test_texts_are_judged(tmp_path: Path, text: str, flaw: str) -> None:
    text = text.format(folder=tmp_path)
    if flaw:
        with pytest.raises(Flaw, match=flaw):
            judge_text(text, tmp_path)
    else:
        judge_text(text, tmp_path)


class _Report:
    frames = 1


def test_outputs_are_judged(tmp_path: Path) -> None:
    whole = tmp_path / "whole.png"
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(whole)
    report: Any = _Report()
    judge_output(whole, report, (30, 20))
    cut = tmp_path / "cut.png"
    cut.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(Flaw, match="does not decode"):
        judge_output(cut, report, (30, 20))
    other = tmp_path / "other.png"
    Image.fromarray(np.zeros((20, 31, 3), np.uint8)).save(other)
    with pytest.raises(Flaw, match="31×20, not 30×20"):
        judge_output(other, report, (30, 20))
    report.frames = 2
    with pytest.raises(Flaw, match="holds 1 frames, 2 were reported"):
        judge_output(whole, report, (30, 20))


class _Careless(Bench):
    """Does what a case must not do."""

    def __init__(self, act: str) -> None:
        self.act = act

    def _act(self, case: cases.Case, path: Path, output: Path) -> None:
        if self.act == "raise":
            raise KeyError("why")
        if self.act == "litter":
            path.with_name("more.part").write_bytes(b"")
        if self.act == "print":
            os.write(_ERRORS, b"decoder: error\ndecoder: error\n")
        output.write_bytes(b"")


_ERRORS = os.open(os.devnull, os.O_WRONLY)


@pytest.mark.parametrize(
    ("act", "verdict", "text"),
    [
        ("raise", "unexpected", "KeyError: 'why' at test_fuzz.py"),
        ("litter", "left over", "more.part"),
        ("print", "chatter", "decoder: error"),
        ("nothing", "ok", ""),
    ],
)
def test_misdeeds_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, verdict: str, text: str
) -> None:
    work, stderr = tmp_path / "work", tmp_path / "stderr"
    work.mkdir()
    with stderr.open("wb", buffering=0) as errors:
        monkeypatch.setattr(f"{__name__}._ERRORS", errors.fileno())
        case = cases.Case("1:0", "target", "a.png", "out.png", {})
        outcome = _Careless(act).run(case, b"data", work, stderr)
    assert isinstance(outcome, Outcome)
    assert outcome.verdict == verdict
    assert text in outcome.text
    assert list(work.iterdir()) == []


def test_growth_is_noticed() -> None:
    samples = Samples()
    assert samples.judge(0) == ""
    assert samples.judge(50) == ""
    held = np.ones(45_000_000)
    assert "memory grew" in samples.judge(75)
    files = [open(os.devnull) for _ in range(40)]  # noqa: SIM115
    assert "open files grew" in samples.judge(100)
    for file in files:
        file.close()
    assert held[-1] == 1


@pytest.mark.parametrize(("ending", "verdict"), [("os.abort()", "crash"), ("time.sleep(60)", "hang")])
def test_a_worker_that_dies_or_hangs_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, verdict: str
) -> None:
    script = tmp_path / "worker.py"
    answer = "print(json.dumps({'name': name, 'verdict': 'ok', 'result': 'success', 'text': ''}), flush=True)"
    script.write_text(
        "import json, os, sys, time\n"
        f"for line in sys.stdin:\n    name = line.strip()\n    if name == '1:1': {ending}\n    {answer}\n"
    )
    monkeypatch.setattr(campaign, "_command", lambda *_: [sys.executable, str(script)])
    worker = Worker(tmp_path / "w", tmp_path, limit=1)
    try:
        verdicts = [worker.run(f"1:{number}")["verdict"] for number in range(3)]
    finally:
        worker.stop()
    assert verdicts == ["ok", verdict, "ok"]
