"""How good swaps are, as numbers with intervals: `mien eval` and `mien.evaluate.evaluate`.

    from mien.evaluate import evaluate

    report = evaluate("photos", people="people.csv", part="held-out", pairs=300)

Names are imported when they are first used, so that help of the command costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mien.evaluate.comparison import Difference, compare
    from mien.evaluate.options import EvalOptions
    from mien.evaluate.report import EvalReport, Row
    from mien.evaluate.run import evaluate
    from mien.evaluate.statistics import Estimate

__all__ = ["Difference", "Estimate", "EvalOptions", "EvalReport", "Row", "compare", "evaluate"]

_HOMES = {
    "Difference": "comparison",
    "compare": "comparison",
    "EvalOptions": "options",
    "EvalReport": "report",
    "Row": "report",
    "evaluate": "run",
    "Estimate": "statistics",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"mien.evaluate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'mien.evaluate' has no attribute {name!r}")
