"""Turn logits into log-probabilities in float32, computing no more of them than needed."""

import math

import numpy as np

from seq2edge.errors import BundleError, NotANumberError
from seq2edge.search.types import Ids, Scores, StepOutput

NUMBERS_AT_ONCE = 1 << 17  # what stays in a CPU's cache between two passes


def log_softmax(logits: Scores, known: Scores | None = None) -> Scores:  # (R, V)
    peak, log_total = log_normalizer(logits, known)
    return (logits - peak) - log_total


def chosen_log_probabilities(logits: Scores, tokens: Ids) -> Scores:  # (R, V), (R,) -> (R,)
    """Return the log-softmax of one token in each row."""
    peak, log_total = log_normalizer(logits)
    if tokens.size and tokens.max() >= logits.shape[-1]:
        raise BundleError(f"the token id {tokens.max()} is outside the decoder's vocabulary of {logits.shape[-1]:,}")
    chosen = logits[np.arange(len(tokens)), tokens]
    return (chosen - peak[:, 0]) - log_total[:, 0]


def log_normalizer(logits: Scores, known: Scores | None = None) -> tuple[Scores, Scores]:  # (R, V) -> (R, 1) each
    """Return the largest logit, and the logarithm of the sum of ``exp(logit - largest)``.

    Subtract one after the other: their sum would lose digits. ``known`` (R,) is the second if the decoder computed it.
    """
    peak: Scores = np.maximum.reduce(logits, axis=-1, keepdims=True)  # (R, 1)
    return peak, log_normalizer_at(logits, peak, known)


def log_normalizer_at(logits: Scores, peak: Scores, known: Scores | None = None) -> Scores:  # (R, V), (R, 1) -> (R, 1)
    """Return the second part of the log-normalizer, where the largest logits are known already."""
    check_numbers(peak)
    return _sum_exponentials(logits, peak) if known is None else known[:, None]


def log_totals(output: StepOutput) -> Scores:  # (R, 1)
    """Return the logarithms of the sums of ``exp(logit - largest)``, after checking that all logits are numbers."""
    if output.log_normalizer is None:
        return log_normalizer(output.logits.reshape(-1, output.logits.shape[2]))[1]
    # The sum is NaN if any logit is NaN or infinite. Python adds faster than numpy, whose code the graph has displaced
    # from the CPU's cache: a third of the time for one row.
    if not sum(output.log_normalizer.tolist()) < math.inf:
        check_numbers(output.logits)
    return output.log_normalizer[:, None]


def check_numbers(scores: Scores) -> None:
    """Raise an error if any score is NaN or plus infinity."""
    if not np.maximum.reduce(scores, axis=None, initial=-np.inf) < np.inf:  # NaN if any is
        what = "NaN" if np.isnan(scores).any() else "infinity"
        raise NotANumberError(f"the decoder returned scores that are not numbers ({what}): try a higher precision")


def _sum_exponentials(logits: Scores, peak: Scores) -> Scores:  # (R, V), (R, 1) -> (R, 1)
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
