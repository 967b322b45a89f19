"""Keep the best few partial outputs of each sentence at each step, as transformers does.

Shapes at line ends: B sentences still alive, K beams, C candidates, V the vocabulary, T tokens so far, R rows in all.

The partial outputs of a beam search as arrays.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import UNREACHED, BatchHypotheses, Hypothesis, length_normalizer
from seq2edge.search.interface import Flags, Hook, Ids, Scores, Step, SummingStep
from seq2edge.search.log_softmax import as_summing, log_normalizer, log_softmax
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, choice_of, is_end, one_is_forbidden
from seq2edge.search.sampling import GumbelNoise, noise_for
from seq2edge.search.top_k import top_k

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


def beam_search(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    parts: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> list[list[Hypothesis]]:
    """The best ``num_return_sequences`` hypotheses that ``num_beams`` beams find for each sentence."""
    pools = BatchHypotheses(len(prefixes), options.num_beams)
    for _ in beam_steps(step, prefixes, pools, options, numbers=numbers, parts=parts, hook=hook):
        pass
    return [pool.hypotheses[: options.num_return_sequences] for pool in pools]


def beam_steps(
    step: Step,
    prefixes: Ids,
    pools: BatchHypotheses,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    parts: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> Iterator[Beams]:
    """The same step by step: what ends goes into the pools, what goes on is given."""
    processors, summing = LogitsProcessors(options, prefixes.shape[1], hook, numbers), as_summing(step)
    noise = noise_for(options, len(prefixes), numbers, parts) if options.do_sample else None
    choice = None if noise else choice_of(step, processors)
    beams = first_beams(prefixes, options.num_beams)
    tokens, rows = prefixes[:, None, :], beams.sentences[:, None]  # (B, 1, T), (B, 1): all beams are equal
    count = _candidate_count(options)
    while len(beams.sentences):
        chosen = choice.best(tokens, rows, count, beams.length) if choice else None
        if chosen is not None:
            best = *chosen, chosen[1]  # (B, 1 or K, C) each
        else:
            best = _best_tokens(step(tokens, rows), summing, beams, processors, noise, count)  # (B, 1 or K, C) each
        candidates = best_candidates(beams, *best, count=count)  # (B, C)
        _check_possible(candidates, pools)
        ended = _ended(candidates, options)  # (B, C)
        if noise or ended.any():
            _store(pools, candidates, ended, options)
            running = _running(candidates, ended, options.num_beams)  # (B, K)
        else:
            running = candidates.first(options.num_beams)
        done = _done(running, ended, pools, options)  # (B,)
        rows, beams = running.rows(tokens.shape[1]), running  # (B, K)
        if done.any():
            _fill(pools, running, done, options)
            rows, beams = rows[~done], running.only(~done)
        tokens = beams.tokens[:, :, -1:]
        yield beams


def _candidate_count(options: GenerationOptions) -> int:
    """So many that ``num_beams`` of them go on even if every beam has a candidate for every end token."""
    return options.num_beams * max(2, 1 + len(options.eos_ids))


def _best_tokens(
    logits: Scores,
    summing: SummingStep | None,
    beams: Beams,
    processors: LogitsProcessors,
    noise: GumbelNoise | None,
    count: int,
) -> tuple[Ids, Scores, Scores]:  # (B, 1 or K, V) -> (B, 1 or K, C) each
    """The best next tokens of each row, their log-probabilities, and what to rank them by."""
    batch, rows, vocabulary = logits.shape
    flat, count = logits.reshape(-1, vocabulary), min(count, vocabulary)  # (R, V)
    shape = (batch, rows, count)
    if processors.only_forbid(beams.length) and not noise:
        peak, log_total = log_normalizer(flat, summing)  # before anything is forbidden
        tokens, best = top_k(_processed(flat, beams, processors), count)  # (R, C) each
        log_probabilities = ((best - peak) - log_total).reshape(shape)  # only of the best
        return tokens.reshape(shape), log_probabilities, log_probabilities
    scores = _processed(log_softmax(flat, summing), beams, processors)
    tokens, ranks = top_k(noise(scores, beams.sentences) if noise else scores, count)
    log_probabilities = np.take_along_axis(scores, tokens, axis=1).reshape(shape)
    return tokens.reshape(shape), log_probabilities, ranks.reshape(shape) if noise else log_probabilities


def _processed(scores: Scores, beams: Beams, processors: LogitsProcessors) -> Scores:  # (R, V)
    """The scores after all that applies to sequences of this length."""
    if not processors.needed(beams.length):
        return scores
    rows = len(scores) // len(beams.sentences)  # 1 or K
    so_far = beams.tokens[:, :rows].reshape(len(scores), -1)  # (R, T)
    return processors(beams.sentences.repeat(rows), so_far, scores)


def _check_possible(candidates: Candidates, pools: BatchHypotheses) -> None:
    """Refuse to make up an output where none has ended and none can go on; one beam alone may come to nothing."""
    best = candidates.scores[:, 0]  # (B,)
    if one_is_forbidden(best):
        check_allowed(best[[not pools[sentence].hypotheses for sentence in candidates.before.sentences]])


def _ended(candidates: Candidates, options: GenerationOptions) -> Flags:
    """Which candidates cannot go on: by an end token or by the length limit."""
    if candidates.length >= options.longest(candidates.length - candidates.made):
        return np.ones(candidates.tokens.shape, dtype=bool)
    return is_end(candidates.tokens, options.eos_ids)


def _store(pools: BatchHypotheses, candidates: Candidates, ended: Flags, options: GenerationOptions) -> None:
    """Put the ended ones among the first ``num_beams`` candidates into the pools, where they are good enough."""
    sentences, first = candidates.before.sentences, slice(options.num_beams)
    scores = candidates.scores[:, first] / length_normalizer(candidates.made, options.length_penalty)  # (B, K)
    good = ended[:, first] & (scores > pools.worst[sentences, None])
    for row, place in np.argwhere(good).tolist():
        hypothesis = candidates.hypothesis(row, place, float(scores[row, place]), options.eos_ids)
        pools.add(sentences[row], hypothesis)


def _running(candidates: Candidates, ended: Flags, num_beams: int) -> Beams:
    """The best ``num_beams`` candidates that go on; if they are too few, ended ones fill their places."""
    scores = np.where(ended, candidates.scores + np.float32(UNREACHED), candidates.scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :num_beams]  # (B, K)
    return candidates.picked(order, scores[np.arange(len(order))[:, None], order])


def _done(running: Beams, ended: Flags, pools: BatchHypotheses, options: GenerationOptions) -> Flags:
    """Which sentences can stop: nothing can go on, there is enough, or what runs cannot get good enough."""
    worst = pools.worst[running.sentences]  # (B,)
    done: Flags = ended.all(axis=1) | (_hope(running, options) <= worst)
    return done | (worst > UNREACHED) if options.early_stopping is True else done


def _hope(running: Beams, options: GenerationOptions) -> Scores:
    """The score that the best running beam may still reach, guessed in the way that ``early_stopping`` says."""
    length: int = running.made
    if options.early_stopping == "never" and options.length_penalty > 0:
        prefix = running.length - running.made
        length = options.longest(prefix) - prefix
    hope: Scores = running.scores[:, 0] / length_normalizer(length, options.length_penalty)
    return hope


def _fill(pools: BatchHypotheses, running: Beams, done: Flags, options: GenerationOptions) -> None:
    """Where the options forbid so much that too few outputs could end, take what was running."""
    for row in np.flatnonzero(done).tolist():
        sentence = running.sentences[row]
        for beam in range(options.num_return_sequences - len(pools[sentence].hypotheses)):
            pools.add(sentence, running.hypothesis(row, beam, float(running.scores[row, beam]), options.eos_ids))
