"""Reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mien.evaluate.comparison import ALL, Difference
from mien.evaluate.measures import in_slices, measures_of
from mien.evaluate.report import BEHIND, EvalReport

_SENSE = {"higher": "↑", "lower": "↓"}
SHOWN = ("identity", "seam")
"""Sheets by name, in a report's order."""


def markdown(report: EvalReport, sheets: Sequence[str] = (), differences: Sequence[Difference] = ()) -> str:
    """The whole report.

    Args:
        sheets: names of the pictures beside it.
    """
    parts = [
        "# Evaluation",
        "\n".join(_settings(report)),
        "\n".join(_summary(report)),
        "\n".join(_slices(report)),
        "\n".join(_behind(report)),
    ]
    if differences:
        parts.append(f"## Against another report\n\n{comparison(differences)}")
    if sheets:
        parts.append("## Pictures\n\n" + "\n\n".join(f"![{name}]({name})" for name in sheets))
    if report.skipped:
        parts.append("## Left out\n\n" + "\n".join(f"- {text}" for text in report.skipped))
    return "\n\n".join(parts) + "\n"


def comparison(differences: Sequence[Difference]) -> str:
    """A table of all figures, and one of those slices that differ."""
    heading = "| figure | here | there | difference (95 %) | n | verdict |\n|---|---|---|---|---|---|"
    whole = [_difference(each, each.text) for each in differences if each.slice == ALL]
    parts = ["\n".join([heading, *whole])]
    apart = [each for each in differences if each.slice != ALL and each.verdict != "same"]
    if apart:
        parts.append("Slices that differ:\n\n" + "\n".join(
            [heading, *(_difference(each, f"{each.slice}: {each.text}") for each in apart)]
        ))  # fmt: skip
    return "\n\n".join(parts)


def lines(report: EvalReport) -> Iterator[str]:
    """The summary for a terminal."""
    for measure in measures_of(report.judges):
        if found := report.summary.get(measure.name):
            yield f"{measure.text}: {found.text}, n {found.count}"


def _settings(report: EvalReport) -> Iterator[str]:
    yield "| setting | value |"
    yield "|---|---|"
    for name, value in report.settings.items():
        yield f"| {name} | {value} |"
    yield f"| seconds | {report.seconds:.0f} |"


def _summary(report: EvalReport) -> Iterator[str]:
    yield "## Figures\n"
    yield "↑ higher is better, ↓ lower is better. 95 % intervals by a bootstrap over pairs, clustered by person.\n"
    yield "| figure | | mean | 95 % | n |"
    yield "|---|---|---|---|---|"
    for measure in measures_of(report.judges):
        if found := report.summary.get(measure.name):
            interval = f"{found.low:.3f} to {found.high:.3f}" if found.low == found.low else ""
            sense = _SENSE[measure.better]
            yield f"| {measure.text} | {sense} | {found.mean:.3f} | {interval} | {found.count} |"


def _slices(report: EvalReport) -> Iterator[str]:
    names = [name for name in in_slices(report.judges) if any(name in f for f in report.slices.values())]
    yield "## Slices\n"
    yield f"| slice | n | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for name, figures in report.slices.items():
        cells = [figures[each].text if each in figures else "" for each in names]
        count = max((each.count for each in figures.values()), default=0)
        yield f"| {name} | {count} | {' | '.join(cells)} |"


def _behind(report: EvalReport) -> Iterator[str]:
    yield f"## Worst slices\n\nFlagged where more than {BEHIND:g} % worse than the mean of all.\n"
    yield "| figure | slice | n | worse by | flagged | beyond its interval |"
    yield "|---|---|---|---|---|---|"
    for each in report.behind:
        flags = ("yes" if each.flagged else "no", "yes" if each.sure else "no")
        yield f"| {each.measure} | {each.slice} | {each.count} | {each.percent:.1f} % | {flags[0]} | {flags[1]} |"


def _difference(each: Difference, text: str) -> str:
    apart = each.difference
    interval = (
        f"{apart.mean:+.3f}" if apart.low != apart.low else f"{apart.mean:+.3f} ({apart.low:+.3f} to {apart.high:+.3f})"
    )
    return f"| {text} | {each.mean:.3f} | {each.other:.3f} | {interval} | {apart.count} | {each.verdict} |"
