"""Damages small files of every format that mien reads, and checks that each ends in a right output or a clear error.

A case passes when it ends in an output that decodes as reported, or in an error of mien that is one line, names the
file and reads like no crash; nothing is left behind, nothing printed, and memory stays bounded. Findings are kept
under FOLDER/findings with the damaged file. Exit status 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.fuzz.campaign import Tally, run_cases


def main() -> int:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (0)")
    parser.add_argument("--seed", type=int, default=1, help="of the random damages (1)")
    parser.add_argument("--seconds", type=float, default=0.0, help="start no case after so many; 0 for no limit (0)")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (1)")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one case may take (20)")
    parser.add_argument("--folder", type=Path, help="where to work and keep findings (a new temporary folder)")
    parser.add_argument("--repeat", metavar="CASE", help="run one case: SEED:NUMBER, or a finding's case.json")
    parser.add_argument("--verbose", action="store_true", help="print every case, not only the findings")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mien-fuzz-"))
    names = [args.repeat] if args.repeat else [f"{args.seed}:{args.first + i}" for i in range(args.cases)]
    started = time.monotonic()
    tally = Tally()

    def tell(outcome: dict[str, Any]) -> None:
        tally.add(outcome)
        if outcome["verdict"] != "ok" or args.verbose or args.repeat:
            print(f"{outcome['name']} {outcome['verdict']}: {outcome['result']}: {outcome['text'].strip()}", flush=True)
        if tally.cases % 500 == 0:
            print(f"{tally.cases} cases, {len(tally.findings)} findings, {outcome.get('rss', 0):.0f} MB", flush=True)

    done = run_cases(names, folder.resolve(), jobs=args.jobs, limit=args.limit, seconds=args.seconds, tell=tell)
    print(_summary(done, time.monotonic() - started, folder))
    return 1 if done.findings else 0


def _summary(done: Tally, seconds: float, folder: Path) -> str:
    results = ", ".join(f"{count} {name}" for name, count in done.results.most_common())
    growth = ", ".join(f"{first:.0f} → {last:.0f} MB" for first, last in done.growth)
    lines = [
        f"{done.cases} cases in {seconds:.0f} s ({done.cpu / max(1, done.cases):.3f} s of processor time each)",
        f"results: {results}",
        f"memory of the workers: {growth}",
        f"{len(done.findings)} findings" + (f", kept in {folder}/findings" if done.findings else ""),
    ]
    lines += [f"{len(names):5} {kind} ({', '.join(names[:3])})" for kind, names in done.kinds()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
