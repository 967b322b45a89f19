"""Hear out an original, and keep what it says until the bundle is asked the same; needs numpy.

The two are never in memory together: what the original gives goes to a file, in the order in which it is asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2edge.batching import group
from seq2edge.decoding import Engine, decode
from seq2edge.forcing import forced_logits
from seq2edge.generation import GenerationOptions
from seq2edge.search import Hypothesis, Ids, Scores

BATCH_SIZES = (1, 8)
BEAMS = 4
WAYS = tuple((beams, size) for beams in (1, BEAMS) for size in BATCH_SIZES)  # in which both translate
ANY_TOKENS = 10**9  # in a batch: its size alone counts
SENTENCES_AT_ONCE = 32  # the file has a row of logits for each of their tokens
States = dict[str, NDArray[Any]]  # cross states by name


class OpenStep(Protocol):
    """A step that shows what its encoder has handed over."""

    @property
    def cross_states(self) -> States: ...

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...


class OpenEngine(Protocol):
    """An engine whose steps show what the encoder has handed over: the original, in PyTorch or as another bundle."""

    def start(self, sources: list[list[int]]) -> OpenStep: ...


@dataclass(frozen=True)
class Task:
    """Sentences to compare on, and how they are translated."""

    sources: list[list[int]]
    generation: GenerationOptions
    most_tokens: int  # of an output; a model that does not know a language never ends by itself

    def parts(self) -> Iterator[tuple[int, "Task"]]:
        """A few sentences at a time, and the place of the first."""
        for first in range(0, len(self.sources), SENTENCES_AT_ONCE):
            yield first, replace(self, sources=self.sources[first : first + SENTENCES_AT_ONCE])

    def options(self, num_beams: int) -> GenerationOptions:
        most = min(self.most_tokens, self.generation.longest(1) - 1)
        return replace(self.generation, num_beams=num_beams, num_return_sequences=1, max_new_tokens=most)

    def outputs(self, engine: Engine, num_beams: int, batch_size: int) -> list[Hypothesis]:
        """The best hypothesis of each sentence."""
        options = self.options(num_beams)
        found = decode(engine, self.sources, options, batch_tokens=ANY_TOKENS, batch_size=batch_size)
        return [hypotheses[0] for hypotheses in found]

    def batches(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """The places of the sentences in batches of each size."""
        for size in sizes:
            yield from group([len(source) for source in self.sources], batch_tokens=ANY_TOKENS, batch_size=size)

    def forced(self, engine: Engine, targets: list[list[int]], batch: list[int]) -> Iterator[tuple[Ids, Scores]]:
        """The logits of a batch that is forced to say its targets, and which of its sentences they are of."""
        sources, wanted = ([rows[place] for place in batch] for rows in (self.sources, targets))
        return forced_logits(engine, sources, wanted, start=self.options(1).decoder_start_token_id)


@dataclass(frozen=True)
class Heard:
    """What the original made of some sentences."""

    targets: list[list[int]]  # greedy, which both are forced to say
    outputs: dict[tuple[int, int], list[Hypothesis]]  # by beams and batch size
    file: Path  # cross states and logits of every batch


def hear(engine: OpenEngine, task: Task, file: Path) -> Heard:
    """Ask the original everything that the bundle will be asked."""
    outputs = {way: task.outputs(engine, *way) for way in WAYS}
    targets = [list(one.tokens) for one in outputs[WAYS[0]]]
    hear_forced(engine, task, targets, file)
    return Heard(targets, outputs, file)


def hear_forced(
    engine: OpenEngine, task: Task, targets: list[list[int]], file: Path, sizes: Sequence[int] = BATCH_SIZES
) -> None:
    """Write the cross states of every batch, in the order of their names, and behind them the logits of each step."""
    with file.open("wb") as written:
        for batch in task.batches(sizes):
            states = engine.start([task.sources[place] for place in batch]).cross_states
            for name in sorted(states):
                np.save(written, states[name])
            for _, logits in task.forced(engine, targets, batch):
                np.save(written, logits)
