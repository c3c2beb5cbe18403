"""Means with 95 % intervals over pairs of people, and the area under the ROC curve.

Pairs are not independent: one person is the source of several and the target of others. The bootstrap over pairs
(Efron, 1979) is therefore widened to the two-way clustered variance of Cameron, Gelbach and Miller, "Robust inference
with multiway clustering", 2011: variance by source people + by target people − by pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DoubleArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Statistic = Callable[[DoubleArray], DoubleArray]
"""(B, n) weights of n rows → (B,) values; NaN where the weights leave nothing to measure."""

DRAWS = 1000
LOW, HIGH = 2.5, 97.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval."""

    mean: float
    low: float
    """NaN where one person alone was measured."""
    high: float
    count: int
    """Rows that it is of."""

    @property
    def text(self) -> str:
        """The value and its interval, to three figures after the point."""
        if np.isnan(self.low):
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


class Resampler:
    """Intervals of statistics over rows that belong to a source and a target person each.

    Two resamplers of the same people and seed draw the same weights, so differences are paired.

    Args:
        sources, targets: (n,) names of people; the same list twice where a row is of one person.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str], seed: int = 0, draws: int = DRAWS) -> None:
        self.count = len(sources)
        pairs = [f"{source}\n{target}" for source, target in zip(sources, targets, strict=True)]
        chance = np.random.default_rng(seed)
        self._clusters = [_numbered(names) for names in (pairs, sources, targets)]
        self._weights = [_draw(numbers, draws, chance) for numbers in self._clusters]

    def estimate(self, statistic: Statistic, used: BoolArray) -> Estimate:
        """A statistic and its interval.

        Args:
            used: (n,) rows that it depends on.
        """
        count = int(used.sum())
        if count == 0:
            return Estimate(float("nan"), float("nan"), float("nan"), 0)
        point = float(statistic(used.astype(np.float64)[None])[0])
        sizes = [len(np.unique(numbers[used])) for numbers in self._clusters]
        if min(sizes) < 2:
            return Estimate(point, float("nan"), float("nan"), count)
        spread, by_pair = [], np.zeros(0)
        for weights, size in zip(self._weights, sizes, strict=True):
            values = statistic(weights * used)
            values = values[np.isfinite(values)]
            spread.append(float(values.std()) * np.sqrt(size / (size - 1)) if len(values) else 0.0)
            by_pair = by_pair if len(by_pair) else values
        pair, source, target = spread
        wanted = np.sqrt(max(source**2 + target**2 - pair**2, source**2, target**2, pair**2))
        factor = wanted / max(float(by_pair.std()), 1e-12) if pair > 0 else 0.0
        low, high = np.percentile(by_pair, (LOW, HIGH))
        return Estimate(point, float(point + factor * (low - point)), float(point + factor * (high - point)), count)

    def mean(self, values: DoubleArray, used: BoolArray | None = None) -> Estimate:
        """Mean of (n,) values; those that are NaN are left out.

        A share stays within 0 and 1. Where all are 0, or all are 1, the interval is that of a binomial share (Clopper
        and Pearson, 1934) over as many trials as there are people, since no resampling shows what was never seen.
        """
        chosen = _finite(values) if used is None else _finite(values) & used
        found = self.estimate(mean_of(values), chosen)
        seen = set(values[chosen].tolist())
        if seen == {0.0, 1.0}:
            return Estimate(found.mean, max(found.low, 0.0), min(found.high, 1.0), found.count)
        if seen in ({0.0}, {1.0}) and not np.isnan(found.low):
            people = min(len(np.unique(numbers[chosen])) for numbers in self._clusters)
            reach = 1 - 0.025 ** (1 / people)
            low, high = (0.0, reach) if seen == {0.0} else (1 - reach, 1.0)
            return Estimate(found.mean, low, high, found.count)
        return found


def mean_of(values: DoubleArray) -> Statistic:
    """The mean of (n,) values, NaN left out."""
    return ratio_of(values, np.where(np.isfinite(values), 1.0, np.nan))


def ratio_of(above: DoubleArray, below: DoubleArray) -> Statistic:
    """The sum of one column over that of another; rows where either is NaN are left out."""
    known = _finite(above) & _finite(below)
    a, b = np.where(known, above, 0.0), np.where(known, below, 0.0)

    def statistic(weights: DoubleArray) -> DoubleArray:
        total = weights @ b
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((weights @ a) / total, np.float64)

    return statistic


def auc_of(low: DoubleArray, high: DoubleArray) -> Statistic:
    """The share of (low, high) couples over all rows in which `high` is the larger; ties count half.

    Mann and Whitney, 1947. 0.5: the two columns cannot be told apart.
    """
    known = _finite(low) & _finite(high)
    a, b = np.where(known, low, 0.0), np.where(known, high, 0.0)
    wins = (b[:, None] > a[None]).astype(np.float64) + 0.5 * (b[:, None] == a[None])

    def statistic(weights: DoubleArray) -> DoubleArray:
        own = weights * known
        total = own.sum(1) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((own @ wins) * own).sum(1) / total, np.float64)

    return statistic


def auc(low: npt.ArrayLike, high: npt.ArrayLike) -> float:
    """The share of couples of one value of each in which that of `high` is the larger; ties count half."""
    a, b = np.asarray(low, np.float64), np.asarray(high, np.float64)
    return float(((b[:, None] > a[None]) + 0.5 * (b[:, None] == a[None])).mean())


def difference(one: Statistic, other: Statistic) -> Statistic:
    """The first less the second, of the same draws."""
    return lambda weights: one(weights) - other(weights)


def _finite(values: DoubleArray) -> BoolArray:
    return np.asarray(np.isfinite(values), np.bool_)


def _numbered(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Number of each name's group."""
    return np.asarray(np.unique(np.asarray(names, np.str_), return_inverse=True)[1].ravel(), np.int64)


def _draw(numbers: npt.NDArray[np.int64], draws: int, chance: np.random.Generator) -> DoubleArray:
    """(draws, n) how often each row was drawn, groups being drawn whole."""
    groups = int(numbers.max()) + 1 if len(numbers) else 0
    if groups == 0:
        return np.zeros((draws, 0))
    counts = chance.multinomial(groups, np.full(groups, 1 / groups), size=draws)
    return np.asarray(counts[:, numbers], np.float64)
