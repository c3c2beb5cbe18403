"""Stages that take several items at once: which, how many exist, and every way to end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mien.errors import PipelineError
from mien.stages import Run, Stage
from tests.test_stages import Source


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name in ("mien-decode", "mien-s", "mien-t")] == []


class Grouped:
    """Ten times each item; records the items of each call."""

    def __init__(self, fails: Callable[[list[int]], bool] = lambda items: False) -> None:
        self.fails, self.calls = fails, list[list[int]]()

    def __call__(self, items: list[int]) -> list[int]:
        self.calls.append(list(items))
        if self.fails(items):
            raise ValueError(f"broke at {items}")
        return [item * 10 for item in items]


def run(source: Any, call: Any, group: int, ends: Any = None, **options: Any) -> Run[Any]:
    return Run(source, [Stage("s", call, group, ends)], **options)


def until_it_fails(items: Run[Any]) -> tuple[list[Any], BaseException]:
    got = []
    with pytest.raises(Exception) as caught:
        for item in items:
            got.append(item)
    return got, caught.value


@pytest.mark.parametrize("group", [1, 3, 4, 10, 99])
def test_groups_are_full_but_for_the_last_whatever_the_timing(group: int) -> None:
    rng = random.Random(group)
    for _ in range(5):
        grouped = Grouped()
        with run(Source(10, delay=rng.choice([0, 0.002])), grouped, group, queue_size=rng.randint(1, 4)) as items:
            got = []
            for item in items:
                got.append(item)
                time.sleep(rng.choice([0, 0.002]))
        assert got == [item * 10 for item in range(10)]
        assert grouped.calls == [list(range(start, min(start + group, 10))) for start in range(0, 10, group)]


def test_a_group_ends_with_an_item_that_ends_it() -> None:
    grouped = Grouped()
    assert list(run(range(14), grouped, 4, lambda item: item % 6 == 5)) == [item * 10 for item in range(14)]
    assert grouped.calls == [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9], [10, 11], [12, 13]]


def test_no_item_is_no_group() -> None:
    grouped = Grouped()
    assert list(run([], grouped, 4)) == []
    assert list(run(range(4), grouped, 4)) == [0, 10, 20, 30]
    assert grouped.calls == [[0, 1, 2, 3]]


@pytest.mark.parametrize("at", [4, 5, 6, 7])
def test_items_before_the_one_that_fails_in_a_group_arrive(at: int) -> None:
    grouped, source = Grouped(lambda items: at in items), Source(1000)
    got, error = until_it_fails(run(source, grouped, 4))
    assert got == [item * 10 for item in range(at)]
    assert str(error) == f"broke at {[at] if at < 7 else [4, 5, 6, 7]}"
    assert grouped.calls[:3] == [[0, 1, 2, 3], [4, 5, 6, 7], [4]]
    assert grouped.calls[2:] == [[item] for item in range(4, min(at, 6) + 1)]
    assert source.closed


def test_a_group_that_fails_though_its_items_do_not_is_a_failure() -> None:
    grouped = Grouped(lambda items: len(items) > 1)
    got, error = until_it_fails(run(range(8), grouped, 4))
    assert got == [0, 10, 20]
    assert str(error) == "broke at [0, 1, 2, 3]"


def test_a_failure_before_a_group_ends_it() -> None:
    grouped = Grouped()
    got, error = until_it_fails(run(Source(9, fail_at=6), grouped, 4))
    assert (got, str(error)) == ([0, 10, 20, 30, 40, 50], "source broke")
    assert grouped.calls == [[0, 1, 2, 3], [4, 5]]


def test_a_failure_in_a_group_that_a_failure_ended_comes_first() -> None:
    got, error = until_it_fails(run(Source(9, fail_at=6), Grouped(lambda items: 5 in items), 4))
    assert (got, str(error)) == ([0, 10, 20, 30, 40], "broke at [4, 5]")


def test_a_failure_to_see_the_end_of_a_group_is_raised() -> None:
    got, error = until_it_fails(run(range(9), Grouped(), 4, lambda item: 1 // (2 - item) > 9))
    assert (got, type(error)) == ([0, 10], ZeroDivisionError)


@pytest.mark.parametrize("given", [lambda items: items[1:], lambda items: [*items, 7]])
def test_a_call_that_gives_another_number_of_items_is_refused(given: Any) -> None:
    got, error = until_it_fails(run(range(9), given, 3))
    assert (got, type(error)) == ([], PipelineError)
    assert str(error).startswith("s: gave ") and str(error).endswith(" items for 1; report this")


def test_a_slow_consumer_bounds_what_is_pulled() -> None:
    source, stages = Source(1000), [Stage("s", Grouped(), 5), Stage("t", Grouped(), 3)]
    items: Run[int] = Run(source, stages, queue_size=2)
    with items:
        for taken in range(1, 9):
            next(items)
            time.sleep(0.05)
            assert source.pulled <= taken + 3 * (2 + 1) + 4 + 2
    assert source.pulled >= 8 + 3 * 2


def test_hundred_early_closes_at_random_moments() -> None:
    rng = random.Random(3)
    for _ in range(100):
        source = Source(10_000, delay=0.0005 if rng.random() < 0.5 else 0)
        stages = [Stage("s", Grouped(), rng.randint(1, 6)), Stage("t", lambda x: x)]
        items: Run[int] = Run(source, stages, queue_size=rng.randint(1, 4))
        for _ in range(rng.randint(0, 9)):
            next(items)
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.004)
        items.close()
        assert source.closed
        assert list(items) == []


def test_a_group_that_hangs_is_cancelled_and_not_tried_again() -> None:
    release, calls = threading.Event(), list[list[int]]()

    def hang(items: list[int]) -> list[int]:
        calls.append(items)
        if 5 in items:
            assert release.wait(30)
            raise ValueError("terminated")
        return items

    source = Source(1000)
    got, error = until_it_fails(run(source, hang, 4, limit=0.3, cancel=release.set))
    assert (got, type(error)) == ([0, 1, 2, 3], PipelineError)
    assert str(error).startswith("s: a step did not end within 0.3 s (terminated); raise --model-timeout")
    assert [call[0] for call in calls] == [0, 4]
    assert source.closed


def test_waiting_for_a_full_group_is_not_hanging_and_no_busy_time() -> None:
    timings: dict[str, float] = {}

    def call(items: list[int]) -> list[int]:
        time.sleep(0.02)
        return items

    # The group takes longer to fill than the limit, but no call does.
    assert list(run(Source(6, delay=0.3), call, 6, limit=1.0, timings=timings)) == list(range(6))
    assert 0.02 <= timings["s"] < 1.8 <= timings["decode"]
