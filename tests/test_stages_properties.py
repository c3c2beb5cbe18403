"""The line of stage threads under delays, failures, early closes and limits drawn at random."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mien.errors import PipelineError
from mien.stages import Run, Stage

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = 20.0
"""Seconds after which a run that should have ended counts as locked up."""


class Broken(Exception):
    """What a stage or the source raises on purpose."""


@dataclass(frozen=True)
class Plan:
    """A run: items, stages, how long each call takes, and which call fails."""

    items: int
    stages: int
    queue_size: int
    delays: tuple[float, ...]
    """Seconds, taken in turn by all calls of all stages."""
    failing: tuple[int, int] | None
    """Stage (−1 is the source) and item of the call that raises."""
    groups: tuple[int, ...] = (0,)
    """Items of a call of each stage, taken in turn; 0: one, and no list."""

    def delay(self, stage: int, item: int) -> None:
        time.sleep(self.delays[(stage * 7 + item) % len(self.delays)])

    def group(self, stage: int) -> int:
        return self.groups[stage % len(self.groups)]

    @property
    def most(self) -> int:
        """Items that may exist between source and consumer."""
        more = sum(max(0, self.group(stage) - 1) for stage in range(self.stages))
        return (self.stages + 1) * (self.queue_size + 1) + more

    def fails(self, stage: int, item: int) -> bool:
        return self.failing == (stage, item)

    @property
    def broken(self) -> tuple[int, int] | None:
        """The call that fails, if it is ever made."""
        if self.failing is None or self.failing[0] >= self.stages or self.failing[1] >= self.items:
            return None
        return self.failing

    @property
    def expected(self) -> list[int]:
        """Results before the end or the failure."""
        count = self.items if self.broken is None else self.broken[1]
        return [item * 2**self.stages for item in range(count)]


plans = st.builds(
    Plan,
    items=st.integers(0, 12),
    stages=st.integers(0, 4),
    queue_size=st.integers(1, 4),
    delays=st.lists(st.sampled_from([0.0, 0.0, 0.0005, 0.002]), min_size=1, max_size=5).map(tuple),
    failing=st.none() | st.tuples(st.integers(-1, 4), st.integers(0, 12)),
    groups=st.lists(st.sampled_from([0, 0, 1, 2, 3, 5]), min_size=1, max_size=4).map(tuple),
)


class Line:
    """The plan, running, with a record of what it did."""

    def __init__(self, plan: Plan, **options: Any) -> None:
        self.plan, self.pulled, self.closed = plan, 0, 0
        self.most, self.inside = 0, 0
        """Items between source and consumer: the most there were, and those now."""
        self._lock = threading.Lock()
        stages = [Stage(f"s{index}", self._call(index), plan.group(index)) for index in range(plan.stages)]
        self.run: Run[int] = Run(self._source(), stages, queue_size=plan.queue_size, grace=LONG, **options)

    def taken(self) -> None:
        with self._lock:
            self.inside -= 1

    def _source(self) -> Iterator[int]:
        try:
            for item in range(self.plan.items):
                self.plan.delay(-1, item)
                if self.plan.fails(-1, item):
                    raise Broken(f"source at {item}")
                with self._lock:
                    self.pulled += 1
                    self.inside += 1
                    self.most = max(self.most, self.inside)
                yield item
        finally:
            self.closed += 1

    def _call(self, index: int) -> Any:
        def call(value: int) -> int:
            item = value >> index
            self.plan.delay(index, item)
            if self.plan.fails(index, item):
                raise Broken(f"s{index} at {item}")
            return value * 2

        return (lambda values: [call(value) for value in values]) if self.plan.group(index) else call


def within_time(call: Any) -> Any:
    """What `call` gives or raises; an error when it takes for ever."""
    done: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            done.append((True, call()))
        except BaseException as error:  # raised again below
            done.append((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONG)
    assert done, "locked up"
    good, value = done[0]
    if not good:
        raise value
    return value


def no_thread_is_left() -> bool:
    names = {"mien-decode", *(f"mien-s{index}" for index in range(5))}
    return not [thread for thread in threading.enumerate() if thread.name in names]


@QUICK
@given(plans, st.none() | st.floats(5, 50))
def test_every_result_in_order_then_the_end_or_the_failure(plan: Plan, limit: float | None) -> None:
    line, got = Line(plan, limit=limit), []

    def consume() -> None:
        for item in line.run:
            line.taken()
            got.append(item)

    if plan.broken is None:
        within_time(consume)
        assert line.pulled == plan.items
    else:
        stage, item = plan.broken
        with pytest.raises(Broken, match=f"^{'source' if stage < 0 else f's{stage}'} at {item}$"):
            within_time(consume)
    assert got == plan.expected
    assert line.closed == 1
    assert line.most <= plan.most
    assert no_thread_is_left()
    assert list(line.run) == []


@QUICK
@given(plans, st.integers(0, 12), st.sampled_from([0.0, 0.001, 0.004]))
def test_closing_at_any_moment_ends_all_and_closes_the_source(plan: Plan, takes: int, wait: float) -> None:
    line, got = Line(plan), []

    def consume() -> None:
        with line.run:
            try:
                for _ in range(takes):
                    got.append(next(line.run))
                time.sleep(wait)
            except (StopIteration, Broken):
                pass

    within_time(consume)
    assert got == plan.expected[: len(got)]
    assert no_thread_is_left()
    assert list(line.run) == []
    within_time(line.run.close)
    if takes and plan.items:
        assert line.closed == 1


@settings(QUICK, max_examples=8)
@given(plans.filter(lambda plan: plan.items > 0), st.data())
def test_a_call_that_hangs_anywhere_ends_the_run_and_is_named(plan: Plan, data: st.DataObject) -> None:
    where = data.draw(st.integers(-1, plan.stages - 1), "stage that hangs")
    at = data.draw(st.integers(0, plan.items - 1), "item")
    release = threading.Event()

    class Hanging(Plan):
        def delay(self, stage: int, item: int) -> None:
            if (stage, item) == (where, at):
                assert release.wait(LONG)
            super().delay(stage, item)

    hanging = Hanging(plan.items, plan.stages, plan.queue_size, plan.delays, None, plan.groups)
    line = Line(hanging, limit=0.5, cancel=release.set)
    got: list[int] = []
    name = "decode" if where < 0 else f"s{where}"
    with pytest.raises(PipelineError, match=rf"^{name}: a step did not end within 0\.5 s; raise --model-timeout"):
        within_time(lambda: got.extend(line.run))
    arrived = at
    for stage in range(max(where, 0), plan.stages):  # what is in an unfinished group waits for the one that hangs
        arrived -= arrived % max(1, plan.group(stage))
    assert got == [item * 2**plan.stages for item in range(arrived)]
    assert no_thread_is_left() and line.closed == 1
    within_time(line.run.close)


@settings(QUICK, max_examples=25)
@given(plans, st.sampled_from([0.0, 0.02]))
def test_nothing_that_ends_in_time_is_called_hung(plan: Plan, consumer: float) -> None:
    plan = replace(plan, failing=None)
    line = Line(plan, limit=5.0, cancel=lambda: pytest.fail("cancelled"))

    def consume() -> list[int]:
        got = []
        for item in line.run:
            time.sleep(consumer)
            got.append(item)
        return got

    assert within_time(consume) == plan.expected
