"""Speed: `python -m benchmarks host|models|swap`. Each prints tables; docs/performance.md says what they mean."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import host, models, swap
from benchmarks.pairs import ROOT, Table, markdown, plain, write_between
from mien.bench import machine

PAGE = ROOT / "docs" / "performance.md"


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print or write what was found."""
    arguments = _parser().parse_args(words)
    options = {"preset": arguments.preset} if arguments.preset else {}
    with ExitStack() as stack:
        folder = arguments.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.what == "models":
            found = models.tables(folder, arguments.seconds, arguments.only)
        else:
            of = host.tables if arguments.what == "host" else swap.tables
            found = of(folder, arguments.rounds, arguments.frames, arguments.only, options)
    text = in_words(found, {**vars(arguments), "options": options})
    print(text)
    if arguments.json:
        told = {"machine": machine(), "options": options, "tables": plain(found)}
        arguments.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    if arguments.write:
        write_between(PAGE, arguments.what, text)


def in_words(found: dict[str, Table], arguments: dict[str, Any]) -> str:
    """The machine, what was asked for, and the tables, in Markdown."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    told = "defaults" if not arguments["options"] else ", ".join(f"{k} {v}" for k, v in arguments["options"].items())
    head = f"Machine: {facts}. Options: {told}; rounds: {arguments['rounds']}."
    return "\n\n".join([head, *(markdown(table) for table in found.values() if table)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=("host", "models", "swap"))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--work", type=Path, help="folder to keep generated clips and networks in")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, in turn (3)")
    parser.add_argument("--frames", type=int, help="frames of a clip; each case has its own number")
    parser.add_argument("--only", default="", help="cases or models whose names hold this")
    parser.add_argument("--preset", help="of the encoder; the default one unless given")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model (2)")
    return parser


if __name__ == "__main__":
    main()
