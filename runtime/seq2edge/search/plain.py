"""Greedy and beam search for plain options: lists of numbers in the place of small arrays.

A step of a small model takes less than half a millisecond, so the dozens of numpy calls around it count. Without
sampling, a hook or any logits processor, most of them can be saved. The results are those of ``greedy.py`` and
``beam.py`` to the last bit; these do everything else, and are the reference for this module. Beams with many rows are
in ``plain_arrays.py``.

Shapes at line ends: B unfinished sentences, K beams, R rows, C candidates, V the vocabulary size.
"""

from typing import NamedTuple

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.beam import candidate_count
from seq2edge.search.hypothesis import UNREACHED, BeamHypotheses, Hypothesis, length_normalizer
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import log_totals
from seq2edge.search.logits_processors import LogitsProcessors
from seq2edge.search.plain_arrays import LOWERED, ArrayBeamSearch, select
from seq2edge.search.types import BatchContext, Ids, StepOutput

FEW_ROWS = 32  # more beams are faster in numpy


def is_plain(state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext) -> bool:
    """Whether nothing but the model decides which token comes next."""
    if options.do_sample or state.selects_on_device:
        return False
    return not LogitsProcessors(options, prefixes.shape[1], context)


def plain_greedy(state: DecoderState, prefixes: Ids, options: GenerationOptions) -> list[list[Hypothesis]]:
    """Return one hypothesis for each sentence."""
    limit, eos = options.longest(prefixes.shape[1]) - prefixes.shape[1], options.eos_ids
    tokens: list[list[int]] = [[] for _ in prefixes]
    scores: list[list[float]] = [[] for _ in prefixes]
    sentences = list(range(len(prefixes)))  # (B,): those that have not ended
    output = state.step(prefixes[:, None], np.arange(len(prefixes))[:, None])
    for made in range(1, limit + 1):
        totals = log_totals(output)[:, 0].tolist()
        chosen: list[int] = output.logits[:, 0].argmax(axis=1).tolist()
        for sentence, token, log_total in zip(sentences, chosen, totals, strict=True):
            tokens[sentence].append(token)
            scores[sentence].append(-log_total)  # the largest logit minus itself is zero
        if made == limit:
            break
        rows = [row for row, token in enumerate(chosen) if token not in eos]
        if len(rows) == len(sentences):
            output = state.extend(chosen)
        elif rows:
            sentences = [sentences[row] for row in rows]
            output = state.step(np.array([chosen[row] for row in rows])[:, None, None], np.array(rows)[:, None])
        else:
            break
    return [
        [Hypothesis(tokens=ids, score=sum(values), token_scores=values, ended=ids[-1] in eos)]
        for ids, values in zip(tokens, scores, strict=True)
    ]


class TokenNode(NamedTuple):
    """The last token of a partial output, linked to the one before."""

    before: "TokenNode"
    token: int
    log_probability: float

    def path(self) -> tuple[list[int], list[float]]:
        """Return all tokens and their log-probabilities, in order."""
        tokens, log_probabilities = [], []
        node = self
        while node is not ROOT:
            tokens.append(node.token)
            log_probabilities.append(node.log_probability)
            node = node.before
        return tokens[::-1], log_probabilities[::-1]


ROOT = TokenNode(None, -1, 0.0)  # type: ignore[arg-type]  # before the first token


class Beam(NamedTuple):
    """A partial output."""

    last: TokenNode
    score: float
    parent: int  # the beam of the sentence that it continues


class SentenceCandidates(NamedTuple):
    """Continuations of the beams of one sentence by one token each, best first."""

    parents: list[int]  # (C,)
    tokens: list[int]  # (C,)
    log_probabilities: list[float]  # (C,)
    scores: list[float]  # (C,)

    def node(self, beams: list[Beam], column: int) -> TokenNode:
        return TokenNode(beams[self.parents[column]].last, self.tokens[column], self.log_probabilities[column])


def plain_beam_search(state: DecoderState, prefixes: Ids, options: GenerationOptions) -> list[list[Hypothesis]]:
    """Return the best ``num_return_sequences`` hypotheses that ``num_beams`` beams find for each sentence."""
    few = len(prefixes) * options.num_beams <= FEW_ROWS
    return (PlainBeamSearch if few else ArrayBeamSearch)(prefixes, options).run(state, prefixes)


