"""A line of worker threads with bounded queues between them: the generic half of the pipeline."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NoReturn, Self, TypeVar

from mien.errors import PipelineError
from mien.profile import Phase

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """One step: takes an item, gives the item for the next step. Runs in a thread of its own.

    With a `group`, it takes a list of items and gives as many, in order. Which items form a group follows from the
    items alone, never from timing: a group waits until it is full, an item `ends` it, or no more items come. When a
    call for a group fails, its items are tried one by one, so that those before the one that fails still arrive; calls
    must bear to be repeated.
    """

    name: str
    call: Callable[[Any], Any]
    group: int = 0
    """Most items of a call; 0: one, and no list."""
    ends: Callable[[Any], bool] | None = None
    """Whether a group ends with this item, though it is not full."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Travels in the place of the item that could not be made, so earlier items still arrive."""

    error: BaseException


_END = object()
"""Comes after the last item."""
TICKS = 10
"""Looks at a call before it is hung."""


class _Closed(Exception):
    """The queue was closed while a thread used it."""


class _Late(Exception):
    """Nothing came in the time given."""


class _Clock:
    """Times the calls of one thread: `with` around each. Waiting for a queue is no call."""

    __slots__ = ("_profile", "_timings", "began", "error", "name")

    def __init__(self, name: str, timings: dict[str, float], profile: Phase | None = None) -> None:
        self.name, self._timings, self._profile = name, timings, profile
        self.began: float | None = None
        """When the call that runs now began, by `perf_counter`."""
        self.error = ""
        """What a call raised; its text only, since an exception keeps the frames in memory."""

    def __enter__(self) -> None:
        self.began = perf_counter()

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        began, self.began = self.began, None
        if began is not None:
            ended = perf_counter()
            self._timings[self.name] += ended - began
            if self._profile is not None:
                self._profile.call(self.name, began, ended)
        self.error = "" if error is None else str(error)


class _Queue:
    """Bounded hand-over between two threads; closing it wakes both at once, without polling."""

    def __init__(self, size: int, name: str = "", profile: Phase | None = None) -> None:
        self._size, self._items, self._closed = size, deque[Any](), False
        self._name, self._profile = name, profile
        self._changed = threading.Condition()

    def put(self, item: Any) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if self._closed:
                raise _Closed
            self._items.append(item)
            self._tell()
            self._changed.notify_all()

    def get(self, seconds: float | None = None) -> Any:
        with self._changed:
            came = self._changed.wait_for(lambda: self._closed or self._items, seconds)
            if self._closed:
                raise _Closed
            if not came:
                raise _Late
            item = self._items.popleft()
            self._tell()
            self._changed.notify_all()
            return item

    @property
    def closed(self) -> bool:
        with self._changed:
            return self._closed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def _tell(self) -> None:
        if self._profile is not None:
            self._profile.depth(self._name, len(self._items))


def _close_all(queues: Sequence[_Queue]) -> None:
    for queue in queues:
        queue.close()


