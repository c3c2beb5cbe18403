"""Models as text: a table that fits 100 columns, and all that is known of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mien.zoo.catalogue import Entry

WIDTH = 100
"""Columns of the table."""
_INDENT = "  "
_COLUMNS = ("name", "how", "size", "commercial use", "licence")


def as_json(entry: Entry) -> dict[str, Any]:
    """All fields of a model."""
    return asdict(entry)


def table(entries: Sequence[Entry]) -> Iterator[str]:
    """A heading, and for each task its name and a line for each model, at most `WIDTH` columns wide."""
    rows = [(entry.task, _cells(entry)) for entry in entries]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *(cells for _, cells in rows), strict=True)]
    widths[-1] = WIDTH - len(_INDENT) - sum(width + 2 for width in widths[:-1])
    yield _INDENT + _line(_COLUMNS, widths)
    before = ""
    for task, cells in rows:
        if task != before:
            yield task
            before = task
        yield _INDENT + _line(cells, widths)


def details(entry: Entry) -> Iterator[str]:
    """A line for each thing that is known of a model."""
    lines = {
        "name": entry.name,
        "task": entry.task,
        "family": "" if entry.family == entry.name else entry.family,
        "licence": entry.licence,
        "commercial use": _yes(entry.commercial),
        "origin": entry.origin,
        "file": entry.file or "none; this model has no network",
        "size": _size(entry.size),
        "sha256": entry.sha256,
        "needs": ", ".join(entry.needs),
        "installed": _place(entry),
        "to install": entry.next_step,
    }
    return (f"{key + ':':<16}{text}" for key, text in lines.items() if text)


def _cells(entry: Entry) -> tuple[str, ...]:
    how = "ships" if entry.bundled else "installed" if entry.installed else entry.supply
    name = entry.name if entry.family == entry.name else f"{entry.name} ({entry.family})"
    return name, how, _size(entry.size), _yes(entry.commercial), entry.licence.removeprefix("LicenseRef-")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    cut = (text if len(text) <= width else f"{text[: width - 1]}…" for text, width in zip(cells, widths, strict=True))
    return "  ".join(text.ljust(width) for text, width in zip(cut, widths, strict=True)).rstrip()


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size else ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _place(entry: Entry) -> str:
    if not entry.installed:
        return "no"
    where = "ships with mien" if entry.bundled else "yes"
    return f"{where}, {entry.path}" if entry.path else where
