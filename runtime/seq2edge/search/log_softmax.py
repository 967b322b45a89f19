"""Logits to log-probabilities in float32, no more of them than needed."""

from typing import cast

import numpy as np

from seq2edge.errors import BundleError, NotANumberError
from seq2edge.search.interface import Ids, Scores, Step, SummingStep

NUMBERS_AT_ONCE = 1 << 17  # what stays in the cache of a CPU between two passes


def log_softmax(logits: Scores, summing: SummingStep | None = None) -> Scores:  # (R, V)
    peak, log_total = log_normalizer(logits, summing)
    return (logits - peak) - log_total


def chosen_log_probabilities(logits: Scores, tokens: Ids) -> Scores:  # (R, V), (R,)
    """The log-softmax of one token in each row."""
    peak, log_total = log_normalizer(logits)
    if tokens.size and tokens.max() >= logits.shape[-1]:
        raise BundleError(f"the token {tokens.max()} is none of the {logits.shape[-1]:,} that the decoder knows")
    chosen = logits[np.arange(len(tokens)), tokens]
    return (chosen - peak[:, 0]) - log_total[:, 0]


def log_normalizer(
    logits: Scores, summing: SummingStep | None = None
) -> tuple[Scores, Scores]:  # (R, V) -> (R, 1) each
    """The two numbers to subtract from a logit, one after the other: their sum would lose digits.

    The step that has just given the logits may know one of them.
    """
    peak: Scores = np.maximum.reduce(logits, axis=-1, keepdims=True)  # (R, 1)
    return peak, log_normalizer_at(logits, peak, summing)


def log_normalizer_at(
    logits: Scores, peak: Scores, summing: SummingStep | None = None
) -> Scores:  # (R, V), (R, 1) -> (R, 1)
    """The second of them, where the greatest logits are known."""
    if not np.maximum.reduce(peak, axis=None, initial=-np.inf) < np.inf:  # NaN if any is
        what = "NaN" if np.isnan(peak).any() else "infinity"
        raise NotANumberError(f"the decoder gave scores that are not numbers ({what}): try a higher precision")
    return _log_totals(logits, peak) if summing is None else summing.log_totals[:, None]


def as_summing(step: Step) -> SummingStep | None:
    return cast(SummingStep, step) if hasattr(step, "log_totals") else None  # faster than to ask for the protocol


def _log_totals(logits: Scores, peak: Scores) -> Scores:  # (R, V), (R, 1) -> (R, 1)
    rows, size = logits.shape
    total = np.empty((rows, 1), np.float32)
    at_once = max(1, NUMBERS_AT_ONCE // size)
    work = np.empty((min(rows, at_once), size), np.float32)
    for first in range(0, rows, at_once):
        some = slice(first, min(first + at_once, rows))
        part = work[: some.stop - first]
        np.subtract(logits[some], peak[some], out=part)
        np.exp(part, out=part).sum(axis=-1, keepdims=True, out=total[some])
    return np.log(total, out=total)
