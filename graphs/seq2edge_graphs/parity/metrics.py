"""Metrics of how far the outputs of two models are apart: logits, hypotheses, BLEU and chrF."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2edge.config.parity import Quality
from seq2edge.search import Hypothesis, Scores
from seq2edge.text.tokenizer import Tokenizer

Pairs = list[tuple[Hypothesis, Hypothesis]]  # of the bundle and of the source model, for each sentence
Rows = NDArray[np.float64]

CLEAR_LEAD = 0.5  # nats: the most likely token is 1.65 times as likely as the second


@dataclass
class LogitDifference:
    """Accumulates the differences of the logits of a bundle from those of the source model."""

    largest: float = 0.0
    steps: int = 0
    same_top: int = 0
    clear: int = 0  # steps at which the source model's most likely token has a clear lead
    same_clear: int = 0
    divergence: float = 0.0

    def add(self, bundle: Scores, source: Scores) -> float:
        """Compare rows of logits (R, V), and return their largest difference: infinite if one is not finite."""
        self.steps += len(bundle)
        difference = float(np.abs(bundle - source).max())
        if not np.isfinite(difference):
            self.largest = self.divergence = np.inf
            return np.inf
        self.largest = max(self.largest, difference)
        same, clear = bundle.argmax(axis=1) == source.argmax(axis=1), _lead(source) > CLEAR_LEAD
        self.same_top += int(same.sum())
        self.clear += int(clear.sum())
        self.same_clear += int((same & clear).sum())
        self.divergence += float(_divergence(source, bundle).sum())
        return difference


def share_equal(pairs: Pairs) -> float:
    return sum(bundle.tokens == source.tokens for bundle, source in pairs) / len(pairs)


def score_difference(pairs: Pairs) -> float:
    """Return the largest difference of the scores of equal outputs."""
    equal = [(bundle, source) for bundle, source in pairs if bundle.tokens == source.tokens]
    return max((abs(bundle.score - source.score) for bundle, source in equal), default=0.0)


def corpus_quality(tokenizer: Tokenizer, pairs: Pairs, references: Sequence[str]) -> Quality:
    """Return BLEU and chrF of the source model and of the bundle."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bundle, source = (tokenizer.decode([one.tokens for one in side]) for side in zip(*pairs, strict=True))
    scores = [
        round(metric.corpus_score(list(texts), [list(references)]).score, 2)
        for metric in (BLEU(), CHRF())
        for texts in (source, bundle)
    ]
    return Quality(bleu_original=scores[0], bleu_bundle=scores[1], chrf_original=scores[2], chrf_bundle=scores[3])


def _lead(logits: Scores) -> Scores:
    """Return the difference of the best and the second-best logit of each row."""
    second, best = np.partition(logits, -2, axis=1)[:, -2:].T
    lead: Scores = best - second
    return lead


def _divergence(source: Scores, bundle: Scores) -> Rows:
    """Return the Kullback-Leibler divergence of the bundle's next-token distributions from the source model's."""
    log_source, log_bundle = _log_softmax(source), _log_softmax(bundle)
    rows: Rows = (np.exp(log_source) * (log_source - log_bundle)).sum(axis=1)
    return rows


def _log_softmax(logits: Scores) -> Rows:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    rows: Rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return rows
