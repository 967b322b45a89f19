"""Watch the output of one sentence grow: only tokens that no later step can take back."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.beam import Beams, beam_steps
from seq2edge.search.greedy import greedy_steps
from seq2edge.search.hypothesis import BatchHypotheses, BeamHypotheses, Hypothesis
from seq2edge.search.interface import Hook, Ids, Step
from seq2edge.search.restricted_vocabulary import restrict
from seq2edge.search.sampling import StepTokens, collect, sample_steps


class StreamingSearch:
    """An iterator of the tokens that are certain so far, prefix not included; ``found`` is the output at the end.

    Greedy search and sampling are certain of every token. A beam search is certain of what all its beams, and the best
    ended output, have in common: whatever wins in the end comes from one of them.
    """

    def __init__(
        self, step: Step, prefix: Ids, options: GenerationOptions, *, part: int = 0, hook: Hook | None = None
    ) -> None:
        self.task = restrict(step, prefix, options, hook)
        self.step, self.prefix, self.options = self.task.step, self.task.prefixes, self.task.options  # (1, T)
        self.parts, self.hook = [part], hook
        self.found: Hypothesis | None = None

    def __iter__(self) -> Iterator[list[int]]:
        for tokens in self._grow_beams() if self.options.num_beams > 1 else self._grow():
            yield self.task.ids(tokens)
        assert self.found is not None
        self.found = self.task.told(self.found)

    def _grow(self) -> Iterator[list[int]]:
        steps: list[StepTokens] = []
        tokens: list[int] = []
        for made in self._steps():
            steps.append(made)
            tokens.append(int(made.tokens[0]))
            yield tokens
        [self.found] = collect(steps, 1)

    def _steps(self) -> Iterator[StepTokens]:
        if self.options.do_sample:
            return sample_steps(self.step, self.prefix, self.options, parts=self.parts, hook=self.hook)
        return greedy_steps(self.step, self.prefix, self.options, hook=self.hook)

    def _grow_beams(self) -> Iterator[list[int]]:
        pools = BatchHypotheses(1, self.options.num_beams)
        steps = beam_steps(self.step, self.prefix, pools, self.options, parts=self.parts, hook=self.hook)
        for beams in steps:
            if len(beams.sentences):
                yield stable_tokens(beams, pools[0])
        self.found = pools[0].hypotheses[0]
        yield self.found.tokens


def stable_tokens(beams: Beams, pool: BeamHypotheses) -> list[int]:
    """The tokens that the output of the only sentence will begin with."""
    running = [beams.tokens[0, beam, beams.length - beams.made :].tolist() for beam in range(beams.tokens.shape[1])]
    return common_beginning(running + [hypothesis.tokens for hypothesis in pool.hypotheses[:1]])


def common_beginning(rows: Sequence[Sequence[int]]) -> list[int]:
    shortest = min(len(row) for row in rows)
    block = np.array([row[:shortest] for row in rows])  # (N, T)
    same = (block == block[0]).all(axis=0)  # (T,)
    beginning: list[int] = block[0, : int(same.cumprod().sum())].tolist()
    return beginning
