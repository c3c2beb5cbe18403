from __future__ import annotations

import numpy as np
import pytest

from mien.evaluate.statistics import Estimate, Resampler, auc, auc_of, difference, mean_of, ratio_of


def people(count: int) -> list[str]:
    return [f"p{i}" for i in range(count)]


def test_auc_by_hand() -> None:
    # Couples of (1, 2, 3) and (2, 4): 2 > 1, 2 = 2, 4 > 1, 4 > 2, 4 > 3; and 2 < 3.
    assert auc([1, 2, 3], [2, 4]) == pytest.approx(4.5 / 6)
    assert auc([0, 1], [5, 6]) == 1
    assert auc([5, 6], [0, 1]) == 0
    assert auc([1, 1], [1, 1]) == 0.5


def test_weighted_auc_is_that_of_repeated_rows() -> None:
    low, high = np.array([1.0, 4.0, 2.0]), np.array([3.0, 3.0, 2.0])
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
    found = auc_of(low, high)(weights)
    assert found[0] == pytest.approx(auc(low, high))
    assert found[1] == pytest.approx(auc(low[[0, 0, 2]], high[[0, 0, 2]]))


def test_rows_without_a_value_are_left_out() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert Resampler(people(3), people(3)[::-1]).mean(values).mean == 2
    assert Resampler(people(3), people(3)[::-1]).mean(values).count == 2
    half = ratio_of(np.array([1.0, 7.0, 2.0]), np.array([2.0, np.nan, 4.0]))
    assert half(np.ones((1, 3)))[0] == 0.5


def test_a_ratio_is_of_sums_not_of_rows() -> None:
    found = ratio_of(np.array([1.0, 9.0]), np.array([2.0, 3.0]))(np.ones((1, 2)))
    assert found[0] == pytest.approx(10 / 5)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(size=40)
    first, again, other = (Resampler(people(40), people(40), seed).mean(values) for seed in (3, 3, 4))
    assert first == again
    assert first.mean == other.mean
    assert (first.low, first.high) != (other.low, other.high)


def test_the_interval_is_that_of_the_normal_law_where_rows_are_independent() -> None:
    values = np.random.default_rng(0).normal(5, 2, 400)
    found = Resampler(people(400), people(400), draws=4000).mean(values)
    expected = 1.96 * values.std() / 20
    assert found.mean == pytest.approx(values.mean())
    assert found.high - found.mean == pytest.approx(expected, rel=0.08)
    assert found.mean - found.low == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(("by_source", "by_target", "noise"), [(1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (0.0, 0.0, 1.0)])
def test_intervals_hold_the_truth_as_often_as_they_say(by_source: float, by_target: float, noise: float) -> None:
    """30 sources × 30 targets, 120 pairs, each person with an effect of their own: 95 % of the intervals hold 0."""
    chance = np.random.default_rng(7)
    held, runs = 0, 200
    for run in range(runs):
        sources, targets = chance.permutation(np.repeat(np.arange(30), 4)), np.repeat(np.arange(30), 4)
        values = by_source * chance.normal(size=30)[sources] + by_target * chance.normal(size=30)[targets]
        values = values + noise * chance.normal(size=120)
        found = Resampler([str(s) for s in sources], [str(t) for t in targets], run, draws=300).mean(values)
        held += found.low <= 0 <= found.high
    assert 0.90 <= held / runs <= 0.99


def test_pairs_of_the_same_people_tell_less_than_pairs_of_others() -> None:
    chance = np.random.default_rng(2)
    effect = np.repeat(chance.normal(size=10), 20)
    few = Resampler([str(i) for i in np.repeat(np.arange(10), 20)], people(200)).mean(effect)
    many = Resampler(people(200), people(200)).mean(effect)
    assert few.high - few.low > 3 * (many.high - many.low)


def test_a_share_that_never_failed_still_has_an_interval() -> None:
    found = Resampler(people(20), people(20)).mean(np.ones(20))
    assert found.mean == found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 20))  # Clopper and Pearson, 20 of 20
    never = Resampler(people(20), people(20)).mean(np.zeros(20))
    assert never.low == 0
    assert never.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_the_interval_of_a_share_stays_within_it() -> None:
    rare = Resampler(people(8), people(8)).mean(np.array([0, 0, 0, 0, 0, 0, 0, 1.0]))
    assert rare.low == 0 < rare.mean < rare.high < 1


def test_one_person_alone_has_no_interval() -> None:
    found = Resampler(["a", "a", "a"], people(3)).mean(np.array([1.0, 2.0, 3.0]))
    assert found.mean == 2
    assert np.isnan(found.low) and np.isnan(found.high)
    assert found.text == "2.000"
    assert Estimate(0.5, 0.25, 0.75, 4).text == "0.500 (0.250 to 0.750)"


def test_a_paired_difference_is_narrower_than_its_parts() -> None:
    chance = np.random.default_rng(5)
    shared = chance.normal(size=100)
    one, other = shared + 0.1, shared + chance.normal(scale=0.05, size=100)
    resampler = Resampler(people(100), people(100))
    found = resampler.estimate(difference(mean_of(one), mean_of(other)), np.ones(100, np.bool_))
    assert found.mean == pytest.approx(one.mean() - other.mean())
    assert 0 < found.low < found.mean < found.high < 0.13
    assert resampler.mean(one).high - resampler.mean(one).low > 10 * (found.high - found.low)


def test_no_rows_give_no_figure() -> None:
    assert Resampler([], []).mean(np.zeros(0)).count == 0
    assert np.isnan(Resampler(people(2), people(2)).mean(np.full(2, np.nan)).mean)
