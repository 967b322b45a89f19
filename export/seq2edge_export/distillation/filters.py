"""Find pairs of a teacher that are bad to learn from."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from seq2edge.config.schema import setting
from seq2edge.errors import UsageError

LENGTH_OFFSET = 8  # characters: short texts vary more in length
SHORT_COPY = 3  # words: names and numbers are the same in both languages


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """Limits beyond which a pair is dropped."""

    max_length_ratio: float = setting(2.2, "how much longer or shorter than usual a translation may be")
    min_score: float = setting(-1.5, "lowest mean log-probability of the tokens of a translation")

    def __post_init__(self) -> None:
        if not self.max_length_ratio > 1:
            raise UsageError(f"--max-length-ratio is {self.max_length_ratio}, but must be above 1")
        if not self.min_score < 0:
            raise UsageError(f"--min-score is {self.min_score}, but must be below 0")


class Label(NamedTuple):
    """A translation of the teacher, with what is needed to judge it."""

    source: str
    target: str
    score: float  # mean log-probability of a token
    ended: bool
    repeats: bool
    unknown: int  # characters of the source that the teacher's vocabulary lacks


def usual_ratio(labels: Iterable[Label]) -> float:
    """Return the median ratio of lengths: languages differ in how many characters they need."""
    ratios = [_ratio(label) for label in labels]
    return median(ratios) if ratios else 1.0


def problem_of(label: Label, settings: FilterSettings, *, usual: float) -> str:
    """Return the reason to drop a pair, or an empty string; ``usual`` is the ratio of lengths to compare with."""
    source, target = label.source, label.target
    checks = {
        "empty": not target.strip(),
        "cut at the length limit": not label.ended,
        "loop": label.repeats,
        "unknown characters": label.unknown > 0,
        "copy": source.casefold() == target.casefold() and len(source.split()) > SHORT_COPY,
        "length": not 1 / settings.max_length_ratio <= _ratio(label) / usual <= settings.max_length_ratio,
        "numbers": _numbers(source) != _numbers(target),
        "low score": label.score < settings.min_score,
    }
    return next((reason for reason, applies in checks.items() if applies), "")


def _ratio(label: Label) -> float:
    return (len(label.target) + LENGTH_OFFSET) / (len(label.source) + LENGTH_OFFSET)


def _numbers(text: str) -> Counter[str]:
    """Count the runs of digits; the separators between them may differ between languages, and so may their order."""
    return Counter(re.findall(r"\d+", text))
