"""What the open graphs of one Runtime share: a limit of memory, and the choice of the least loaded device."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

PEAK = 5
"""What opening a graph takes for a moment, in sizes of its weights: parsed, copied, arranged anew (measured: 4.7)."""
KEPT = 2
"""What an open graph keeps, in the same unit, where it could not be measured: weights, and weights arranged anew."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Once(Generic[_K, _V]):
    """Makes the value of each key once, from any thread; different keys are made at the same time.

    Args:
        values: where they are kept; may be read without a lock.
    """

    def __init__(self, values: Callable[[], MutableMapping[_K, _V]]) -> None:
        self._values = values
        self._lock = threading.Lock()
        self._locks: dict[_K, threading.Lock] = {}

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value, made now unless it is there. What `make` raises goes to its caller; the next one tries again."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            values = self._values()
            if key not in values:
                values[key] = make()
            return values[key]


class Evictable(Protocol):
    """What holds an open graph."""

    def evict(self) -> bool:
        """Close the graph unless it is in use, which is False; never waits."""


@dataclass(slots=True)
class _Account:
    """What one open graph takes."""

    device: str
    size: int
    """Bytes."""
    opening: bool = True
    used: int = 0
    """When it was used last, as a number that only grows."""


class Pool:
    """Accounts for the graphs that are open, and closes those not in use, the one used longest ago first.

    On the CPU the limit is one of the whole process, as it is when a graph is opened, so that it can be set to what a
    container allows; on other devices it is one of the weights there, device by device. A graph that is running
    is never closed, and one that is larger than the limit is opened alone.

    Args:
        limit: bytes; 0 for none, and then nothing is measured.
        resident: bytes of this process in memory; 0 where it is not known.
        trim: gives memory that was freed back to the system.
    """

    def __init__(
        self, limit: int = 0, *, resident: Callable[[], int] | None = None, trim: Callable[[], object] | None = None
    ) -> None:
        self.limit = limit
        self._resident, self._trim = resident or resident_bytes, trim or trim_heap
        self._lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[Evictable, _Account] = weakref.WeakKeyDictionary()
        self._clock = itertools.count(1)
        self._begun = 0
        self.closed = 0
        """How often a graph was closed to keep to the limit."""
        self._load: Counter[str] = Counter()
        self._given: Counter[str] = Counter()

    @contextmanager
    def opening(self, owner: Evictable, device: str, weights: int) -> Iterator[None]:
        """Makes room for a graph while it is opened, and accounts for what it then takes.

        Args:
            weights: bytes of its weights.
        """
        before, begun = self._begin(owner, device, weights)
        try:
            yield
        except BaseException:
            self.forget(owner)
            raise
        self._settle(owner, weights, before, begun)

    def touch(self, owner: Evictable) -> None:
        """It is used now."""
        account = self._accounts.get(owner)
        if account is not None:
            account.used = next(self._clock)

    def forget(self, owner: Evictable) -> None:
        """Its graph is closed."""
        with self._lock:
            self._accounts.pop(owner, None)

    def used(self, device: str) -> int:
        """Bytes that the graphs on this device take, as far as is known."""
        with self._lock:
            return sum(account.size for account in self._accounts.values() if account.device == device)

    def take(self, devices: Sequence[str], items: int = 1) -> int:
        """Place of the least loaded device among these, which has that many items more to do until `give`.

        Of equals it is the one that was given least so far, so that networks that run in turn share the devices.
        """
        with self._lock:
            place = min(range(len(devices)), key=lambda i: (self._load[devices[i]], self._given[devices[i]]))
            self._load[devices[place]] += items
            self._given[devices[place]] += items
            return place

    def give(self, device: str, items: int = 1) -> None:
        """That many items are done."""
        with self._lock:
            self._load[device] -= items

    def _begin(self, owner: Evictable, device: str, weights: int) -> tuple[int, int]:
        account = _Account(device, weights * (PEAK if self.limit and device == "cpu" else 1), used=next(self._clock))
        with self._lock:
            self._begun += 1
            self._accounts[owner] = account
            begun = self._begun
            if self.limit:
                self._make_room(owner, device)
        return self._resident() if self.limit else 0, begun

    def _settle(self, owner: Evictable, weights: int, before: int, begun: int) -> None:
        with self._lock:
            account = self._accounts[owner]
            account.opening = False
            if not self.limit or account.device != "cpu":
                return
            self._trim()  # what opening took for a moment counts until then
            others = begun != self._begun or any(each.opening for each in self._accounts.values())
            growth = self._resident() - before if before and not others else KEPT * weights
            account.size = min(max(weights, growth), PEAK * weights)

    def _make_room(self, owner: Evictable, device: str) -> None:
        for other, account in sorted(self._accounts.items(), key=lambda pair: pair[1].used):
            if not self._is_over(device):
                return
            if other is not owner and account.device == device and other.evict():
                self._accounts.pop(other, None)
                self.closed += 1
                if device == "cpu":
                    self._trim()

    def _is_over(self, device: str) -> bool:
        accounts = [account for account in self._accounts.values() if account.device == device]
        held = sum(account.size for account in accounts)
        if device == "cpu":
            held = max(held, self._resident() + sum(account.size for account in accounts if account.opening))
        return held > self.limit


def resident_bytes() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def trim_heap() -> None:
    """Have the C library give freed memory back; else it keeps most of what a closed graph took. Linux with glibc."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
