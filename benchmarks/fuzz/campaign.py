"""Runs many cases in worker processes, starts new ones after crashes and hangs, and keeps what was found."""

from __future__ import annotations

import json
import os
import queue
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzz import cases
from benchmarks.fuzz.seeds import make_seeds

_TAIL = 1500
_ALIKE = 110
_STARVED = 3
"""Times the limit that a case may take while other work keeps the processor from it."""
Tell = Callable[[dict[str, Any]], None]


@dataclass
class Tally:
    """What came of all cases so far."""

    cases: int = 0
    results: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    cpu: float = 0.0
    growth: list[tuple[float, float]] = field(default_factory=list)
    """Of each worker: MB when warm, and at its end."""

    def add(self, outcome: dict[str, Any]) -> None:
        """Count one."""
        self.cases += 1
        self.cpu += outcome.get("cpu", 0.0)
        self.results[outcome["result"]] += 1
        if outcome["verdict"] != "ok":
            self.findings.append(outcome)

    def kinds(self) -> list[tuple[str, list[str]]]:
        """Findings that read alike, and their cases' names, the most frequent first."""
        alike: dict[str, list[str]] = {}
        for found in self.findings:
            text = re.sub(r"'?/\S*/|\d+", "", f"{found['verdict']}: {found['result']}: {found['text'].strip()}")
            alike.setdefault(text[:_ALIKE], []).append(found["name"])
        return sorted(alike.items(), key=lambda item: -len(item[1]))


class Worker:
    """One worker process; `run` gives a case's outcome, whatever happens to the process.

    Args:
        limit: seconds that a case may take.
    """

    def __init__(self, folder: Path, seeds: Path, limit: float) -> None:
        self._folder, self._seeds, self._limit = folder, seeds, limit
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> dict[str, Any]:
        """The outcome of the case."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        before = _cpu(process.pid)
        process.stdin.write(name + "\n")
        process.stdin.flush()
        if not self._wait(process, before):
            self.stop()
            return {"name": name, "verdict": "hang", "result": "hang", "text": f"not done in {self._limit:g} s"}
        line = process.stdout.readline()
        if line:
            return dict(json.loads(line))
        code = process.wait()
        self.stop()
        tail = (self._folder / "stderr").read_text(errors="replace")[-_TAIL:]
        return {"name": name, "verdict": "crash", "result": "crash", "text": f"exit status {code}: {tail}"}

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[str]:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        command = _command(self._folder, self._seeds)
        with (self._folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        return self._process

    def _wait(self, process: subprocess.Popen[str], before: float) -> bool:
        """Whether an answer, or the end of the process, came in time."""
        assert process.stdout is not None
        started = time.monotonic()
        while not select.select([process.stdout], [], [], 1.0)[0]:
            taken = time.monotonic() - started
            busy = _cpu(process.pid) - before
            if taken > self._limit * _STARVED or (taken > self._limit and busy > self._limit):
                return False
        return True


def run_cases(
    names: Iterable[str], folder: Path, *, jobs: int = 1, limit: float = 20.0, seconds: float = 0.0,
    tell: Tell | None = None,
) -> Tally:  # fmt: skip
    """Run the cases, each finding kept under `folder/findings`.

    Args:
        seconds: stop starting cases after so many; 0 for no such limit.
        tell: called with each outcome, by one thread at a time.
    """
    seeds = folder / "seeds"
    make_seeds(seeds)
    tally, lock, todo = Tally(), threading.Lock(), queue.SimpleQueue[str]()
    for name in names:
        todo.put(name)
    ends, stopped = time.monotonic() + seconds if seconds else float("inf"), threading.Event()

    def work(number: int) -> None:
        worker, first, last = Worker(folder / f"worker-{number}", seeds, limit), 0.0, 0.0
        try:
            while time.monotonic() < ends and not stopped.is_set():
                try:
                    name = todo.get_nowait()
                except queue.Empty:
                    break
                outcome = worker.run(name)
                last = outcome.get("rss") or last
                first = first or last
                with lock:
                    tally.add(outcome)
                    if outcome["verdict"] != "ok":
                        _keep(outcome, seeds, folder / "findings")
                    if tell is not None:
                        tell(outcome)
        finally:
            worker.stop()
            tally.growth.append((first, last))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:  # What is known so far is told.
        stopped.set()
        for thread in threads:
            thread.join()
    return tally


def _keep(outcome: dict[str, Any], seeds: Path, folder: Path) -> None:
    name = outcome["name"]
    if not name.endswith(".json"):
        made = cases.case(name)
        cases.save(made, cases.damaged(made, seeds), folder, outcome)


def _command(folder: Path, seeds: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.fuzz.worker", str(folder), str(seeds)]


def _cpu(pid: int) -> float:
    """Processor seconds of a process so far; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
