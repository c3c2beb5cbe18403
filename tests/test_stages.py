"""The line of stage threads: order, bounds, errors, and every way to stop it."""

from __future__ import annotations

import faulthandler
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mien.errors import PipelineError
from mien.stages import Run, Stage


@pytest.fixture(autouse=True)
def _no_deadlock() -> Iterator[None]:
    before = set(threading.enumerate())
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    left = [t.name for t in threading.enumerate() if t not in before and t.name.startswith("mien-")]
    assert left == []


class Source:
    """Numbers, counting what was pulled and whether it was closed."""

    def __init__(self, stop: int, fail_at: int = -1, delay: float = 0.0) -> None:
        self.stop, self.fail_at, self.delay = stop, fail_at, delay
        self.pulled, self.closed = 0, False

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.pulled == self.fail_at:
            raise ValueError("source broke")
        if self.pulled == self.stop:
            raise StopIteration
        if self.delay:
            time.sleep(self.delay)
        self.pulled += 1
        return self.pulled - 1

    def close(self) -> None:
        self.closed = True


def pause(seconds: float) -> Callable[[int], int]:
    def call(x: int) -> int:
        time.sleep(seconds)
        return x

    return call


def run(source: Any, *calls: Any, **options: Any) -> Run[Any]:
    return Run(source, [Stage(f"s{i}", call) for i, call in enumerate(calls)], **options)


def test_results_keep_the_order_and_every_stage_sees_every_item() -> None:
    rng = random.Random(1)

    def slowly(x: int) -> int:
        time.sleep(rng.random() * 0.002)
        return x * 10

    assert list(run(range(40), slowly, lambda x: x + 1, queue_size=2)) == [x * 10 + 1 for x in range(40)]


def test_no_stage_and_no_item() -> None:
    assert list(run(range(3))) == [0, 1, 2]
    assert list(run([], lambda x: x)) == []


def test_a_slow_consumer_bounds_what_is_pulled() -> None:
    source = Source(1000)
    with run(source, lambda x: x, lambda x: x, queue_size=2) as items:
        for taken in range(1, 4):
            next(items)
            time.sleep(0.05)
            assert source.pulled <= taken + (2 + 1) * (2 + 1)
    assert source.closed


def test_error_of_the_source_comes_after_the_items_before_it() -> None:
    items = run(Source(9, fail_at=3), lambda x: x)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="source broke") as caught:
        next(items)
    assert any(line.name == "__next__" and "test_stages" in line.filename for line in traceback.extract_tb(caught.tb))
    with pytest.raises(StopIteration):
        next(items)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_error_of_a_stage_keeps_its_traceback_and_closes_the_source(where: int) -> None:
    def break_at_five(x: int) -> int:
        if x == 5:
            raise KeyError("five")
        return x

    source = Source(1000)
    calls: list[Any] = [lambda x: x] * 3
    calls[where] = break_at_five
    got = []
    with pytest.raises(KeyError, match="five") as caught:
        for item in run(source, *calls, queue_size=1):
            got.append(item)
    assert got == [0, 1, 2, 3, 4]
    assert traceback.extract_tb(caught.tb)[-1].name == "break_at_five"
    assert source.closed


def test_hundred_early_closes_at_random_moments() -> None:
    rng = random.Random(7)
    for _ in range(100):
        source = Source(10_000, delay=0.0005 if rng.random() < 0.5 else 0)
        stage_delay = rng.choice([0, 0, 0.001, 0.003])
        items = run(source, pause(stage_delay), lambda x: x, queue_size=rng.randint(1, 4))
        for _ in range(rng.randint(0, 5)):
            next(items)
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.004)
        items.close()
        assert source.closed
        assert list(items) == []


def test_close_before_the_first_item_closes_the_source_and_starts_nothing() -> None:
    source = Source(5)
    items = run(source, lambda x: x)
    items.close()
    items.close()
    assert (source.closed, source.pulled) == (True, 0)
    assert list(items) == []


def test_close_from_another_thread_ends_a_waiting_consumer() -> None:
    wait = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        wait.wait(10)

    items = run(source(), lambda x: x)
    assert next(items) == 1

    def close() -> None:
        wait.set()
        items.close()

    closer = threading.Timer(0.05, close)
    closer.start()
    assert list(items) == []
    closer.join()


def test_a_dropped_run_lets_its_threads_go() -> None:
    source = Source(10_000)
    items = run(source, lambda x: x)
    next(items)
    threads = [t for t in threading.enumerate() if t.name in ("mien-decode", "mien-s0")]
    assert len(threads) == 2
    del items
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert source.closed


def test_a_generator_source_is_closed() -> None:
    ended = []

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            ended.append(True)

    items = run(source(), lambda x: x)
    next(items)
    items.close()
    assert ended == [True]


def test_a_source_that_fails_to_close_is_heard() -> None:
    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            raise OSError("cannot close")

    items = run(source(), lambda x: x)
    next(items)
    with pytest.raises(OSError, match="cannot close"):
        items.close()


def test_a_hung_stage_is_cancelled() -> None:
    cancelled = threading.Event()

    def hang(x: int) -> int:
        if x == 1:
            assert cancelled.wait(30)
        return x

    items = run(range(9), hang, grace=0.5, cancel=cancelled.set)
    assert next(items) == 0
    items.close()
    assert cancelled.is_set()


