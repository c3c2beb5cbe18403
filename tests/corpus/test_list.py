"""docs/robustness.md is the list of these tests, and it is whole."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.corpus.scene import ROOT

FOLDER = Path(__file__).parent
LIST = ROOT / "docs" / "robustness.md"
_ROW = re.compile(r"^\|.*\|\s*((?:`test_\w+(?:::\w+)?`(?:,\s*)?)+)\s*\|$")


def written() -> set[str]:
    """file::test of every test in this folder."""
    found = set()
    for path in FOLDER.glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(f"{path.stem}::{node.name}")
    return found


def listed() -> set[str]:
    """file::test of every test that the list names; a row names the file once, and further tests of it alone."""
    found = set()
    for line in LIST.read_text().splitlines():
        file = ""
        for name in re.findall(r"`(test_\w+(?:::\w+)?)`", line):
            first, _, rest = name.partition("::")
            file, test = (first, rest) if rest else (file, first)
            found.add(f"{file}::{test}")
    return found


def test_every_test_is_listed_and_every_listed_test_exists() -> None:
    assert listed() == written()


def test_every_row_names_a_test() -> None:
    rows = [line for line in LIST.read_text().splitlines() if line.startswith("|")]
    rows = [row for row in rows if not row.startswith(("| case", "|---", "| ---"))]
    assert len(rows) > 90
    assert [row for row in rows if not _ROW.match(row)] == []


def test_none_is_skipped() -> None:
    for path in FOLDER.glob("*.py"):
        marks = re.findall(r"\b(?:mark\.(?:skip|skipif|xfail)|pytest\.(?:skip|xfail|importorskip))\b", path.read_text())
        assert marks == [] or path.name == Path(__file__).name, path.name
