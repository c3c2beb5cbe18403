"""Ends inferences that last too long, wherever they were started from."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from mien.runtime.session import Session
from mien.stages import TICKS


class Watchdog:
    """Looks after sessions from one thread, which sleeps a tenth of the limit between two looks.

    The thread starts with the first session and ends with this object.

    Args:
        limit: seconds an inference may take.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._sessions: list[weakref.ref[Session]] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._started = False
        weakref.finalize(self, self._stop.set)

    def add(self, session: Session) -> None:
        """Watch this session as long as it lives."""
        with self._lock:
            self._sessions.append(weakref.ref(session))
            first, self._started = not self._started, True
        if first:
            # The thread refers to the parts only, never to this object, which could not end otherwise.
            work = (self._sessions, self._limit, self._stop)
            threading.Thread(target=_watch, args=work, name="mien-watchdog", daemon=True).start()


def _watch(sessions: Sequence[weakref.ref[Session]], limit: float, stop: threading.Event) -> None:
    # Each tick counts once however long it took: a process that stood still has not waited for its inferences.
    while not stop.wait(limit / TICKS):
        for reference in tuple(sessions):
            if (session := reference()) is not None:
                session.expire(TICKS)
            del session
