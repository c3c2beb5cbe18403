"""What each thread did when, and how full the queues were: a trace in Chrome's format, for Perfetto and the like.

https://ui.perfetto.dev shows such a file. `X` events are the calls of stages, one row for each stage of each phase;
`C` events are the items in a queue after each change. Times are microseconds since the profile began.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from mien.errors import OutputError

_COMPACT = (",", ":")


class Profile:
    """Takes events from any thread and keeps them in a temporary file, so that memory does not grow with the clip.

    Raises:
        OutputError: the temporary folder cannot be written to.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 closed with the profile
        except OSError as error:
            raise _no_space(error) from error
        self._lock = threading.Lock()
        self._began = perf_counter()
        self._rows: dict[str, int] = {}
        self._failure: OSError | None = None

    def phase(self, name: str) -> Phase:
        """For the events of one part of a run, such as `analyze` or `render`."""
        return Phase(self, name)

    def add_call(self, phase: str, stage: str, began: float, ended: float) -> None:
        """A call of a stage, by `perf_counter`."""
        event = {"ph": "X", "name": stage, "cat": phase, "ts": self._time(began), "dur": _microseconds(ended - began)}
        self._add(event, f"{phase}: {stage}")

    def add_depth(self, phase: str, queue: str, items: int) -> None:
        """So many items lie in a queue from now on."""
        event = {"ph": "C", "name": f"{phase}: {queue}", "cat": phase, "args": {"items": items}}
        self._add({**event, "ts": self._time(perf_counter())}, None)

    def lines(self) -> Iterator[str]:
        """The whole trace as the lines of a JSON file.

        Raises:
            OutputError: some events could not be kept.
        """
        if self._failure is not None:
            raise _no_space(self._failure)
        pid = os.getpid()
        names = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": row}}
            for row, tid in self._rows.items()
        ]
        first = {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "mien"}}
        yield '{"displayTimeUnit":"ms","traceEvents":[\n'
        yield ",\n".join(json.dumps(event, separators=_COMPACT) for event in (first, *names))
        self._file.seek(0)
        for line in self._file:
            yield ",\n" + line.rstrip("\n")
        yield "\n]}\n"

    def close(self) -> None:
        """Let the temporary file go."""
        self._file.close()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _time(self, moment: float) -> float:
        return _microseconds(moment - self._began)

    def _add(self, event: dict[str, Any], row: str | None) -> None:
        event["pid"] = os.getpid()
        with self._lock:
            event["tid"] = 0 if row is None else self._rows.setdefault(row, len(self._rows) + 1)
            try:
                self._file.write(json.dumps(event, separators=_COMPACT) + "\n")
            except OSError as error:  # told at the end: no run is stopped by what only watches it
                self._failure = error


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run, which names its events."""

    profile: Profile
    name: str

    def call(self, stage: str, began: float, ended: float) -> None:
        """See `Profile.add_call`."""
        self.profile.add_call(self.name, stage, began, ended)

    def depth(self, queue: str, items: int) -> None:
        """See `Profile.add_depth`."""
        self.profile.add_depth(self.name, queue, items)


def _no_space(error: OSError) -> OutputError:
    return OutputError(f"cannot keep the profile ({error.strerror}); set TMPDIR to a folder with space")


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
