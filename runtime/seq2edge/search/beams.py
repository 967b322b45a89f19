"""The partial outputs of a beam search as arrays; needs numpy."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2edge.search.hypothesis import UNREACHED, Hypothesis
from seq2edge.search.step import Flags, Ids, Scores

T = TypeVar("T", bound=np.generic)


class Beams(NamedTuple):
    """Partial outputs of B living sentences, K for each, best first; T tokens each, of which P are prefix."""

    sentences: Ids  # (B,)
    tokens: Ids  # (B, K, T)
    token_scores: Scores  # (B, K, T - P)
    scores: Scores  # (B, K)
    parents: Ids  # (B, K): which of the beams before each one continues

    @property
    def length(self) -> int:
        return int(self.tokens.shape[2])

    @property
    def made(self) -> int:
        """How many tokens were made after the prefix."""
        return int(self.token_scores.shape[2])

    def extended(self, tokens: Ids, token_scores: Scores, ranks: Scores, *, count: int) -> "Beams":
        """The best ``count`` continuations of each sentence by one of the tokens, (B, K or 1, C) each, by rank."""
        places = tokens.shape[2]
        ranks = ranks + self.scores[:, :, None]  # (B, K, C)
        order = np.argsort(-ranks.reshape(len(ranks), -1), axis=1, kind="stable")[:, :count]
        beams, place = np.divmod(order, places)  # (B, count) each
        sentence, row = np.arange(len(ranks))[:, None], beams % tokens.shape[1]
        added = token_scores[sentence, row, place]  # (B, count)
        return Beams(
            self.sentences,
            _append(self.tokens[sentence, beams], tokens[sentence, row, place]),
            _append(self.token_scores[sentence, beams], added),
            self.scores[sentence, beams] + added,
            beams,
        )

    def picked(self, places: Ids) -> "Beams":  # (B, K)
        """Some of the beams of each sentence."""
        at = np.arange(len(places))[:, None], places
        return Beams(self.sentences, self.tokens[at], self.token_scores[at], self.scores[at], self.parents[at])

    def only(self, kept: Flags) -> "Beams":  # (B,)
        """Some of the sentences."""
        if kept.all():
            return self
        tokens, token_scores = self.tokens[kept], self.token_scores[kept]
        return Beams(self.sentences[kept], tokens, token_scores, self.scores[kept], self.parents[kept])

    def rows(self, rows_before: int) -> Ids:  # (B, K)
        """The row of the last call that each beam continues, where that call had so many rows for each sentence."""
        return np.arange(len(self.parents))[:, None] * rows_before + self.parents % rows_before

    def hypothesis(self, row: int, beam: int, score: float, eos: tuple[int, ...]) -> Hypothesis:
        tokens = self.tokens[row, beam, self.length - self.made :].tolist()
        token_scores = self.token_scores[row, beam].tolist()
        return Hypothesis(tokens=tokens, score=score, token_scores=token_scores, ended=tokens[-1] in eos)


def first_beams(prefixes: Ids, num_beams: int) -> Beams:
    """Only the first beam of a sentence counts; the others are equal to it and would find the same."""
    shape = (len(prefixes), num_beams)
    scores = np.full(shape, UNREACHED, dtype=np.float32)
    scores[:, 0] = 0
    return Beams(
        sentences=np.arange(len(prefixes), dtype=np.int64),
        tokens=np.repeat(prefixes[:, None, :], num_beams, axis=1),
        token_scores=np.zeros((*shape, 0), dtype=np.float32),
        scores=scores,
        parents=np.zeros(shape, dtype=np.int64),
    )


def _append(rows: NDArray[T], last: NDArray[T]) -> NDArray[T]:  # (B, K, T), (B, K)
    return np.concatenate([rows, last[:, :, None]], axis=2)
