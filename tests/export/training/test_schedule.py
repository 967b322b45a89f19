import pytest

from seq2edge_export.training.config import TrainingSettings
from seq2edge_export.training.learner import learning_rate


def test_the_rate_rises_linearly_and_falls_with_the_inverse_square_root() -> None:
    settings = TrainingSettings(learning_rate=0.5, warmup_steps=100, max_steps=1000)
    expected = {1: 0.005, 50: 0.25, 100: 0.5, 400: 0.25, 900: 0.5 / 3}
    assert {step: learning_rate(step, settings) for step in expected} == pytest.approx(expected)


def test_without_warm_up_the_first_update_has_the_full_rate() -> None:
    assert learning_rate(1, TrainingSettings(learning_rate=0.5, warmup_steps=0)) == 0.5


def test_the_cool_down_lowers_the_rate_to_almost_zero() -> None:
    settings = TrainingSettings(learning_rate=1.0, warmup_steps=100, max_steps=900, cooldown_steps=9)
    hot = TrainingSettings(learning_rate=1.0, warmup_steps=100, max_steps=900)
    assert learning_rate(891, settings) == learning_rate(891, hot)
    assert learning_rate(900, settings) == pytest.approx(learning_rate(900, hot) / 10)
    assert all(learning_rate(step + 1, settings) < learning_rate(step, settings) for step in range(891, 900))
