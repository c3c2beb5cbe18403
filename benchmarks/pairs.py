"""What every benchmark of speed shares: processes of their own, turns taken in one call, medians, tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

Cost: TypeAlias = Mapping[str, Any]
Table: TypeAlias = list[dict[str, Any]]
"""Rows with the same keys, which are the columns."""
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Spread:
    """Of repeated measurements."""

    median: float
    low: float
    high: float
    """Least and most."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(median(values), min(values), max(values))

    def text(self, digits: int = 2) -> str:
        """Median, and the range if there is one."""
        if self.low == self.high:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}–{self.high:.{digits}f})"


def run_pass(name: str, cores: int | None = None, **arguments: Any) -> Cost:
    """One pass of `benchmarks.passes` in a fresh process, on the first so many cores if that is given."""
    found = run([sys.executable, "-m", "benchmarks.passes", name, json.dumps(arguments)], cores)
    told: Cost = json.loads(found.splitlines()[-1])
    return told


def run(command: Sequence[str], cores: int | None = None) -> str:
    """The standard output of a command that must not fail."""
    chosen = None if cores is None else sorted(os.sched_getaffinity(0))[:cores]

    def limit() -> None:
        if chosen is not None:
            os.sched_setaffinity(0, chosen)

    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, preexec_fn=limit)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def in_turn(calls: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Each call so often, one after the other in every round; every other round the other way round."""
    found: dict[str, list[Cost]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls) if number % 2 == 0 else list(calls)[::-1]:
            found[name].append(calls[name]())
    return found


def ratios(one: Sequence[Cost], other: Sequence[Cost], key: str = "seconds") -> Spread:
    """`one` over `other`, round by round."""
    return Spread.of([a[key] / b[key] for a, b in zip(one, other, strict=True)])


def markdown(table: Table) -> str:
    """A table of GitHub's kind; spreads as their medians and ranges."""
    columns = list(table[0]) if table else []
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(_text(row[column]) for column in columns) + " |" for row in table)])


def plain(value: Any) -> Any:
    """Ready for JSON."""
    if isinstance(value, Spread):
        return {"median": value.median, "low": value.low, "high": value.high}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def write_between(path: Path, name: str, text: str) -> None:
    """Put the text between the two markers of that name, whatever is there now."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{path}: has no lines {begin.strip()} and {end}; add them where the table belongs")
    part = path.with_name(path.name + ".part")
    part.write_text(f"{before}{begin}\n{text}\n\n{end}{after}")
    part.replace(path)


def _text(value: Any) -> str:
    if isinstance(value, Spread):
        return value.text()
    return f"{value:.2f}" if isinstance(value, float) else str(value)
