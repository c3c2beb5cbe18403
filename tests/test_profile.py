"""The trace of a run: what is in it adds up to the report's timings, and it is written whole or not at all."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import mien
from mien.errors import NoFaceError, OutputError
from mien.profile import Profile
from mien.stages import Run, Stage
from mien.zoo.registry import Zoo
from tests.fakes import FakeZoo, identity

Event = dict[str, Any]


def events_of(profile: Profile) -> list[Event]:
    found: list[Event] = json.loads("".join(profile.lines()))["traceEvents"]
    return found


def rows(events: list[Event]) -> dict[str, list[Event]]:
    """Calls by the name of their row."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    calls = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            calls[names[event["tid"]]].append(event)
    return dict(calls)


def counters(events: list[Event]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            found[event["name"]].append(event["args"]["items"])
    return dict(found)


def numbers() -> Iterator[int]:
    for number in range(5):
        sleep(0.001)
        yield number


def slowly(number: int) -> int:
    sleep(0.005)
    return number * 2


@pytest.fixture
def traced() -> tuple[list[Event], dict[str, float]]:
    timings: dict[str, float] = {}
    with Profile() as profile:
        run: Run[int] = Run(
            numbers(), [Stage("double", slowly)], queue_size=2, timings=timings, profile=profile.phase("test")
        )
        assert list(run) == [0, 2, 4, 6, 8]
        return events_of(profile), timings


def test_every_call_is_an_event_of_its_row(traced: tuple[list[Event], dict[str, float]]) -> None:
    calls = rows(traced[0])
    assert {row: len(events) for row, events in calls.items()} == {"test: decode": 6, "test: double": 5}
    for row, events in calls.items():
        assert {(e["cat"], f"{e['cat']}: {e['name']}") for e in events} == {("test", row)}
        for before, after in pairwise(events):  # one thread: in order, one at a time
            assert 0 <= before["ts"] <= before["ts"] + before["dur"] <= after["ts"] + 0.01
    assert all(event["dur"] >= 5000 for event in calls["test: double"])


def test_durations_add_up_to_the_timings(traced: tuple[list[Event], dict[str, float]]) -> None:
    events, timings = traced
    sums = {row.removeprefix("test: "): sum(e["dur"] for e in calls) / 1e6 for row, calls in rows(events).items()}
    assert sums == pytest.approx(timings, abs=1e-6)


def test_counters_tell_what_lies_in_the_queues(traced: tuple[list[Event], dict[str, float]]) -> None:
    found = counters(traced[0])
    assert set(found) == {"test: after decode", "test: after double"}
    for depths in found.values():  # five items and the end go in and come out, one by one
        steps = [after - before for before, after in pairwise([0, *depths])]
        assert (sorted(steps), depths[-1]) == ([-1] * 6 + [1] * 6, 0)
        assert set(depths) <= {0, 1, 2}
    assert max(found["test: after decode"]) == 2  # the slow stage comes after it


def test_an_unfinished_run_can_be_told_too() -> None:
    with Profile() as profile:
        run: Run[int] = Run(numbers(), [Stage("double", slowly)], profile=profile.phase("test"))
        with run:
            assert next(run) == 0
        assert 1 <= len(rows(events_of(profile))["test: double"]) <= 5


@pytest.mark.parametrize("profile", [True, False])
def test_a_swap_writes_its_profile(examples: Path, models: Zoo, tmp_path: Path, profile: bool) -> None:
    trace = tmp_path / "trace.json"
    report = mien.swap(
        examples / "source.jpg",
        examples / "clip.mp4",
        tmp_path / "out.mp4",
        zoo=models,
        max_seconds=0.24,
        preset="ultrafast",
        profile=trace if profile else None,
    )
    if not profile:
        assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]
        return
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mp4", "trace.json"]
    calls = rows(json.loads(trace.read_text())["traceEvents"])
    assert set(calls) == {
        "source: identity",
        *(f"analyze: {name}" for name in ("decode", "cut", "analyze")),
        *(f"render: {name}" for name in ("decode", "find", "mask", "swap", "paste", "encode")),
    }
    assert {len(calls[f"render: {name}"]) for name in ("find", "mask", "swap", "paste")} == {report.frames}
    sums: dict[str, float] = defaultdict(float)
    for row, events in calls.items():
        sums[row.partition(": ")[2]] += sum(event["dur"] for event in events) / 1e6
    assert sums == pytest.approx(report.timings, abs=0.0006)


def test_a_run_that_fails_writes_none(tmp_path: Path, portraits: Path) -> None:
    with pytest.raises(NoFaceError):
        mien.swap(
            identity(), portraits / "male_009.jpg", tmp_path / "out.png", zoo=FakeZoo(), robust="off",
            profile=tmp_path / "trace.json",
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_profile_overwrites_nothing_of_its_run(tmp_path: Path, portraits: Path) -> None:
    photo, out = portraits / "male_009.jpg", tmp_path / "out.png"
    with pytest.raises(OutputError, match="would overwrite the output"):
        mien.swap(identity(), photo, out, zoo=FakeZoo(), profile=out)
    with pytest.raises(OutputError, match="is one of the inputs"):
        mien.swap(identity(), photo, out, zoo=FakeZoo(), profile=photo)


def test_a_full_disk_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr("tempfile.TemporaryFile", lambda *_, **__: Full())
    with Profile() as profile:
        profile.phase("test").call("swap", 0.0, 1.0)
        with pytest.raises(OutputError, match="No space left on device"):
            list(profile.lines())
