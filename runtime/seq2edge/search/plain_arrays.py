"""Beam search for plain options and many rows: nothing is made that the next step or the result does not need.

Outputs are kept as links to the step before and are put together when the search has ended, and the candidates of all
beams of a sentence are selected together. The results are those of ``beam.py`` to the last bit.

Shapes at line ends: B unfinished sentences, K beams, R = B * K rows, C candidates, V the vocabulary size, G groups.
"""

from bisect import insort
from typing import Any, NamedTuple

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.beam import candidate_count
from seq2edge.search.hypothesis import UNREACHED, Hypothesis, length_normalizer
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import log_totals
from seq2edge.search.logits_processors import is_end
from seq2edge.search.top_k import LOWEST, MANY, group_count, group_peaks, top_k
from seq2edge.search.types import Flags, Ids, Scores, StepOutput

BUCKETS = 64  # groups of groups of a row
SLACK = 2e-6  # more than four roundings of a float32, relative to the sum of the magnitudes
LOWERED = np.float32(UNREACHED)  # added to the score of a beam that has ended, so that others go on before it


class BatchCandidates(NamedTuple):
    """Continuations of the beams of each sentence by one token each, best first."""

    parents: Ids  # (B, C): the beam of the sentence that each one continues
    tokens: Ids  # (B, C)
    log_probabilities: Scores  # (B, C)
    scores: Scores  # (B, C)

    def at(self, index: Any) -> "BatchCandidates":
        """Index every array."""
        parents, tokens, log_probabilities, scores = self
        return BatchCandidates(parents[index], tokens[index], log_probabilities[index], scores[index])


class BeamStep(NamedTuple):
    """The beams after a step, counted through all sentences that went on until then."""

    continued: Ids  # (R,): the beam of the step before
    tokens: Ids  # (R,)
    log_probabilities: Scores  # (R,)


class Ending(NamedTuple):
    """A finished output: its last token, and the beam of the step before that it continues."""

    score: float
    step: int
    continued: int
    token: int
    log_probability: float
    beam_score: float


def select(output: StepOutput, so_far: Scores, count: int) -> BatchCandidates:  # (B, K)
    """Return the best ``count`` continuations of each sentence; a sentence has one row for each beam, or one for all.

    As in ``top_k``, the peaks of groups bound what can be among the best, but here all beams of a sentence share one
    bound, so that much less is looked at. Rounding keeps the order of scores.
    """
    batch, rows, vocabulary = output.logits.shape
    totals, groups = log_totals(output), group_count(vocabulary)
    if rows == 1 or not groups or rows * BUCKETS < count or output.logits.size < MANY:
        return select_by_row(output, totals, so_far, count)
    logits, beam_scores = output.logits.reshape(-1, vocabulary), so_far.reshape(-1, 1)  # (R, V), (R, 1)
    peaks = group_peaks(logits, groups)  # (R, G)
    buckets = np.maximum.reduce(peaks.reshape(batch * rows, -1, BUCKETS), axis=1)  # (R, G')
    peak = np.maximum.reduce(buckets, axis=1, keepdims=True)  # (R, 1)
    scored = (((buckets - peak) - totals) + beam_scores).reshape(batch, -1)  # (B, K * G')
    bound = np.sort(scored, axis=1)[:, -count, None]  # (B, 1)
    if not bound.min() >= LOWEST:  # forbidden tokens have to fill up
        return select_by_row(output, totals, so_far, count)
    lowest = _lowest_logits(bound.repeat(rows, axis=0), beam_scores, totals, peak)  # (R, 1)
    found = _at_least(lowest, logits, peaks)  # (m,)
    row, column = np.divmod(found, vocabulary)  # (m,) each, in order
    values = logits.take(found)
    log_probabilities = (values - peak.take(row)) - totals.take(row)
    scores = log_probabilities + beam_scores.take(row)
    sentence = row // rows
    order = _order(sentence, row, values, scores)
    best = order.take(sentence.searchsorted(np.arange(batch))[:, None] + np.arange(count))  # (B, C)
    return BatchCandidates(row.take(best) % rows, column.take(best), log_probabilities.take(best), scores.take(best))


