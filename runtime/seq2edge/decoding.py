"""Decode any number of sentences with any engine: batches in, hypotheses out; needs numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seq2edge.batching import group
from seq2edge.generation import GenerationOptions
from seq2edge.search import Hook, Hypothesis, Step, search
from seq2edge.workers import Workers

BATCH_TOKENS = 1024


class Engine(Protocol):
    """A model that can encode sentences and then decode them step by step."""

    def start(self, sources: list[list[int]]) -> Step: ...


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What to decode: the ids of a source, and what its output has to begin with, the start token not included."""

    source: list[int]
    prefix: tuple[int, ...] = ()
    number: int = 0  # of the text: what sampling and the hook know it by
    part: int = 0  # of the text, which draws its own samples


def decode(
    engine: Engine,
    sources: Sequence[list[int]],
    options: GenerationOptions,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    most_rows: int | None = None,
) -> list[list[Hypothesis]]:
    """Search for the translations of each source; the results are in order."""
    sentences = [Sentence(source=source, number=number) for number, source in enumerate(sources)]
    return decode_sentences(
        engine, sentences, options, batch_tokens=batch_tokens, batch_size=batch_size, most_rows=most_rows
    )


def decode_sentences(
    engine: Engine,
    sentences: Sequence[Sentence],
    options: GenerationOptions,
    *,
    hook: Hook | None = None,
    workers: Workers | None = None,
    longest: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    most_rows: int | None = None,
) -> list[list[Hypothesis]]:
    """The same with prefixes, a hook and several batches at a time; sentences of like length share a batch.

    ``longest`` is how many tokens the model makes at most, those of a prefix included. ``most_rows`` is how many rows
    of the search a batch has at most, whatever ``batch_size`` allows: more may be slower.
    """

    def run(batch: list[int]) -> list[list[Hypothesis]]:
        return _decode_batch(engine, [sentences[place] for place in batch], options, hook, longest)

    if most_rows is not None:
        fitting = max(1, most_rows // max(options.num_beams, options.num_return_sequences))
        batch_size = fitting if batch_size is None else min(batch_size, fitting)
    batches = _batches(sentences, batch_tokens, batch_size)
    results: list[list[Hypothesis]] = [[]] * len(sentences)
    for batch, found in zip(batches, workers.map(run, batches) if workers else map(run, batches), strict=True):
        for place, hypotheses in zip(batch, found, strict=True):
            results[place] = hypotheses
    return results


def _decode_batch(
    engine: Engine, sentences: list[Sentence], options: GenerationOptions, hook: Hook | None, longest: int | None
) -> list[list[Hypothesis]]:
    step = engine.start([sentence.source for sentence in sentences])
    starts = [[options.decoder_start_token_id, *sentence.prefix] for sentence in sentences]
    if longest is not None:
        options = options.within(1 + longest, prefix_length=len(starts[0]))
    numbers, parts = [sentence.number for sentence in sentences], [sentence.part for sentence in sentences]
    return search(step, starts, options, numbers=numbers, parts=parts, hook=hook)


def _batches(sentences: Sequence[Sentence], batch_tokens: int, batch_size: int | None) -> list[list[int]]:
    """Places of the sentences in each batch; their prefixes have one length, as the search wants it."""
    places: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences):
        places.setdefault(len(sentence.prefix), []).append(place)
    return [
        [alike[number] for number in batch]
        for alike in places.values()
        for batch in group(
            [len(sentences[place].source) for place in alike], batch_tokens=batch_tokens, batch_size=batch_size
        )
    ]
