"""The result of an evaluation: rows of single swaps, and figures with intervals made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from mien.errors import InputError, MediaError
from mien.evaluate.measures import Kind, Measure, in_slices, measures_of
from mien.evaluate.statistics import DoubleArray, Estimate, Resampler

SCHEMA = "mien.eval/1"
"""Changes when a reader of older files would misread a new one."""
BEHIND = 5.0
"""Percent by which a slice may be worse than the mean before it is told."""
FEWEST = 10
"""Rows that a slice needs to be compared with the mean."""


@dataclass(frozen=True, slots=True)
class Row:
    """One swap that was judged."""

    kind: Kind
    """`swap`: two people; `same`: two photos of one; `cycle`: to another and back; `clip`: a clip;
    `landmarks`: no swap, but a photo with hand-placed points."""
    source: str
    """Photo, relative to the data."""
    target: str
    source_person: str
    target_person: str
    slices: Mapping[str, str]
    values: Mapping[str, float]
    """Column → value; what could not be measured is missing."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same swap in another report."""
        return self.kind, self.source, self.target


@dataclass(frozen=True, slots=True)
class Behind:
    """A slice that is worse than the mean of all."""

    measure: str
    slice: str
    """Such as `target skin_tone: dark`."""
    percent: float
    """How much worse; negative where every slice is better."""
    flagged: bool
    """More than `BEHIND` percent, on identity or seam."""
    sure: bool
    """Its interval does not reach the mean of all."""
    count: int


@dataclass(frozen=True, slots=True)
class EvalReport:
    """What `evaluate` gives; `to_dict` is the stable schema `mien.eval/1`."""

    settings: Mapping[str, Any]
    """Options that differ from their defaults, and how many people took part."""
    judges: tuple[str, ...]
    """Embedders by name; the one that ships first."""
    rows: tuple[Row, ...]
    summary: Mapping[str, Estimate]
    """Measure → figure, over all rows of its kind; those that nothing was measured of are missing."""
    slices: Mapping[str, Mapping[str, Estimate]]
    """`target sex: female` → measure → figure."""
    behind: tuple[Behind, ...]
    """The worst slice of each identity and of the seam."""
    skipped: tuple[str, ...]
    """What could not be swapped, and why."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; what is not known is null."""
        return {
            "schema": SCHEMA,
            "settings": dict(self.settings),
            "judges": list(self.judges),
            "summary": {name: _told(value) for name, value in self.summary.items()},
            "slices": {
                name: {measure: _told(value) for measure, value in figures.items()}
                for name, figures in self.slices.items()
            },
            "behind": [asdict(each) for each in self.behind],
            "skipped": list(self.skipped),
            "rows": [asdict(row) for row in self.rows],
            "seconds": self.seconds,
        }

    @classmethod
    def load(cls, path: Path) -> EvalReport:
        """Read a `report.json`; its figures are made anew from its rows.

        Raises:
            MediaError: it cannot be read. InputError: it is none, or one of another version.
        """
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise MediaError(
                f"{path}: cannot be read ({error.strerror}); pass the report.json of `mien eval`"
            ) from error
        except ValueError as error:
            raise InputError(f"{path}: is no JSON; pass the report.json of `mien eval`") from error
        schema = told.get("schema") if isinstance(told, dict) else None
        if schema != SCHEMA:
            raise InputError(f"{path}: has the schema {schema!r}, not {SCHEMA!r}; make the report again")
        try:
            rows = tuple(_row(row) for row in told["rows"])
            settings, judges, skipped = told["settings"], tuple(map(str, told["judges"])), tuple(told["skipped"])
            return summarise(rows, judges, dict(settings), skipped, float(told["seconds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: is a damaged report ({error}); make it again") from error


def summarise(
    rows: Sequence[Row],
    judges: Sequence[str],
    settings: Mapping[str, Any],
    skipped: Iterable[str] = (),
    seconds: float = 0.0,
) -> EvalReport:
    """The figures of rows, over all and by slice."""
    seed = int(settings.get("seed", 0))
    summary = figures(rows, measures_of(judges), seed)
    slices = {}
    names = set(in_slices(judges))
    chosen = [measure for measure in measures_of(judges) if measure.name in names]
    for name, members in sliced(rows).items():
        slices[name] = figures(members, chosen, seed)
    return EvalReport(
        settings=dict(settings),
        judges=tuple(judges),
        rows=tuple(rows),
        summary=summary,
        slices=slices,
        behind=tuple(_behind(summary, slices, judges)),
        skipped=tuple(skipped),
        seconds=seconds,
    )


def figures(rows: Sequence[Row], measures: Sequence[Measure], seed: int) -> dict[str, Estimate]:
    """Measure → figure, of those that the rows tell something of."""
    found = {}
    for kind in get_args(Kind):
        members = [row for row in rows if row.kind == kind]
        resampler = resampler_of(members, seed) if members else None
        for measure in (m for m in measures if m.kind == kind):
            if resampler is None:
                continue
            estimate = measure.estimate(resampler, columns_of(members, measure))
            if estimate.count and np.isfinite(estimate.mean):
                found[measure.name] = estimate
    return {measure.name: found[measure.name] for measure in measures if measure.name in found}


def sliced(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """`slice: value` → rows, by name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        for name, value in row.slices.items():
            found.setdefault(f"{name}: {value}", []).append(row)
    return dict(sorted(found.items()))


def resampler_of(rows: Sequence[Row], seed: int) -> Resampler:
    """For intervals over rows of one kind."""
    return Resampler([row.source_person for row in rows], [row.target_person for row in rows], seed)


def columns_of(rows: Sequence[Row], measure: Measure) -> list[DoubleArray]:
    """(n,) values of each column that a measure is made of; NaN where a row lacks it."""
    return [np.array([row.values.get(column, float("nan")) for row in rows], np.float64) for column in measure.columns]


def _behind(
    summary: Mapping[str, Estimate], slices: Mapping[str, Mapping[str, Estimate]], judges: Sequence[str]
) -> Iterable[Behind]:
    for measure in measures_of(judges):
        if measure.kind != "swap" or not measure.name.startswith(("identity.", "seam")) or measure.name not in summary:
            continue
        mean = summary[measure.name].mean
        sign = 1 if measure.better == "lower" else -1
        candidates = []
        for name, figures_there in slices.items():
            own = figures_there.get(measure.name)
            if own is None or own.count < FEWEST or mean == 0:
                continue
            percent = 100 * sign * (own.mean - mean) / abs(mean)
            sure = own.low > mean if sign > 0 else own.high < mean
            candidates.append(Behind(measure.name, name, round(percent, 2), percent > BEHIND, bool(sure), own.count))
        candidates.sort(key=lambda each: -each.percent)
        yield from candidates[:1]
        yield from (each for each in candidates[1:] if each.flagged)


def _told(estimate: Estimate) -> dict[str, float | int | None]:
    return {name: None if isinstance(v, float) and np.isnan(v) else v for name, v in asdict(estimate).items()}


def _row(told: Mapping[str, Any]) -> Row:
    if told["kind"] not in get_args(Kind):
        raise ValueError(f"a row of kind {told['kind']!r}")
    values = {str(name): float(value) for name, value in told["values"].items()}
    slices = {str(name): str(value) for name, value in told["slices"].items()}
    source, target, own, other = (str(told[name]) for name in ("source", "target", "source_person", "target_person"))
    return Row(told["kind"], source, target, own, other, slices, values)
