"""Runs mixed jobs in one process for hours: `python -m benchmarks.soak --hours 24 --state DIR/soak.json`.

Each cycle does the same jobs: photos and clips of several formats, analyses, runs cancelled in two ways, an interrupted
run that is resumed, an identity saved and loaded, files that must fail, and four randomly damaged files of the fuzzer,
others in each cycle. A job fails if it raises what it should not, leaves something behind, or gives other bytes than
in the first cycle. At the end of a cycle, memory, open files and threads are measured.

The state is kept in FILE after each job: stop it by Ctrl-C, SIGTERM or kill, and run it again to go on until the hours
are full. The jobs run in a child process, so a crash or a hang of theirs is noted as a failure and the child is
started anew; each child is a series of its own in the growth's regression. `--hours 0` only reports.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.trends import common_slope, time_between_failures

WARM_UP = 600.0
"""Seconds of each process that do not count for the growth of memory."""
SILENT = 900.0
"""Seconds without a finished job after which the child counts as hung."""
_SPACING = 30.0
"""Seconds between two samples, at least."""


class State:
    """What is known so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        empty: dict[str, Any] = {"seconds": 0.0, "jobs": 0, "cycles": 0, "failures": [], "hashes": {}, "runs": []}
        self.values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else empty

    def save(self) -> None:
        """Write it, all or nothing."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self.values, indent=1))
        os.replace(fresh, self._path)

    def fail(self, job: str, text: str) -> None:
        """Note a failure."""
        found = {"hours": round(self.values["seconds"] / 3600, 4), "cycle": self.values["cycles"], "job": job}
        self.values["failures"].append(found | {"text": text})
        self.save()


def report(values: dict[str, Any]) -> str:
    """What the hours so far tell."""
    hours, failures = values["seconds"] / 3600, len(values["failures"])
    between = time_between_failures(hours, failures)
    lines = [
        f"{hours:.2f} h, {values['jobs']} jobs in {values['cycles']} cycles and {len(values['runs'])} processes",
        f"{failures} failures: the mean time between failures is at least {between:.2f} h (95 %)",
    ]
    kinds = (("rss", "memory", " MB"), ("handles", "open files", ""), ("threads", "threads", ""))
    for key, name, unit in kinds:
        slope = common_slope(series(values["runs"], key))
        if slope is None:
            lines.append(f"{name}: too few samples after warm-up")
        else:
            lines.append(f"{name}: {slope.value:+.3f}{unit} an hour (95 %: {slope.low:+.3f} to {slope.high:+.3f})")
    lines += [f"failed: {f['job']} in cycle {f['cycle']}: {f['text']}" for f in values["failures"][-20:]]
    return "\n".join(lines)


def series(runs: Sequence[dict[str, Any]], key: str) -> list[list[tuple[float, float]]]:
    """(hours, value) of each process after its warm-up."""
    return [[(s["at"] / 3600, float(s[key])) for s in run["samples"] if s["at"] >= WARM_UP] for run in runs]


def work(path: Path, hours: float) -> None:
    """The child: do jobs until the hours are full."""
    from benchmarks.soak_jobs import Jobs, measure

    state = State(path)
    values = state.values
    values["runs"].append({"samples": []})
    jobs, began, sampled = Jobs(path.parent / "soak-work", values["hashes"]), time.monotonic(), -_SPACING
    while values["seconds"] < hours * 3600:
        for name, job in jobs.cycle(values["cycles"]):
            started = time.monotonic()
            failure = jobs.run(name, job)
            values["seconds"] += time.monotonic() - started
            values["jobs"] += 1
            if failure:
                state.fail(name, failure)
            state.save()
        values["cycles"] += 1
        at = time.monotonic() - began
        if at - sampled >= _SPACING:
            sampled = at
            values["runs"][-1]["samples"].append({"at": round(at, 1), **measure()})
        state.save()


def supervise(path: Path, hours: float, nice: int) -> None:
    """The parent: start children until the hours are full; note those that crash or hang."""
    command = [sys.executable, "-m", "benchmarks.soak", "--child", "--hours", str(hours), "--state", str(path)]
    with (path.parent / "soak-log.txt").open("ab") as log:
        while State(path).values["seconds"] < hours * 3600:
            child = subprocess.Popen(["nice", "-n", str(nice), *command], stdout=log, stderr=log)
            try:
                failure = _watch(child, path)
            finally:
                child.kill()
                child.wait()
            if failure:
                State(path).fail("process", failure)
                time.sleep(1)


def _watch(child: subprocess.Popen[bytes], path: Path) -> str:
    """Wait for the child's end, or end it once it hangs; what went wrong."""
    while True:
        try:
            code = child.wait(5)
            return f"ended with {code}; see soak-log.txt" if code else ""
        except subprocess.TimeoutExpired:
            changed = path.stat().st_mtime if path.exists() else time.time()
            if time.time() - max(changed, _START) > SILENT:
                return f"no job ended for {SILENT:g} s"


_START = time.time()


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, required=True, help="how long in all, earlier runs included")
    parser.add_argument("--state", type=Path, required=True, help="JSON file of all that is known; files lie beside it")
    parser.add_argument("--nice", type=int, default=10, help="priority, 0 to 19 (10: others go first)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    path = args.state.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if args.child:
        work(path, args.hours)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        supervise(path, args.hours, args.nice)
    except KeyboardInterrupt:
        print("stopped; run it again to go on")
    values = State(path).values
    print(report(values))
    return 1 if values["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
