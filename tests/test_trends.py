"""The statistics of long runs against published tables and made-up series."""

from __future__ import annotations

import random

import pytest

from benchmarks.trends import common_slope, poisson_upper, student_quantile, time_between_failures


@pytest.mark.parametrize(
    ("probability", "dof", "value"),
    [(0.975, 2, 4.3027), (0.975, 3, 3.1824), (0.975, 5, 2.5706), (0.975, 10, 2.2281), (0.95, 30, 1.6973)],
)
def test_student_quantile_is_the_tables(probability: float, dof: int, value: float) -> None:
    assert student_quantile(probability, dof) == pytest.approx(value, abs=0.005)


@pytest.mark.parametrize(
    ("failures", "chi_square"), [(0, 5.9915), (1, 9.4877), (2, 12.5916), (5, 21.0261), (20, 58.1240)]
)
def test_failures_bound_the_rate_by_half_a_chi_square_quantile(failures: int, chi_square: float) -> None:
    assert poisson_upper(failures) == pytest.approx(chi_square / 2, abs=1e-4)


def test_a_day_without_a_failure_shows_eight_hours() -> None:
    assert time_between_failures(24, 0) == pytest.approx(24 / 2.9957, abs=1e-3)


def test_slope_of_points_on_parallel_lines_is_exact() -> None:
    slope = common_slope([[(x, 5 + 2 * x) for x in range(6)], [(x, -40 + 2 * x) for x in range(3, 9)]])
    assert slope is not None
    assert (slope.value, slope.low, slope.high) == pytest.approx((2, 2, 2))


def test_interval_is_that_of_the_text_book() -> None:
    # Residuals −1, 1, 1, −1 about 1 + 2 x at x = 0..3: s² = 4 / 2, the error √(2 / 5), Student's quantile 4.3027.
    points = [(0.0, 0.0), (1.0, 4.0), (2.0, 6.0), (3.0, 6.0)]
    slope = common_slope([points])
    assert slope is not None
    assert slope.value == pytest.approx(2)
    assert slope.high - slope.value == pytest.approx(4.3027 * (2 / 5) ** 0.5, abs=0.01)
    assert slope.value - slope.low == pytest.approx(slope.high - slope.value)


def test_interval_is_wider_where_neighbours_are_alike() -> None:
    alternating = [(float(x), float((-1) ** x)) for x in range(40)]
    steps = [(float(x), float((-1) ** (x // 10))) for x in range(40)]
    narrow, wide = common_slope([alternating]), common_slope([steps])
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_interval_holds_the_slope_in_about_95_of_100_series() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(300):
        runs = [[(x / 10, base + 0.5 * x / 10 + rng.gauss(0, 1)) for x in range(30)] for base in (100, 130)]
        slope = common_slope(runs)
        assert slope is not None
        held += slope.low <= 0.5 <= slope.high
    assert 0.92 <= held / 300 <= 0.99


def test_too_few_points_give_no_slope() -> None:
    assert common_slope([]) is None
    assert common_slope([[(0, 1), (1, 2), (2, 3)]]) is None
    assert common_slope([[(1, 1), (1, 2), (1, 3), (1, 4)]]) is None
