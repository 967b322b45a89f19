"""Stream the output of one sentence: only tokens that no later step can change."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.beam import Beams, beam_steps
from seq2edge.search.greedy import greedy_steps
from seq2edge.search.hypothesis import BatchHypotheses, BeamHypotheses, Hypothesis
from seq2edge.search.interface import DecoderState
from seq2edge.search.restricted_vocabulary import restrict
from seq2edge.search.sampling import StepTokens, collect, sample_steps
from seq2edge.search.types import BatchContext, Ids


class StreamingSearch:
    """Iterate over the stable tokens so far, without the prefix; ``result`` is the hypothesis at the end.

    Every token of greedy search and sampling is stable. In a beam search, those are stable that all beams and the best
    finished hypothesis have in common: the final output comes from one of them.
    """

    def __init__(self, state: DecoderState, prefix: Ids, options: GenerationOptions, context: BatchContext) -> None:
        self.restricted = restrict(state, prefix, options, context)  # the prefix is (1, T)
        self.context = context
        self.result: Hypothesis | None = None

    def __iter__(self) -> Iterator[list[int]]:
        for tokens in self._beam_search() if self.restricted.options.num_beams > 1 else self._one_by_one():
            yield self.restricted.to_token_ids(tokens)
        assert self.result is not None
        self.result = self.restricted.to_hypothesis(self.result)

    def _one_by_one(self) -> Iterator[list[int]]:
        taken: list[StepTokens] = []
        tokens: list[int] = []
        steps = sample_steps if self.restricted.options.do_sample else greedy_steps
        for step in steps(self.restricted.state, self.restricted.prefixes, self.restricted.options, self.context):
            taken.append(step)
            tokens.append(int(step.tokens[0]))
            yield tokens
        [self.result] = collect(taken, 1)

    def _beam_search(self) -> Iterator[list[int]]:
        options = self.restricted.options
        finished = BatchHypotheses(1, options.num_beams)
        for beams in beam_steps(self.restricted.state, self.restricted.prefixes, finished, options, self.context):
            if len(beams.sentences):
                yield stable_tokens(beams, finished[0])
        self.result = finished[0].hypotheses[0]
        yield self.result.tokens


def stable_tokens(beams: Beams, finished: BeamHypotheses) -> list[int]:
    """Return the tokens that the output of the only sentence will begin with."""
    start = beams.length - beams.generated
    running = [beams.tokens[0, beam, start:].tolist() for beam in range(beams.tokens.shape[1])]
    return common_prefix(running + [hypothesis.tokens for hypothesis in finished.hypotheses[:1]])


def common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    shortest = min(len(row) for row in rows)
    block = np.array([row[:shortest] for row in rows])  # (N, T)
    same = (block == block[0]).all(axis=0)  # (T,)
    prefix: list[int] = block[0, : int(same.cumprod().sum())].tolist()
    return prefix
