"""Whole swaps with the default options, and how soon a first one is there: `python -m benchmarks swap`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.clips import SOURCE, clip
from benchmarks.host import SIZES, stages
from benchmarks.pairs import ROOT, Cost, Spread, Table, in_turn, run, run_pass

CLIPS: Mapping[str, int] = {"720p": 100, "1080p": 75}
"""Frames by size."""


def clips(folder: Path, rounds: int, frames: int | None, only: str, options: Mapping[str, Any]) -> Table:
    """A row for each size and number of cores, and for one face and several."""
    rows: Table = []
    for size, count in CLIPS.items():
        for faces in (1, 5):
            name = f"{size}, {faces} face{'s' * (faces > 1)}"
            if only in name:
                target = clip(folder, SIZES[size], faces, frames or count)
                rows += _by_cores(name, target, folder / "out.mp4", rounds, options)
    return rows


def _by_cores(name: str, target: Path, output: Path, rounds: int, options: Mapping[str, Any]) -> Table:
    cores = sorted({1, len(os.sched_getaffinity(0))})
    arguments = {"clip": str(target), "source": str(SOURCE), "output": str(output), "options": dict(options)}
    calls: dict[str, Callable[[], Cost]] = {str(n): partial(run_pass, "swap", n, **arguments) for n in cores}
    costs = in_turn(calls, rounds)
    return [
        {
            "clip": name,
            "cores": number,
            "fps": Spread.of([cost["frames"] / cost["seconds"] for cost in found]),
            "CPU ms a frame": Spread.of([1000 * cost["cpu"] / cost["frames"] for cost in found]),
            "peak MB": round(max(cost["peak_mb"] for cost in found)),
            "busy ms a frame": stages(found),
        }
        for number, found in costs.items()
    ]


def starts(folder: Path, rounds: int) -> Table:
    """Seconds from the start of a process to its end."""
    photo, output = str(ROOT / "examples" / "target.jpg"), str(folder / "out.jpg")
    commands = {
        "mien --help": ("--help",),
        "mien swap, a photo": ("swap", "-s", str(SOURCE), "-t", photo, "-o", output, "--quiet"),
    }
    calls = {name: partial(_timed, words) for name, words in commands.items()}
    costs = in_turn(calls, rounds)
    return [{"command": name, "s": Spread.of([cost["seconds"] for cost in found])} for name, found in costs.items()]


def _timed(words: Sequence[str]) -> Cost:
    started = perf_counter()
    run([sys.executable, "-m", "mien", *words])
    return {"seconds": perf_counter() - started}


def tables(folder: Path, rounds: int, frames: int | None, only: str, options: Mapping[str, Any]) -> dict[str, Table]:
    """Both tables."""
    return {"swap": clips(folder, rounds, frames, only, options), "starts": starts(folder, rounds)}
