"""The choice between one scale for all rows of a value and one for each."""

import numpy as np
import pytest

from seq2edge_graphs.quantize.calibration import MARGIN, MAX_ADDED_NOISE, RangeAccumulator, static_ranges

RANDOM = np.random.default_rng(0)


def recorded(*parts: np.ndarray) -> RangeAccumulator:
    rows = RangeAccumulator()
    for part in parts:
        rows.add(part.astype(np.float32))
    return rows


def rounding_noise(values: np.ndarray, step: np.ndarray | float) -> float:
    """Return the mean squared error of rounding rows to multiples of a step, relative to the mean square of each."""
    errors = np.square(np.round(values / step) * step - values).mean(axis=1)
    return float((errors / np.square(values).mean(axis=1)).mean())


@pytest.mark.parametrize("positive", [False, True])
def test_the_added_noise_is_that_of_rounding(positive: bool) -> None:
    values = RANDOM.normal(size=(400, 128)) * 2.0 ** RANDOM.uniform(-2, 2, size=(400, 1))
    values = np.abs(values) if positive else values
    steps, rows = 255 if positive else 127, np.abs(values).max(axis=1, keepdims=True)
    added = rounding_noise(values, rows.max() / steps) - rounding_noise(values, rows / steps)
    # The errors of 51,200 values vary little; that they are uniform holds as long as a step is smaller than the values.
    assert recorded(values[:100], values[100:]).added_noise == pytest.approx(added, rel=0.1)


def test_values_whose_rows_are_alike_get_one_scale_and_others_do_not() -> None:
    alike, uneven = RANDOM.normal(size=(50, 64)), RANDOM.normal(size=(50, 64))
    uneven[0] *= 1000
    shared = recorded(alike)
    ranges = static_ranges({"query": shared, "key": shared, "output": recorded(uneven)})
    assert ranges == dict.fromkeys(["query", "key"], pytest.approx(np.abs(alike).max() * MARGIN, rel=1e-6))


def test_all_together_add_little_noise() -> None:
    parts = {
        str(size): recorded(RANDOM.normal(size=(50, 64)) * np.linspace(1, size**2, 50)[:, None])
        for size in range(2, 40)
    }
    chosen = static_ranges(parts)
    assert 0 < len(chosen) < len(parts)
    assert sum(parts[name].added_noise for name in chosen) <= MAX_ADDED_NOISE


def test_a_value_that_is_always_zero_adds_no_noise() -> None:
    assert recorded(np.zeros((3, 4))).added_noise == 0
