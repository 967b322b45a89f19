"""Record the outputs of a source model in a file, to compare those of a bundle with them later.

The two models are never in memory at the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.scoring.scorer import forced_logits
from seq2edge.search import Hypothesis, Ids, Scores
from seq2edge.search.batch_decode import Engine, decode, group

BATCH_SIZES = (1, 8)
BEAMS = 4
SEARCHES = tuple((beams, size) for beams in (1, BEAMS) for size in BATCH_SIZES)  # that both models translate with
UNLIMITED = 10**9  # tokens per batch: only the batch size counts
SENTENCES_PER_FILE = 32  # a file has a row of logits for each of their tokens


@dataclass(frozen=True)
class ParityTask:
    """The sentences that two models translate, and how."""

    sources: list[list[int]]
    generation: GenerationOptions
    max_new_tokens: int  # a model never ends its output in a language that it was not trained on

    def chunks(self) -> Iterator[tuple[int, "ParityTask"]]:
        """Split the task into a few sentences each; yield the index of the first sentence with each task."""
        for first in range(0, len(self.sources), SENTENCES_PER_FILE):
            yield first, replace(self, sources=self.sources[first : first + SENTENCES_PER_FILE])

    def options(self, num_beams: int) -> GenerationOptions:
        max_new_tokens = min(self.max_new_tokens, self.generation.longest(1) - 1)
        return replace(self.generation, num_beams=num_beams, num_return_sequences=1, max_new_tokens=max_new_tokens)

    def translate(self, engine: Engine, num_beams: int, batch_size: int) -> list[Hypothesis]:
        """Return the best hypothesis for each sentence."""
        options = self.options(num_beams)
        results = decode(engine, self.sources, options, batch_tokens=UNLIMITED, batch_size=batch_size)
        return [hypotheses[0] for hypotheses in results]

    def batches(self, sizes: Sequence[int] = BATCH_SIZES) -> Iterator[list[int]]:
        """Yield the indices of the sentences in each batch, for each batch size."""
        for size in sizes:
            yield from group([len(source) for source in self.sources], batch_tokens=UNLIMITED, batch_size=size)

    def batch_sources(self, batch: Sequence[int]) -> list[list[int]]:
        return [self.sources[index] for index in batch]

    def forced_logits(self, engine: Engine, targets: list[list[int]], batch: list[int]) -> Iterator[tuple[Ids, Scores]]:
        """Yield the logits of a batch under teacher forcing, with the rows of the batch that they belong to."""
        batch_targets = [targets[index] for index in batch]
        start = self.options(1).decoder_start_token_id
        return forced_logits(engine, self.batch_sources(batch), batch_targets, start=start)


@dataclass(frozen=True)
class ReferenceOutputs:
    """The outputs of a source model for some sentences."""

    targets: list[list[int]]  # greedy outputs, which both models are forced to produce
    hypotheses: dict[tuple[int, int], list[Hypothesis]]  # by number of beams and batch size
    file: Path  # cross-attention states and logits of every batch


def record_reference(engine: Engine, task: ParityTask, file: Path) -> ReferenceOutputs:
    """Record everything that the outputs of a bundle are compared with."""
    hypotheses = {search: task.translate(engine, *search) for search in SEARCHES}
    targets = [list(one.tokens) for one in hypotheses[SEARCHES[0]]]
    record_forced_logits(engine, task, targets, file)
    return ReferenceOutputs(targets, hypotheses, file)


def record_forced_logits(
    engine: Engine, task: ParityTask, targets: list[list[int]], file: Path, sizes: Sequence[int] = BATCH_SIZES
) -> None:
    """Write for every batch the cross-attention states, sorted by name, and then the logits of each step."""
    with file.open("wb") as output:
        for batch in task.batches(sizes):
            states = engine.start(task.batch_sources(batch)).cross_states
            for name in sorted(states):
                np.save(output, states[name])
            for _, logits in task.forced_logits(engine, targets, batch):
                np.save(output, logits)
