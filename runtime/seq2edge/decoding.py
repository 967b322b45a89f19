"""Decode any number of sentences with any engine: batches in, hypotheses out; needs numpy."""

from collections.abc import Sequence
from typing import Protocol

from seq2edge.batching import group
from seq2edge.generation import GenerationOptions
from seq2edge.search import Hypothesis, Step, search

BATCH_TOKENS = 1024


class Engine(Protocol):
    """A model that can encode sentences and then decode them step by step."""

    def start(self, sources: list[list[int]]) -> Step: ...


def decode(
    engine: Engine,
    sources: Sequence[list[int]],
    options: GenerationOptions,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[list[Hypothesis]]:
    """Search for each sentence's translations, sentences of like length together; the results are in order."""
    results: list[list[Hypothesis]] = [[]] * len(sources)
    for batch in group([len(source) for source in sources], batch_tokens=batch_tokens, batch_size=batch_size):
        step = engine.start([sources[place] for place in batch])
        starts = [[options.decoder_start_token_id]] * len(batch)
        for place, found in zip(batch, search(step, starts, options, numbers=batch), strict=True):
            results[place] = found
    return results
