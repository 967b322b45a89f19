"""What each setting of the trainer may be; needs nothing."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Limit(NamedTuple):
    """A rule and how to say it."""

    text: str
    holds: Callable[[float], bool]


POSITIVE_COUNT = Limit("at least 1", lambda value: value >= 1)
COUNT = Limit("at least 0", lambda value: value >= 0)
POSITIVE = Limit("above 0", lambda value: value > 0)
SHARE = Limit("from 0 to below 1", lambda value: 0 <= value < 1)

LIMITS = {
    "vocabulary": Limit("at least 261: 256 bytes, 4 special ids and a character", lambda value: value >= 261),
    "character_coverage": Limit("above 0 and at most 1", lambda value: 0 < value <= 1),
    "width": POSITIVE_COUNT,
    "heads": POSITIVE_COUNT,
    "encoder_layers": POSITIVE_COUNT,
    "decoder_layers": POSITIVE_COUNT,
    "feed_forward": POSITIVE_COUNT,
    "max_positions": Limit("at least 2: a token and the end mark", lambda value: value >= 2),
    "batch_tokens": POSITIVE_COUNT,
    "accumulate": POSITIVE_COUNT,
    "learning_rate": POSITIVE,
    "warmup_steps": COUNT,
    "cooldown_steps": COUNT,
    "weight_decay": COUNT,
    "clip_norm": POSITIVE,
    "label_smoothing": SHARE,
    "dropout": SHARE,
    "max_steps": POSITIVE_COUNT,
    "evaluate_every": POSITIVE_COUNT,
    "save_every": POSITIVE_COUNT,
    "average": POSITIVE_COUNT,
    "patience": POSITIVE_COUNT,
    "seed": Limit("from 0 to 4294967295", lambda value: 0 <= value < 2**32),
    "threads": COUNT,
}


def problems_of(settings: "DataclassInstance") -> list[str]:
    """Everything in some settings that cannot work, as the command line names it."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return [_problem(name, value) for name, value in values.items() if not _allowed(name, value)]


def _allowed(name: str, value: Any) -> bool:
    return name not in LIMITS or (math.isfinite(value) and LIMITS[name].holds(value))


def _problem(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} is {value}, but must be {LIMITS[name].text}"
