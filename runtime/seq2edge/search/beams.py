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
    continued: Ids  # (B, K): which of the beams before each one continues, counted through all sentences

    @property
    def length(self) -> int:
        return int(self.tokens.shape[2])

    @property
    def made(self) -> int:
        """How many tokens were made after the prefix."""
        return int(self.token_scores.shape[2])

    def only(self, kept: Flags) -> "Beams":  # (B,)
        """Some of the sentences."""
        tokens, token_scores = self.tokens[kept], self.token_scores[kept]
        return Beams(self.sentences[kept], tokens, token_scores, self.scores[kept], self.continued[kept])

    def rows(self, rows_before: int) -> Ids:  # (B, K)
        """The row of the last call that each beam continues, where a sentence had so many rows: one a beam, or one."""
        beams = self.continued.shape[1]
        return self.continued if rows_before == beams else self.continued // beams

    def hypothesis(self, row: int, beam: int, score: float, eos: tuple[int, ...]) -> Hypothesis:
        tokens = self.tokens[row, beam, self.length - self.made :].tolist()
        return _hypothesis(tokens, self.token_scores[row, beam].tolist(), score, eos)


class Candidates(NamedTuple):
    """Continuations of beams by one token each, C for each sentence, best first."""

    before: Beams
    parents: Ids  # (B, C): which of the beams each one continues
    tokens: Ids  # (B, C)
    token_scores: Scores  # (B, C)
    scores: Scores  # (B, C)

    @property
    def length(self) -> int:
        return self.before.length + 1

    @property
    def made(self) -> int:
        return self.before.made + 1

    def first(self, count: int) -> Beams:
        """The best of each sentence, as beams."""
        some = slice(None), slice(count)
        return self._beams(self.parents[some], self.tokens[some], self.token_scores[some], self.scores[some])

    def picked(self, places: Ids, scores: Scores) -> Beams:  # (B, K) each
        """Some of each sentence, as beams with these scores."""
        some = np.arange(len(places))[:, None], places
        return self._beams(self.parents[some], self.tokens[some], self.token_scores[some], scores)

    def _beams(self, parents: Ids, tokens: Ids, token_scores: Scores, scores: Scores) -> Beams:  # (B, K) each
        before = self.before
        continued = np.arange(len(parents))[:, None] * before.scores.shape[1] + parents  # (B, K)
        return Beams(
            before.sentences,
            _append(before.tokens, continued, tokens),
            _append(before.token_scores, continued, token_scores),
            scores,
            continued,
        )

    def hypothesis(self, row: int, place: int, score: float, eos: tuple[int, ...]) -> Hypothesis:
        before, parent = self.before, self.parents[row, place]
        tokens = [*before.tokens[row, parent, before.length - before.made :].tolist(), int(self.tokens[row, place])]
        token_scores = [*before.token_scores[row, parent].tolist(), float(self.token_scores[row, place])]
        return _hypothesis(tokens, token_scores, score, eos)


def best_candidates(beams: Beams, tokens: Ids, token_scores: Scores, ranks: Scores, *, count: int) -> Candidates:
    """The best ``count`` continuations of each sentence by one of the tokens, (B, K or 1, C) each, by rank."""
    batch, rows, places = tokens.shape
    scores = token_scores + beams.scores[:, :, None]  # (B, K, C)
    ranked = scores if ranks is token_scores else ranks + beams.scores[:, :, None]
    order = (-ranked).reshape(batch, -1).argsort(axis=1, kind="stable")[:, :count]
    sentence, place = np.arange(batch)[:, None], order if rows > 1 else order % places  # in the rows there are
    found = sentence * (rows * places) + place  # (B, count): counted through all sentences
    return Candidates(
        before=beams,
        parents=order // places,
        tokens=tokens.take(found),
        token_scores=token_scores.take(found),
        scores=scores.reshape(batch, -1)[sentence, order],
    )


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
        continued=np.arange(len(prefixes) * num_beams, dtype=np.int64).reshape(shape),  # each itself
    )


def _append(rows: NDArray[T], continued: Ids, last: NDArray[T]) -> NDArray[T]:  # (B, K, T), (B, K), (B, K)
    """Rows that continue others by one."""
    batch, beams, length = rows.shape
    before = rows.reshape(batch * beams, length).take(continued, axis=0)
    return np.concatenate([before, last[:, :, None]], axis=2)


def _hypothesis(tokens: list[int], token_scores: list[float], score: float, eos: tuple[int, ...]) -> Hypothesis:
    return Hypothesis(tokens=tokens, score=score, token_scores=token_scores, ended=tokens[-1] in eos)
