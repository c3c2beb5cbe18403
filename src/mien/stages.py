"""A line of worker threads with bounded queues between them: the generic half of the pipeline."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Any, NoReturn, Self, TypeVar

from mien.errors import PipelineError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """One step: takes an item, gives the item for the next step. Runs in a thread of its own."""

    name: str
    call: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Failure:
    """Travels in the place of the item that could not be made, so earlier items still arrive."""

    error: BaseException


_END = object()
"""Comes after the last item."""


class _Closed(Exception):
    """The queue was closed while a thread used it."""


class _Queue:
    """Bounded hand-over between two threads; closing it wakes both at once, without polling."""

    def __init__(self, size: int) -> None:
        self._size, self._items, self._closed = size, deque[Any](), False
        self._changed = threading.Condition()

    def put(self, item: Any) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if self._closed:
                raise _Closed
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._items)
            if self._closed:
                raise _Closed
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


def _close_all(queues: Sequence[_Queue]) -> None:
    for queue in queues:
        queue.close()


class Run(Iterator[T]):
    """The results, in order. Threads start at the first `next`; `close` (or leaving `with`) ends them.

    An exception of the source or of a stage is raised here, with its own traceback, after the items
    before it. The source's iterator is closed by the thread that pulls it. At most
    (stages + 1) · (queue_size + 1) items exist between the source and the consumer.

    Args:
        timings: busy seconds by stage name are added here; `source` names the first key.
        grace: seconds a stage may take to return after `close`; then `cancel` is called and it gets
            as many again.

    Raises:
        PipelineError: a stage did not return in time.
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
    ) -> None:
        self._timings = {} if timings is None else timings
        for name in (source, *(stage.name for stage in stages)):
            self._timings.setdefault(name, 0.0)
        self._source, self._grace, self._cancel = iter(items), grace, cancel
        queues = [_Queue(queue_size) for _ in range(len(stages) + 1)]
        late: list[Exception] = []
        work: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
            (source, _pump, (self._source, queues[0], self._timings, source, late))
        ]
        for stage, inlet, outlet in zip(stages, queues, queues[1:], strict=False):
            work.append((stage.name, _work, (stage, inlet, outlet, self._timings)))
        self._threads = [
            threading.Thread(target=call, args=args, name=f"mien-{name}", daemon=True) for name, call, args in work
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
            item = self._outlet.get()
        except _Closed:
            raise StopIteration from None
        except BaseException:
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

    def __exit__(self, *_: object) -> None:
        self.close()

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
            names = ", ".join(thread.name for thread in stuck)
            raise PipelineError(f"{names} did not stop within {2 * self._grace:g} s; end this process")
        if self._late:
            raise self._late.pop()

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
        deadline = monotonic() + self._grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        return [thread for thread in self._threads if thread.is_alive()]


def _pump(iterator: Iterator[Any], outlet: _Queue, timings: dict[str, float], name: str, late: list[Exception]) -> None:
    try:
        for item in _timed(iterator, timings, name):
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


def _timed(iterator: Iterator[Any], timings: dict[str, float], name: str) -> Iterator[Any]:
    while True:
        started = perf_counter()
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            timings[name] += perf_counter() - started
        yield item
        del item


def _work(stage: Stage, inlet: _Queue, outlet: _Queue, timings: dict[str, float]) -> None:
    with suppress(_Closed):
        while True:
            item = inlet.get()
            if item is _END or isinstance(item, _Failure):
                outlet.put(item)
                return
            started = perf_counter()
            try:
                item = stage.call(item)
            except BaseException as error:  # raised again by Run.__next__
                inlet.close()
                outlet.put(_Failure(error))
                return
            finally:
                timings[stage.name] += perf_counter() - started
            outlet.put(item)
            del item


def _close_iterator(iterator: Iterator[Any]) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
