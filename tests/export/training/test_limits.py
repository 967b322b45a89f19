from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from seq2edge.errors import UsageError
from seq2edge_export.training.config import LIMITS, Job, ModelSettings, TokenizerSettings, TrainingSettings

INVALID: dict[str, Any] = {
    "vocabulary": 100,
    "character_coverage": 1.5,
    "width": 0,
    "heads": 0,
    "encoder_layers": 0,
    "decoder_layers": -1,
    "feed_forward": 0,
    "max_positions": 1,
    "batch_tokens": 0,
    "accumulate": 0,
    "learning_rate": 0.0,
    "warmup_steps": -1,
    "cooldown_steps": -1,
    "weight_decay": -0.1,
    "clip_norm": 0.0,
    "label_smoothing": 1.0,
    "dropout": 1.0,
    "scheduled_sampling": 1.0,
    "noise": 1.5,
    "max_steps": 0,
    "evaluate_every": 0,
    "save_every": 0,
    "average": 0,
    "patience": 0,
    "seed": -1,
    "threads": -1,
}


@pytest.mark.parametrize(("name", "value"), INVALID.items())
def test_an_invalid_setting_is_refused_by_name(
    name: str, value: float, tmp_path: Path, make_job: Callable[..., Job]
) -> None:
    with pytest.raises(UsageError, match=f"^--{name.replace('_', '-')} is {value}, but must be [^;]*$"):
        make_job(tmp_path, **{name: value})


def test_every_numeric_setting_has_a_limit_and_an_invalid_example() -> None:
    numbers = [
        field.name
        for cls in (TokenizerSettings, ModelSettings, TrainingSettings)
        for field in fields(cls)
        if type(field.default) in (int, float)
    ]
    assert sorted(numbers) == sorted(LIMITS) == sorted(INVALID)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(value: float, tmp_path: Path, make_job: Callable[..., Job]) -> None:
    with pytest.raises(UsageError, match="--learning-rate is"):
        make_job(tmp_path, learning_rate=value)


def test_all_invalid_settings_are_named_at_once(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    with pytest.raises(UsageError, match=r"--vocabulary is 1.*; --heads is 0.*; --dropout is 2"):
        make_job(tmp_path, vocabulary=1, heads=0, dropout=2)


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    with pytest.raises(UsageError, match="width 16 is not divisible by 3 heads"):
        make_job(tmp_path, heads=3)