class Run(Iterator[T]):
    """The results, in order. Threads start at the first `next`; `close` (or leaving `with`) ends them.

    An exception of the source or of a stage is raised here, with its own traceback, after the items
    before it. The source's iterator is closed by the thread that pulls it. At most (stages + 1) · (queue_size + 1)
    items exist between the source and the consumer; a group of n in a stage adds n − 1.

    Args:
        timings: busy seconds by stage name are added here; `source` names the first key.
        grace: seconds a stage may take to return after `close`; then `cancel` is called and it gets
            as many again.
        limit: seconds one call of a stage, or one item of the source, may take while the consumer waits;
            a longer one is hung: `cancel` is called, it gets the grace time, and `next` raises. Waiting for
            another stage, or for the consumer, does not count. None: for ever.
        profile: is told each call, and how full the queue after each stage is.

    Raises:
        PipelineError: a stage is hung, or did not return in time.
    """

    def __init__(
        self,
        items: Iterable[Any],
        stages: Sequence[Stage],
        *,
        source: str = "decode",
        queue_size: int = 4,
        timings: dict[str, float] | None = None,
        grace: float = 10.0,
        cancel: Callable[[], None] | None = None,
        limit: float | None = None,
        profile: Phase | None = None,
    ) -> None:
        timings = {} if timings is None else timings
        names = (source, *(stage.name for stage in stages))
        for name in names:
            timings.setdefault(name, 0.0)
        self._source, self._grace, self._cancel, self._limit = iter(items), grace, cancel, limit
        queues = [_Queue(queue_size, f"after {name}", profile) for name in names]
        self._clocks = [_Clock(name, timings, profile) for name in names]
        late: list[Exception] = []
        work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(_pump, (self._source, queues[0], late))]
        for stage, inlet, outlet in zip(stages, queues, queues[1:], strict=False):
            work.append((_work, (stage, inlet, outlet)))
        self._threads = [
            threading.Thread(target=call, args=(*args, clock), name=f"mien-{clock.name}", daemon=True)
            for (call, args), clock in zip(work, self._clocks, strict=True)
        ]
        self._outlet, self._late = queues[-1], late
        self._started = self._closed = False
        # A dropped iterator must not leave threads waiting; they never refer to it.
        self._stop = weakref.finalize(self, _close_all, queues)

    def __next__(self) -> T:
        if not self._started and not self._closed:
            self._started = True
            for thread in self._threads:
                thread.start()
        try:
            item = self._take()
        except _Closed:
            raise StopIteration from None
        except BaseException:
            with suppress(Exception):  # An interruption must arrive as one, whatever comes of stopping.
                self.close()
            raise
        if item is _END:
            self.close()
            raise StopIteration
        if isinstance(item, _Failure):
            self._fail(item.error)
        result: T = item
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None or issubclass(kind, Exception):
                raise  # An interruption must arrive as one.

    def close(self) -> None:
        """Stop every stage and wait for the threads. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._stop()
        if not self._started:
            _close_iterator(self._source)
            return
        if self._join() and self._cancel is not None:
            self._cancel()
        if stuck := self._join():
            raise PipelineError(f"{_names(stuck)} did not stop within {2 * self._grace:g} s; end this process")
        if self._late:
            raise self._late.pop()

    def _take(self) -> Any:
        """The next item, or PipelineError once a call was seen to run for `limit` seconds of this waiting.

        It is looked at in ticks, of which each counts once however long it took: a process that stood still, stopped
        or starved, has not waited for its stages.
        """
        if self._limit is None:
            return self._outlet.get()
        seen: dict[_Clock, tuple[float | None, int]] = {}
        while True:
            with suppress(_Late):
                return self._outlet.get(self._limit / TICKS)
            for clock in self._clocks:
                began = clock.began
                before, ticks = seen.get(clock, (None, 0))
                ticks = ticks + 1 if began is not None and began == before else 0
                if ticks >= TICKS:
                    self._hung(clock, self._limit)
                seen[clock] = began, ticks

    def _hung(self, clock: _Clock, limit: float) -> NoReturn:
        """Stop everything as far as it can be stopped, and say whose call it was."""
        self._closed = True
        self._stop()
        if self._cancel is not None:
            self._cancel()
        stuck = self._join()
        reason = f" ({clock.error})" if clock.error else ""
        rest = f"; {_names(stuck)} could not be stopped, so end this process" if stuck else ""
        advice = "check the disk that the target lies on" if clock is self._clocks[0] else "run `mien doctor`"
        raise PipelineError(
            f"{clock.name}: a step did not end within {limit:g} s{reason}; "
            f"raise --model-timeout if it is only slow, else {advice}{rest}"
        )

    def _fail(self, error: BaseException) -> NoReturn:
        try:
            self.close()
        except Exception as late:
            raise error from late
        try:
            raise error
        finally:
            del error  # the traceback refers to this call, and would keep the frames in memory

    def _join(self) -> list[threading.Thread]:
        """Threads that still run after the grace time."""
        deadline = perf_counter() + self._grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - perf_counter()))
        return [thread for thread in self._threads if thread.is_alive()]


def _names(threads: Sequence[threading.Thread]) -> str:
    return ", ".join(thread.name for thread in threads)


def _pump(iterator: Iterator[Any], outlet: _Queue, late: list[Exception], clock: _Clock) -> None:
    try:
        for item in _timed(iterator, clock):
            outlet.put(item)
            del item
        outlet.put(_END)
    except _Closed:
        try:
            _close_iterator(iterator)
        except Exception as error:  # raised again by Run.close
            late.append(error)
    except BaseException as error:  # raised again by Run.__next__
        with suppress(_Closed):
            outlet.put(_Failure(error))


def _timed(iterator: Iterator[Any], clock: _Clock) -> Iterator[Any]:
    while True:
        try:
            with clock:
                item = next(iterator)
        except StopIteration:
            return
        yield item
        del item


def _work(stage: Stage, inlet: _Queue, outlet: _Queue, clock: _Clock) -> None:
    last: Any = None
    with suppress(_Closed):
        while last is None:
            items: list[Any] = []
            results, failure = deque[Any](), None
            try:
                last = _gather(stage, inlet, items)
                if items:
                    results = _called(stage, items, clock)
            except _Closed:
                raise
            except BaseException as error:  # raised again by Run.__next__
                failure = _Failure(error)
            if failure is not None:
                inlet.close()
                last = _before(failure, stage, items, outlet, clock)
            del items
            while results:
                outlet.put(results.popleft())
        outlet.put(last)


def _gather(stage: Stage, inlet: _Queue, items: list[Any]) -> Any:
    """Add the items of one call; gives what came after the last item of all, or None."""
    while len(items) < max(1, stage.group):
        item = inlet.get()
        if item is _END or isinstance(item, _Failure):
            return item
        items.append(item)
        if stage.ends is not None and stage.ends(item):
            break
    return None


def _before(failure: _Failure, stage: Stage, items: list[Any], outlet: _Queue, clock: _Clock) -> _Failure:
    """Hand over a group's items one by one, up to the one that fails alone; without one, the last counts as it."""
    while len(items) > 1 and not outlet.closed:
        try:
            results = _called(stage, [items.pop(0)], clock)
        except BaseException as error:  # raised again by Run.__next__
            return _Failure(error)
        outlet.put(results.popleft())
    return failure


def _called(stage: Stage, items: list[Any], clock: _Clock) -> deque[Any]:
    with clock:
        if not stage.group:
            return deque([stage.call(items[0])])
        results = deque(stage.call(items))
        if len(results) != len(items):
            raise PipelineError(f"{stage.name}: gave {len(results)} items for {len(items)}; report this")
        return results


def _close_iterator(iterator: Iterator[Any]) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
