"""Two swappers on the same pairs: paired differences with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mien.errors import InputError
from mien.evaluate.measures import Better, Measure, in_slices, measures_of
from mien.evaluate.report import EvalReport, Row, columns_of, resampler_of, sliced
from mien.evaluate.statistics import Estimate, difference

ALL = "all"
"""Slice that stands for every row."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one report less that of another, over the swaps that both have."""

    measure: str
    text: str
    slice: str
    """`all`, or such as `target occlusion: some`."""
    mean: float
    other: float
    difference: Estimate
    """Its interval is of the paired difference: the same people are drawn for both."""
    verdict: Literal["better", "worse", "same"]
    """Better or worse where the interval leaves 0 out."""


def compare(report: EvalReport, other: EvalReport, *, slices: bool = True) -> tuple[Difference, ...]:
    """Differences of all figures that both reports have, over the swaps that both have.

    Args:
        slices: of each slice too.

    Raises:
        InputError: they share no swap.
    """
    theirs = {row.key: row for row in other.rows}
    rows = [row for row in report.rows if row.key in theirs]
    if not rows:
        raise InputError("the reports share no pair; make both of the same photos with the same seed")
    judges = [judge for judge in report.judges if judge in other.judges]
    seed = int(report.settings.get("seed", 0))
    measures = measures_of(judges)
    found = list(_differences(rows, theirs, measures, ALL, seed))
    if slices:
        names = set(in_slices(judges))
        some = [measure for measure in measures if measure.name in names]
        for name, members in sliced(rows).items():
            found += _differences(members, theirs, some, name, seed)
    return tuple(found)


def _differences(
    rows: Sequence[Row], theirs: dict[tuple[str, str, str], Row], measures: Sequence[Measure], name: str, seed: int
) -> Iterator[Difference]:
    kinds = {measure.kind for measure in measures}
    members = {kind: [row for row in rows if row.kind == kind] for kind in kinds}
    resamplers = {kind: resampler_of(own, seed) for kind, own in members.items() if own}
    for measure in measures:
        if measure.kind not in resamplers:
            continue
        own = columns_of(members[measure.kind], measure)
        other = columns_of([theirs[row.key] for row in members[measure.kind]], measure)
        used = np.asarray(np.isfinite(np.stack([*own, *other])).all(0), np.bool_)
        if not used.any():
            continue
        one, two = (
            measure.statistic([np.asarray(np.where(used, column, np.nan), np.float64) for column in columns])
            for columns in (own, other)
        )
        resampler = resamplers[measure.kind]
        apart = resampler.estimate(difference(one, two), used)
        if np.isfinite(apart.mean):
            whole = np.asarray(used, np.float64)[None]
            means = float(one(whole)[0]), float(two(whole)[0])
            yield Difference(measure.name, measure.text, name, *means, apart, _verdict(apart, measure.better))


def _verdict(apart: Estimate, better: Better) -> Literal["better", "worse", "same"]:
    if not apart.low > 0 and not apart.high < 0:
        return "same"
    return "better" if (apart.low > 0) == (better == "higher") else "worse"
