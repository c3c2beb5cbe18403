"""`mien models`."""

from __future__ import annotations

from typing import Any

from cyclopts import App

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json

models = App(name="models", help="Show the models and their licences.")


@models.command(name="list")
def list_models(*, json: Json = False, debug: Debug = False) -> int:
    """List every model with its task, licence, size and origin."""
    from mien.zoo.registry import registry

    rows = [_row(family.card) for _, family in sorted(registry().items())]
    if json:
        print_json(rows)
    else:
        _print_table(rows)
    return 0


def _row(card: Any) -> dict[str, Any]:
    weights = card.weights
    return {
        "name": card.name,
        "task": card.task,
        "licence": card.licence,
        "commercial": card.commercial,
        "installed": weights is None or weights.path.is_file(),
        "size": 0 if weights is None else weights.size,
        "origin": card.origin,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = [("task", "name", "licence", "commercial use", "installed", "size", "origin")]
    for row in rows:
        commercial, installed = ("yes" if row[key] else "no" for key in ("commercial", "installed"))
        size = f"{row['size'] / 1e6:.1f} MB" if row["size"] else "none"
        table.append((row["task"], row["name"], row["licence"], commercial, installed, size, row["origin"]))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
