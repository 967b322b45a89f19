"""Percentiles, ratios and noise of known times."""

import pytest

from seq2edge.bench.report import MIN_NOISE, latency_of, noise_of, ratio_of


def test_percentiles_of_a_hundred_times_are_where_they_should_be() -> None:
    found = latency_of([number / 1000 for number in range(101)])
    assert (found.best, found.p50, found.p95, found.p99) == pytest.approx((0, 50, 95, 99))


def test_percentiles_are_interpolated_between_the_nearest_times() -> None:
    assert latency_of([0.010, 0.020]).p50 == pytest.approx(15)


def test_one_time_is_every_percentile() -> None:
    found = latency_of([0.25])
    assert (found.best, found.p50, found.p95, found.p99) == pytest.approx((250, 250, 250, 250))


def test_a_ratio_is_that_of_the_best_rounds_with_the_spread_of_all() -> None:
    found = ratio_of(theirs=[2.0, 4.0, 3.0], ours=[1.0, 1.0, 2.0])
    assert (found.best, found.lowest, found.highest) == pytest.approx((2.0, 1.5, 4.0))


def test_noise_is_how_far_the_median_is_above_the_best() -> None:
    assert noise_of([1.0, 1.2, 1.5]) == pytest.approx(0.2)


def test_even_equal_rounds_have_a_little_noise() -> None:
    assert noise_of([1.0, 1.0, 1.0]) == MIN_NOISE