class PlainBeamSearch:
    """A beam search over one batch; ``finished`` are the hypotheses of each sentence."""

    def __init__(self, prefixes: Ids, options: GenerationOptions) -> None:
        self.options, self.eos = options, options.eos_ids
        self.num_beams, self.count = options.num_beams, candidate_count(options)
        self.limit = options.longest(prefixes.shape[1]) - prefixes.shape[1]
        self.finished = [BeamHypotheses(options.num_beams) for _ in prefixes]

    def run(self, state: DecoderState, prefixes: Ids) -> list[list[Hypothesis]]:
        start = [Beam(ROOT, UNREACHED if beam else 0.0, beam) for beam in range(self.num_beams)]
        beams = dict.fromkeys(range(len(prefixes)), start)
        output = state.step(prefixes[:, None], np.arange(len(prefixes))[:, None])
        for made in range(1, self.limit + 1):
            going, rows, rows_before = {}, [], output.logits.shape[1]  # rows_before: 1 or K
            found = self._candidates(output, beams)
            for index, (sentence, candidates) in enumerate(zip(beams, found, strict=True)):
                running = self._advance(beams[sentence], candidates, self.finished[sentence], made)
                if running:
                    going[sentence] = running
                    rows.append([index * rows_before + beam.parent * (rows_before > 1) for beam in running])
            if not going:
                break
            beams = going
            tokens = [[beam.last.token for beam in running] for running in beams.values()]
            output = state.step(np.array(tokens)[:, :, None], np.array(rows))
        return [one.hypotheses[: self.options.num_return_sequences] for one in self.finished]

    def _candidates(self, output: StepOutput, beams: dict[int, list[Beam]]) -> list[SentenceCandidates]:  # (B,)
        """Return the best continuations of each sentence."""
        so_far = np.array([[beam.score for beam in running] for running in beams.values()], np.float32)  # (B, K)
        parts = select(output, so_far, self.count)
        return [
            SentenceCandidates(*of_sentence) for of_sentence in zip(*(part.tolist() for part in parts), strict=True)
        ]

    def _advance(self, beams: list[Beam], found: SentenceCandidates, finished: BeamHypotheses, made: int) -> list[Beam]:
        """Store what has ended; return the beams that go on, or none if the sentence is done."""
        ended = [token in self.eos or made == self.limit for token in found.tokens]
        scores, columns = found.scores, list(range(self.num_beams))
        if True in ended:
            self._store(beams, found, ended, finished, made)
            scores = [float(np.float32(one) + LOWERED) if end else one for one, end in zip(scores, ended, strict=True)]
            columns = sorted(range(len(scores)), key=lambda column: -scores[column])[: self.num_beams]
        running = [Beam(found.node(beams, column), scores[column], found.parents[column]) for column in columns]
        if False in ended and not self._is_done(running[0].score, finished, made):
            return running
        for beam in running[: max(0, self.options.num_return_sequences - len(finished.hypotheses))]:
            finished.add(self._hypothesis(beam.last, beam.score, beam.score))
        return []

    def _store(
        self, beams: list[Beam], found: SentenceCandidates, ended: list[bool], finished: BeamHypotheses, made: int
    ) -> None:
        """Store the ended ones of the first ``num_beams`` candidates, where they are good enough."""
        normalizer = length_normalizer(made, self.options.length_penalty)
        for column in range(self.num_beams):
            score = float(np.float32(found.scores[column]) / normalizer)
            if ended[column] and score > finished.worst:
                finished.add(self._hypothesis(found.node(beams, column), score, found.scores[column]))

    def _is_done(self, best: float, finished: BeamHypotheses, made: int) -> bool:
        """Whether there are enough hypotheses, or no beam can get good enough."""
        options, worst, length = self.options, finished.worst, made
        if options.early_stopping is True and worst > UNREACHED:
            return True
        if options.early_stopping == "never" and options.length_penalty > 0:
            length = self.limit
        return bool(np.float32(best) / length_normalizer(length, options.length_penalty) <= worst)

    def _hypothesis(self, last: TokenNode, score: float, beam_score: float) -> Hypothesis:
        tokens, log_probabilities = last.path()
        return Hypothesis(
            tokens=tokens,
            score=score,
            token_scores=log_probabilities,
            ended=tokens[-1] in self.eos,
            placeholder=beam_score < UNREACHED / 2,
        )
