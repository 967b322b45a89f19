"""How far the logits of two engines are apart; needs numpy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2edge.search import Scores

Rows = NDArray[np.float64]

CLEAR_LEAD = 0.5  # nats: the likeliest token is 1.65 times as likely as the second


@dataclass
class LogitDifference:
    """Adds up how far two engines are apart."""

    largest: float = 0.0
    steps: int = 0
    same_top: int = 0
    clear: int = 0  # steps where the original's likeliest token is clearly so
    same_clear: int = 0
    divergence: float = 0.0

    def add(self, ours: Scores, theirs: Scores) -> float:
        """Compare some rows of logits (R, V); give their largest difference, infinite where one is not a number."""
        self.steps += len(ours)
        difference = float(np.abs(ours - theirs).max())
        if not np.isfinite(difference):
            self.largest = self.divergence = np.inf
            return np.inf
        self.largest = max(self.largest, difference)
        same, clear = ours.argmax(axis=1) == theirs.argmax(axis=1), _lead(theirs) > CLEAR_LEAD
        self.same_top += int(same.sum())
        self.clear += int(clear.sum())
        self.same_clear += int((same & clear).sum())
        self.divergence += float(_divergence(theirs, ours).sum())
        return difference


def _lead(logits: Scores) -> Scores:
    """How far the best logit of each row is before the second."""
    second, best = np.partition(logits, -2, axis=1)[:, -2:].T
    lead: Scores = best - second
    return lead


def _divergence(theirs: Scores, ours: Scores) -> Rows:
    """Kullback-Leibler divergence of our next-token distribution from theirs, in double precision."""
    original, copy = _log_softmax(theirs), _log_softmax(ours)
    rows: Rows = (np.exp(original) * (original - copy)).sum(axis=1)
    return rows


def _log_softmax(logits: Scores) -> Rows:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    rows: Rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return rows
