"""A process that runs cases: their names come in by standard input, and an outcome a line goes out.

Native code may crash or hang on a damaged file: the parent then knows the case, and starts another worker.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path

from benchmarks.fuzz import cases
from benchmarks.fuzz.trial import Bench, Outcome

MEMORY = 6 << 30
"""Bytes of address space; the models and libraries take 2 GiB of it."""
FILE_SIZE = 256 << 20
GROWTH = 300.0
"""MB by which the process may grow between its 50th case and any later one."""
_WARM = 50
_SAMPLE = 25
_HANDLES = 30
_DIE_WITH_PARENT = 1


def main() -> None:
    """Run the cases that are named on standard input until it ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("seeds", type=Path)
    args = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What native code prints is chatter.
    _limit()
    stderr = Path(os.readlink("/proc/self/fd/2"))
    work, temporary = args.folder / "work", args.folder / "tmp"
    for folder in (work, temporary):
        folder.mkdir()
    tempfile.tempdir = str(temporary)
    bench, samples = Bench(args.seeds), Samples()
    for count, line in enumerate(sys.stdin):
        name = line.strip()
        case, data = _case(name, args.seeds)
        outcome = bench.run(case, data, work, stderr)
        if outcome.verdict == "ok" and (left := os.listdir(temporary)):
            outcome = Outcome("left over", outcome.result, f"temporary files: {', '.join(left)}", outcome.cpu)
        if outcome.verdict == "ok" and count % _SAMPLE == 0 and (text := samples.judge(count)):
            outcome = Outcome("growth", outcome.result, text, outcome.cpu)
        replies.write(json.dumps(asdict(outcome) | {"name": name, "rss": samples.rss}) + "\n")


def _case(name: str, seeds: Path) -> tuple[cases.Case, bytes]:
    if name.endswith(".json"):
        return cases.load(Path(name))
    case = cases.case(name)
    return case, cases.damaged(case, seeds)


def _limit() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    # Each time, not once: a case must not depend on those before it.
    for kind in (UserWarning, RuntimeWarning):
        warnings.simplefilter("always", kind)


class Samples:
    """Memory and open files of this process, measured where nothing should be held."""

    def __init__(self) -> None:
        self.rss = 0.0
        """MB, as last measured; 0 before the process is warm."""
        self._base: tuple[float, int] | None = None

    def judge(self, count: int) -> str:
        """What grew since the process was warm; empty if nothing did."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.rss = round(pages * os.sysconf("SC_PAGESIZE") / 1e6, 1)
        handles = len(os.listdir("/proc/self/fd"))
        if count < _WARM:
            self.rss = 0.0
            return ""
        rss, before = self._base = self._base or (self.rss, handles)
        if self.rss > rss + GROWTH:
            self._base = self.rss, before
            return f"memory grew from {rss} to {self.rss} MB"
        if handles > before + _HANDLES:
            self._base = rss, handles
            return f"open files grew from {before} to {handles}"
        return ""


if __name__ == "__main__":
    main()
