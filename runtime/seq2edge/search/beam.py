"""Beam search: keep the best few partial outputs of each sentence at each step, as transformers does.

Shapes at line ends: B unfinished sentences, K beams, C candidates, V the vocabulary size, T tokens so far, R rows.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import UNREACHED, BatchHypotheses, Hypothesis, length_normalizer
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import log_normalizer, log_softmax
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, is_end, one_is_forbidden
from seq2edge.search.sampling import GumbelNoise, generators_for
from seq2edge.search.top_k import top_k
from seq2edge.search.types import BatchContext, Flags, Ids, Scores, StepOutput

T = TypeVar("T", bound=np.generic)


class Beams(NamedTuple):
    """Partial outputs of B unfinished sentences, K for each, best first; T tokens each, of which P are prefix."""

    sentences: Ids  # (B,)
    tokens: Ids  # (B, K, T)
    token_scores: Scores  # (B, K, T - P)
    scores: Scores  # (B, K)
    continued: Ids  # (B, K): the previous beam that each one continues, counted through all sentences

    @property
    def length(self) -> int:
        return int(self.tokens.shape[2])

    @property
    def generated(self) -> int:
        """The number of tokens after the prefix."""
        return int(self.token_scores.shape[2])

    def only(self, kept: Flags) -> "Beams":  # (B,)
        """Keep some of the sentences."""
        tokens, token_scores = self.tokens[kept], self.token_scores[kept]
        return Beams(self.sentences[kept], tokens, token_scores, self.scores[kept], self.continued[kept])

    def rows(self, rows_before: int) -> Ids:  # (B, K)
        """Return the decoder row that each beam continues; a sentence had one row per beam, or one for all."""
        beams = self.continued.shape[1]
        return self.continued if rows_before == beams else self.continued // beams

    def hypothesis(self, row: int, beam: int, score: float, eos: tuple[int, ...]) -> Hypothesis:
        tokens = self.tokens[row, beam, self.length - self.generated :].tolist()
        return _hypothesis(tokens, self.token_scores[row, beam].tolist(), score, eos, self.scores[row, beam])


class Candidates(NamedTuple):
    """Continuations of beams by one token each, C for each sentence, best first."""

    before: Beams
    parents: Ids  # (B, C): the beam that each one continues
    tokens: Ids  # (B, C)
    token_scores: Scores  # (B, C)
    scores: Scores  # (B, C)

    @property
    def length(self) -> int:
        return self.before.length + 1

    @property
    def generated(self) -> int:
        return self.before.generated + 1

    def first(self, count: int) -> Beams:
        """Return the best candidates of each sentence as beams."""
        some = slice(None), slice(count)
        return self._beams(self.parents[some], self.tokens[some], self.token_scores[some], self.scores[some])

    def picked(self, columns: Ids, scores: Scores) -> Beams:  # (B, K) each
        """Return some candidates of each sentence as beams with these scores."""
        some = np.arange(len(columns))[:, None], columns
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

    def hypothesis(self, row: int, column: int, score: float, eos: tuple[int, ...]) -> Hypothesis:
        before, parent = self.before, self.parents[row, column]
        generated = before.tokens[row, parent, before.length - before.generated :].tolist()
        tokens = [*generated, int(self.tokens[row, column])]
        token_scores = [*before.token_scores[row, parent].tolist(), float(self.token_scores[row, column])]
        return _hypothesis(tokens, token_scores, score, eos, self.scores[row, column])


class SearchStep(NamedTuple):
    """What one step of a beam search has decided."""

    candidates: Candidates
    ended: Flags  # (B, C)
    running: Beams


def best_candidates(beams: Beams, tokens: Ids, token_scores: Scores, ranks: Scores, *, count: int) -> Candidates:
    """Return the ``count`` continuations of each sentence with the highest ranks; arrays are (B, K or 1, C)."""
    batch, rows, columns = tokens.shape
    scores = token_scores + beams.scores[:, :, None]  # (B, K, C)
    ranked = scores if ranks is token_scores else ranks + beams.scores[:, :, None]
    order = (-ranked).reshape(batch, -1).argsort(axis=1, kind="stable")[:, :count]
    sentence, column = np.arange(batch)[:, None], order if rows > 1 else order % columns  # in the rows there are
    found = sentence * (rows * columns) + column  # (B, count): counted through all sentences
    return Candidates(
        before=beams,
        parents=order // columns,
        tokens=tokens.take(found),
        token_scores=token_scores.take(found),
        scores=scores.reshape(batch, -1)[sentence, order],
    )


def first_beams(prefixes: Ids, num_beams: int) -> Beams:
    """Start all beams of a sentence from its prefix; only the first one counts, as they would all find the same."""
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
    """Append one value to the rows that are continued."""
    batch, beams, length = rows.shape
    before = rows.reshape(batch * beams, length).take(continued, axis=0)
    return np.concatenate([before, last[:, :, None]], axis=2)


def _hypothesis(
    tokens: list[int], token_scores: list[float], score: float, eos: tuple[int, ...], beam_score: float
) -> Hypothesis:
    ended, placeholder = tokens[-1] in eos, bool(beam_score < UNREACHED / 2)
    return Hypothesis(tokens=tokens, score=score, token_scores=token_scores, ended=ended, placeholder=placeholder)


def beam_search(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> list[list[Hypothesis]]:
    """Return the best ``num_return_sequences`` hypotheses that ``num_beams`` beams find for each sentence."""
    finished = BatchHypotheses(len(prefixes), options.num_beams)
    for _ in beam_steps(state, prefixes, finished, options, context):
        pass
    return [hypotheses.hypotheses[: options.num_return_sequences] for hypotheses in finished]


def beam_steps(
    state: DecoderState,
    prefixes: Ids,
    finished: BatchHypotheses,
    options: GenerationOptions,
    context: BatchContext,
    observe: Callable[[SearchStep], None] | None = None,
) -> Iterator[Beams]:
    """Add what has ended to the finished hypotheses, and yield the beams that go on after each step."""
    processors = LogitsProcessors(options, prefixes.shape[1], context)
    noise = GumbelNoise(generators_for(options.seed, len(prefixes), context)) if options.do_sample else None
    beams = first_beams(prefixes, options.num_beams)
    tokens, rows = prefixes[:, None, :], beams.sentences[:, None]  # (B, 1, T), (B, 1): all beams are equal
    count = candidate_count(options)
    while len(beams.sentences):
        best = processors.top_k(state, tokens, rows, count, beams.length) if noise is None else None
        if best is not None:
            ranked = *best, best.log_probabilities  # (B, 1 or K, C) each
        else:
            ranked = _rank_tokens(state.step(tokens, rows), beams, processors, noise, count)
        candidates = best_candidates(beams, *ranked, count=count)  # (B, C)
        _check_possible(candidates, finished)
        ended = _ended(candidates, options)  # (B, C)
        if noise or ended.any():
            _store(finished, candidates, ended, options)
            running = _running(candidates, ended, options.num_beams)  # (B, K)
        else:
            running = candidates.first(options.num_beams)
        if observe is not None:
            observe(SearchStep(candidates, ended, running))
        done = _done(running, ended, finished, options)  # (B,)
        rows, beams = running.rows(tokens.shape[1]), running  # (B, K)
        if done.any():
            _fill(finished, running, done, options)
            rows, beams = rows[~done], running.only(~done)
        tokens = beams.tokens[:, :, -1:]
        yield beams


def candidate_count(options: GenerationOptions) -> int:
    """Return enough that ``num_beams`` candidates go on even if every beam has one for every end token."""
    return options.num_beams * max(2, 1 + len(options.eos_ids))


def candidates_size(options: GenerationOptions, vocabulary: int) -> int:
    """Return the bytes that ``best_candidates`` holds at once for a sentence: tokens, scores, ranks and their order."""
    if options.num_beams == 1:
        return 0
    return options.num_beams * min(candidate_count(options), vocabulary) * (8 + 4 + 4 + 4 + 8)


def _rank_tokens(
    output: StepOutput, beams: Beams, processors: LogitsProcessors, noise: GumbelNoise | None, count: int
) -> tuple[Ids, Scores, Scores]:  # (B, 1 or K, C) each
    """Return the best next tokens of each row, their log-probabilities, and what to rank them by."""
    batch, rows, vocabulary = output.logits.shape
    flat, count = output.logits.reshape(-1, vocabulary), min(count, vocabulary)  # (R, V)
    shape = (batch, rows, count)
    if processors.only_forbid(beams.length) and not noise:
        peak, log_total = log_normalizer(flat, output.log_normalizer)  # before anything is forbidden
        tokens, best = top_k(_process(flat, beams, processors), count)  # (R, C) each
        log_probabilities = ((best - peak) - log_total).reshape(shape)  # only of the best
        return tokens.reshape(shape), log_probabilities, log_probabilities
    scores = _process(log_softmax(flat, output.log_normalizer), beams, processors)
    tokens, ranks = top_k(noise(scores, beams.sentences) if noise else scores, count)
    log_probabilities = np.take_along_axis(scores, tokens, axis=1).reshape(shape)
    return tokens.reshape(shape), log_probabilities, ranks.reshape(shape) if noise else log_probabilities


def _process(scores: Scores, beams: Beams, processors: LogitsProcessors) -> Scores:  # (R, V)
    """Apply the logits processors, if any applies at this length."""
    if not processors.needed(beams.length):
        return scores
    rows = len(scores) // len(beams.sentences)  # 1 or K
    so_far = beams.tokens[:, :rows].reshape(len(scores), -1)  # (R, T)
    return processors(beams.sentences.repeat(rows), so_far, scores)


def _check_possible(candidates: Candidates, finished: BatchHypotheses) -> None:
    """Raise an error if a sentence has no finished hypothesis and no beam that can go on."""
    best = candidates.scores[:, 0]  # (B,)
    if one_is_forbidden(best):
        check_allowed(best[[not finished[sentence].hypotheses for sentence in candidates.before.sentences]])


def _ended(candidates: Candidates, options: GenerationOptions) -> Flags:
    """Tell which candidates end here, by an end token or by the length limit."""
    if candidates.length >= options.longest(candidates.length - candidates.generated):
        return np.ones(candidates.tokens.shape, dtype=bool)
    return is_end(candidates.tokens, options.eos_ids)


def _store(finished: BatchHypotheses, candidates: Candidates, ended: Flags, options: GenerationOptions) -> None:
    """Store the ended ones of the first ``num_beams`` candidates, where they are good enough."""
    sentences, first = candidates.before.sentences, slice(options.num_beams)
    scores = candidates.scores[:, first] / length_normalizer(candidates.generated, options.length_penalty)  # (B, K)
    good = ended[:, first] & (scores > finished.worst[sentences, None])
    for row, column in np.argwhere(good).tolist():
        hypothesis = candidates.hypothesis(row, column, float(scores[row, column]), options.eos_ids)
        finished.add(sentences[row], hypothesis)


def _running(candidates: Candidates, ended: Flags, num_beams: int) -> Beams:
    """Return the best ``num_beams`` candidates that go on; if there are too few, ended ones fill up."""
    scores = np.where(ended, candidates.scores + np.float32(UNREACHED), candidates.scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :num_beams]  # (B, K)
    return candidates.picked(order, scores[np.arange(len(order))[:, None], order])


def _done(running: Beams, ended: Flags, finished: BatchHypotheses, options: GenerationOptions) -> Flags:
    """Tell which sentences can stop: no beam goes on, there are enough hypotheses, or no beam can get good enough."""
    worst = finished.worst[running.sentences]  # (B,)
    done: Flags = ended.all(axis=1) | (_best_possible(running, options) <= worst)
    return done | (worst > UNREACHED) if options.early_stopping is True else done


def _best_possible(running: Beams, options: GenerationOptions) -> Scores:
    """Estimate the score that the best running beam may still reach, as ``early_stopping`` says."""
    length: int = running.generated
    if options.early_stopping == "never" and options.length_penalty > 0:
        prefix = running.length - running.generated
        length = options.longest(prefix) - prefix
    score: Scores = running.scores[:, 0] / length_normalizer(length, options.length_penalty)
    return score


def _fill(finished: BatchHypotheses, running: Beams, done: Flags, options: GenerationOptions) -> None:
    """Add running beams where the options forbid so much that too few outputs could end."""
    for row in np.flatnonzero(done).tolist():
        sentence = running.sentences[row]
        for beam in range(options.num_return_sequences - len(finished[sentence].hypotheses)):
            finished.add(sentence, running.hypothesis(row, beam, float(running.scores[row, beam]), options.eos_ids))
