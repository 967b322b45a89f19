"""Hypotheses: finished outputs of the search, and the best few of each sentence."""

import math
from dataclasses import dataclass

import numpy as np

from seq2edge.search.types import Scores

UNREACHED = -1e9  # Hugging Face's score of a beam that does not exist; any real one is above it
STEEPEST = 60.0  # logarithm of the largest normalizer; UNREACHED divided by the smallest is still a float32


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """New tokens with their scores; the prefix is not part of it.

    Greedy search and sampling: ``token_scores`` are log-probabilities under the model itself, before any processor,
    and ``score`` is their sum. Beam search: ``token_scores`` are log-probabilities after the processors, as in
    ``compute_transition_scores`` of transformers, and ``score`` is their sum divided by length ** length_penalty,
    as in its ``sequences_scores``.
    """

    tokens: list[int]  # the end token included, if it came
    score: float
    token_scores: list[float]
    ended: bool  # by an end token, not by the length limit
    placeholder: bool = False  # stands for a beam that does not exist; Hugging Face returns these too


def length_normalizer(length: int, penalty: float) -> float:
    """Return length ** penalty, by which a beam's score is divided, limited to what float32 can hold."""
    exponent = penalty * math.log(length)
    return float(length**penalty) if abs(exponent) <= STEEPEST else math.exp(math.copysign(STEEPEST, exponent))


class BeamHypotheses:
    """The best finished hypotheses of one sentence, best first; of equal ones, the earlier first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.hypotheses: list[Hypothesis] = []

    def add(self, hypothesis: Hypothesis) -> None:
        self.hypotheses.append(hypothesis)
        self.hypotheses.sort(key=lambda one: -one.score)
        del self.hypotheses[self.size :]

    @property
    def worst(self) -> float:
        """The score to beat; until there are ``size`` hypotheses, any score does."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else UNREACHED


class BatchHypotheses(list[BeamHypotheses]):
    """The hypotheses of each sentence of a batch; ``worst`` holds their scores to beat as one array."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(BeamHypotheses(size) for _ in range(count))
        self.worst: Scores = np.full(count, UNREACHED, dtype=np.float32)  # (N,)

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        self[sentence].add(hypothesis)
        self.worst[sentence] = self[sentence].worst