def _lowest_logits(bound: Scores, beam_scores: Scores, totals: Scores, peak: Scores) -> Scores:  # (R, 1) each
    """Return a logit for each row that is certainly not above any whose score reaches the bound."""
    rounding = np.float32(SLACK) * (abs(bound) + abs(beam_scores) + abs(totals) + abs(peak))
    return ((bound - beam_scores) + totals) + (peak - rounding)


def _at_least(lowest: Scores, logits: Scores, peaks: Scores) -> Ids:  # (R, 1), (R, V), (R, G)
    """Return the logits that are not below the lowest of their row, counted through all rows, in order."""
    vocabulary, groups = logits.shape[1], peaks.shape[1]
    rows, first = np.divmod((peaks >= lowest).ravel().nonzero()[0], groups)  # (n,) each
    columns = first[:, None] + np.arange(0, vocabulary, groups)  # (n, M)
    members = (columns + (rows * vocabulary)[:, None])[columns < vocabulary]
    found: Ids = members[logits.take(members) >= lowest.take(members // vocabulary)]
    found.sort()
    return found


def _order(sentence: Ids, row: Ids, values: Scores, scores: Scores) -> Ids:  # (m,) each
    """Return the order by sentence, and then by score; of equal ones by row, logit and column, in which they are now.

    In one row, logits that differ can have the same score, which is rare.
    """
    order = np.lexsort((-scores, sentence))  # stable
    ordered, of_row = scores.take(order), row.take(order)
    if ((ordered[1:] == ordered[:-1]) & (of_row[1:] == of_row[:-1])).any():
        return np.lexsort((-values, row, -scores, sentence))
    return order


def select_by_row(output: StepOutput, totals: Scores, so_far: Scores, count: int) -> BatchCandidates:
    """Select the best of each row, and then the best of these."""
    batch, rows, vocabulary = output.logits.shape
    tokens, logits = top_k(output.logits.reshape(-1, vocabulary), min(count, vocabulary))  # (R, C) each
    log_probabilities = (logits - logits[:, :1]) - totals
    scores = (log_probabilities.reshape(batch, rows, -1) + so_far[:, :, None]).reshape(batch, -1)  # (B, K * C)
    order = (-scores).argsort(axis=1, kind="stable")[:, :count]
    columns, sentence = tokens.shape[1], np.arange(batch)[:, None]
    found = sentence * (rows * columns) + (order if rows > 1 else order % columns)  # counted through all rows
    return BatchCandidates(order // columns, tokens.take(found), log_probabilities.take(found), scores[sentence, order])


class ArrayBeamSearch:
    """A beam search over one batch; ``finished`` are the endings of each sentence, best first."""

    def __init__(self, prefixes: Ids, options: GenerationOptions) -> None:
        self.options, self.num_beams, self.count = options, options.num_beams, candidate_count(options)
        self.limit = options.longest(prefixes.shape[1]) - prefixes.shape[1]
        self.finished: list[list[Ending]] = [[] for _ in prefixes]
        self.worst: Scores = np.full(len(prefixes), UNREACHED, np.float32)  # (N,): the score to beat
        self.steps: list[BeamStep] = []

    def run(self, state: DecoderState, prefixes: Ids) -> list[list[Hypothesis]]:
        sentences = np.arange(len(prefixes))  # (B,)
        scores: Scores = np.full((len(prefixes), self.num_beams), UNREACHED, np.float32)  # (B, K)
        scores[:, 0] = 0
        output = state.step(prefixes[:, None], sentences[:, None])
        for made in range(1, self.limit + 1):
            found = select(output, scores, self.count)
            ended = is_end(found.tokens, self.options.eos_ids) | (made == self.limit)  # (B, C)
            running = self._advance(found, ended, sentences, made)  # (B, K)
            done = self._done(running.scores[:, 0], ended, sentences, made)  # (B,)
            if done.any():
                self._fill(running, done, sentences, made)
                going = (~done).nonzero()[0]
                if not len(going):
                    break
                running, sentences = running.at(going), sentences[going]
            scores, beams = running.scores, running.parents  # parents are counted through all sentences by now
            self.steps.append(BeamStep(beams.ravel(), running.tokens.ravel(), running.log_probabilities.ravel()))
            rows = beams if output.logits.shape[1] > 1 else beams // self.num_beams
            output = state.step(running.tokens[:, :, None], rows)
        return [self._hypotheses(endings) for endings in self.finished]

    def _advance(self, found: BatchCandidates, ended: Flags, sentences: Ids, made: int) -> BatchCandidates:
        """Store what has ended; return the candidates that go on, with parents counted through all sentences."""
        each = np.arange(len(sentences))[:, None]  # (B, 1)
        found = found._replace(parents=found.parents + each * self.num_beams)
        if not ended.any():
            return found.at((slice(None), slice(self.num_beams)))
        self._store(found, ended, sentences, made)
        found = found._replace(scores=np.where(ended, found.scores + LOWERED, found.scores))
        return found.at((each, (-found.scores).argsort(axis=1, kind="stable")[:, : self.num_beams]))

    def _store(self, found: BatchCandidates, ended: Flags, sentences: Ids, made: int) -> None:
        """Store the ended ones of the first ``num_beams`` candidates, where they are good enough."""
        scores = found.scores[:, : self.num_beams] / length_normalizer(made, self.options.length_penalty)  # (B, K)
        good = (ended[:, : self.num_beams] & (scores > self.worst[sentences, None])).nonzero()
        self._add(sentences[good[0]], scores[good], found.at(good), made)

    def _add(self, sentences: Ids, scores: Scores, found: BatchCandidates, made: int) -> None:  # (n,) each
        """Add endings; of equal ones, the earlier stays first."""
        values = (part.tolist() for part in (sentences, scores, *found))
        for sentence, score, continued, token, log_probability, beam_score in zip(*values, strict=True):
            endings = self.finished[sentence]
            insort(endings, Ending(score, made, continued, token, log_probability, beam_score), key=_negative_score)
            del endings[self.num_beams :]
            if len(endings) == self.num_beams:
                self.worst[sentence] = endings[-1].score

    def _done(self, best: Scores, ended: Flags, sentences: Ids, made: int) -> Flags:  # (B,), (B, C)
        """Tell which sentences can stop: nothing goes on, there are enough hypotheses, or none can get good enough."""
        options, worst, length = self.options, self.worst[sentences], made
        if options.early_stopping == "never" and options.length_penalty > 0:
            length = self.limit
        done: Flags = ended.all(axis=1) | (best / length_normalizer(length, options.length_penalty) <= worst)
        return done | (worst > UNREACHED) if options.early_stopping is True else done

    def _fill(self, running: BatchCandidates, done: Flags, sentences: Ids, made: int) -> None:
        """Add running beams where too few outputs could end."""
        for row in done.nonzero()[0].tolist():
            missing = self.options.num_return_sequences - len(self.finished[sentences[row]])
            if missing > 0:
                beams = running.at((row, slice(missing)))
                self._add(sentences[[row] * missing], beams.scores, beams, made)

    def _hypotheses(self, endings: list[Ending]) -> list[Hypothesis]:
        return [self._hypothesis(ending) for ending in endings[: self.options.num_return_sequences]]

    def _hypothesis(self, ending: Ending) -> Hypothesis:
        """Put an output together, from its last token to the first."""
        tokens, log_probabilities, beam = [ending.token], [ending.log_probability], ending.continued
        for step in reversed(self.steps[: ending.step - 1]):
            tokens.append(step.tokens.item(beam))
            log_probabilities.append(step.log_probabilities.item(beam))
            beam = step.continued.item(beam)
        return Hypothesis(
            tokens=tokens[::-1],
            score=ending.score,
            token_scores=log_probabilities[::-1],
            ended=ending.token in self.options.eos_ids,
            placeholder=ending.beam_score < UNREACHED / 2,
        )


def _negative_score(ending: Ending) -> float:
    return -ending.score
