"""Logits to log-probabilities in float32, no more of them than needed; needs numpy."""

import numpy as np

from seq2edge.errors import NotANumberError
from seq2edge.search.step import Ids, Scores


def log_softmax(logits: Scores) -> Scores:  # (..., V)
    peak, log_total = normaliser(logits)
    return (logits - peak) - log_total


def chosen_log_probabilities(logits: Scores, tokens: Ids) -> Scores:  # (R, V), (R,)
    """The log-softmax of one token in each row."""
    peak, log_total = normaliser(logits)
    chosen = np.take_along_axis(logits, tokens[:, None], axis=1)  # (R, 1)
    return ((chosen - peak) - log_total)[:, 0]


def normaliser(logits: Scores) -> tuple[Scores, Scores]:  # (..., V)
    """The two numbers to subtract from a logit, one after the other: their sum would lose digits."""
    peak = logits.max(axis=-1, keepdims=True)  # (..., 1)
    if np.isnan(peak).any():
        raise NotANumberError("the decoder gave scores that are not numbers (NaN): try a higher precision")
    log_total: Scores = np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
    return peak, log_total