def test_a_stage_that_cannot_be_stopped_is_an_error_that_names_it() -> None:
    release = threading.Event()
    items = run(range(9), lambda x: x if x == 0 else release.wait(30), grace=0.05)
    assert next(items) == 0
    hung = [t for t in threading.enumerate() if t.name == "mien-s0"]
    with pytest.raises(PipelineError, match=r"mien-s0 did not stop within 0\.1 s"):
        items.close()
    release.set()
    hung[0].join(10)


def test_busy_seconds_are_counted_by_stage() -> None:
    timings: dict[str, float] = {}
    list(run(Source(5, delay=0.004), pause(0.008), lambda x: x, timings=timings))
    assert list(timings) == ["decode", "s0", "s1"]
    assert timings["decode"] >= 0.02
    assert timings["s0"] >= 0.04


def stuck(release: threading.Event) -> Callable[[int], int]:
    """Hangs at item 2 until released."""

    def call(x: int) -> int:
        if x == 2:
            assert release.wait(30)
        return x

    return call


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_stage_over_the_limit_is_cancelled_and_named_with_the_next_step(where: int) -> None:
    release, source = threading.Event(), Source(1000)
    calls: list[Any] = [lambda x: x] * 3
    calls[where] = stuck(release)
    items = run(source, *calls, limit=0.3, cancel=release.set)
    assert [next(items), next(items)] == [0, 1]
    began = time.perf_counter()
    with pytest.raises(PipelineError) as caught:
        next(items)
    assert str(caught.value) == (
        f"s{where}: a step did not end within 0.3 s; raise --model-timeout if it is only slow, else run `mien doctor`"
    )
    assert 0.2 < time.perf_counter() - began < 20
    assert source.closed and list(items) == []
    items.close()


def test_what_a_cancelled_stage_says_is_told() -> None:
    release = threading.Event()

    def call(x: int) -> int:
        assert release.wait(30)
        raise ValueError("yunet: terminated")

    with pytest.raises(PipelineError, match=r"^s0: a step did not end within 0\.1 s \(yunet: terminated\); raise"):
        next(run(range(9), call, limit=0.1, cancel=release.set))


def test_a_source_over_the_limit_is_hung() -> None:
    release = threading.Event()

    def source() -> Iterator[int]:
        yield 7
        release.wait(30)
        yield 8

    items = run(source(), lambda x: x, limit=0.2, cancel=release.set)
    assert next(items) == 7
    with pytest.raises(PipelineError) as caught:
        next(items)
    assert str(caught.value) == (
        "decode: a step did not end within 0.2 s; raise --model-timeout if it is only slow, "
        "else check the disk that the target lies on"
    )


def test_a_hung_stage_that_cannot_be_stopped_is_still_an_error_and_closing_does_not_wait_again() -> None:
    release, cancelled = threading.Event(), threading.Event()
    items = run(range(9), stuck(release), limit=0.2, grace=0.2, cancel=cancelled.set)
    assert [next(items), next(items)] == [0, 1]
    threads = [t for t in threading.enumerate() if t.name == "mien-s0"]
    with pytest.raises(PipelineError, match=r"s0: .* doctor`; mien-s0 could not be stopped, so end this process$"):
        next(items)
    assert cancelled.is_set()
    began, items._grace = time.perf_counter(), 60
    items.close()
    assert time.perf_counter() - began < 20
    release.set()
    for thread in threads:
        thread.join(10)


def test_a_slow_consumer_a_full_queue_and_a_waiting_stage_are_not_hung() -> None:
    items = run(range(8), pause(0.01), pause(0), limit=1.0, queue_size=1)
    got = []
    for item in items:
        got.append(item)
        time.sleep(1.3 if item == 0 else 0)  # the stages wait for room all this time
    assert got == list(range(8))
    # The first item takes longer than the limit, and the first stage is busy all that time, but no call is long.
    assert list(run(range(4), *[pause(0.35)] * 4, limit=1.0)) == list(range(4))


def test_time_in_which_nobody_waits_is_not_counted() -> None:
    items = run(range(2), lambda x: pause(1.6 * x)(x), limit=1.2)
    assert next(items) == 0
    time.sleep(1.0)
    assert list(items) == [1]


STOPPED = """
import time
from mien.stages import Run, Stage

def slow(x):
    print("in", flush=True)
    for _ in range(10):
        time.sleep(0.05)  # in parts, since a sleep goes on while the process is stopped
    return x

print(list(Run(range(2), [Stage("slow", slow)], limit=1.0)))
"""


def test_a_process_that_was_stopped_for_longer_than_the_limit_is_not_hung() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        time.sleep(0.1)  # until the consumer waits
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read().splitlines()[-1] == "[0, 1]"


def test_a_waiting_consumer_wakes_ten_times_a_limit_and_no_oftener(monkeypatch: pytest.MonkeyPatch) -> None:
    release, asked = threading.Event(), []
    items = run(range(9), stuck(release), limit=0.3, cancel=release.set)
    get = items._outlet.get

    def watched(seconds: float | None = None) -> Any:
        asked.append(seconds)
        return get(seconds)

    monkeypatch.setattr(items._outlet, "get", watched)
    with pytest.raises(PipelineError):
        list(items)
    assert asked == [pytest.approx(0.03)] * len(asked)
    assert len(asked) >= 11
