"""What is to be translated: the same source tokens for every system.

Sentences to measure on where none are given: everyday English.

BLEU of outputs beside references.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Protocol

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import DataError, MissingExtraError, UsageError
from seq2edge.search.batch_decode import group

if TYPE_CHECKING:
    from seq2edge.text.tokenizer import Tokenizer

SENTENCES = (
    "Good morning.",
    "I am very hungry.",
    "Where is the nearest train station?",
    "Could you please close the window?",
    "He has been living in this city for ten years.",
    "My sister bought a new bicycle last week.",
    "What time does the last bus leave?",
    "I don't know what to say.",
    "She speaks three languages fluently.",
    "We have to finish this work before Friday.",
    "The children are playing in the garden.",
    "If it rains tomorrow, we will stay at home.",
    "Tom would like to learn German.",
    "This is the best book I have ever read.",
    "They were waiting for us at the airport.",
    "How much does this shirt cost?",
    "I forgot to lock the door again.",
    "The doctor told me to drink more water.",
    "Nobody knows where the key is.",
    "Thank you for helping me with my homework.",
    "Can you tell me how to get to the museum?",
    "It is too cold to swim in the lake.",
    "My grandfather used to tell us long stories.",
    "You should not believe everything he says.",
)
LANGUAGE = "en"


Sources = list[list[int]]
NO_LIMIT = 2**62  # tokens of a batch: here its size alone counts


@dataclass(frozen=True)
class Workload:
    """Sentences as source ids, and their references if there are any."""

    sources: Sources
    references: list[str] | None = None

    @property
    def source_tokens(self) -> int:
        return sum(map(len, self.sources))

    @property
    def signature(self) -> str:
        """The same for the same source tokens alone."""
        return hashlib.sha256(json.dumps(self.sources).encode()).hexdigest()[:16]

    def batches(self, size: int) -> list[list[int]]:
        """Places of the sentences of each batch; those of like length share one, the longest come first."""
        return group([len(source) for source in self.sources], batch_tokens=NO_LIMIT, batch_size=size)


class GivenTokens(Protocol):
    """What somebody gives to measure on, whatever the model; BLEU is measured if there are references."""

    @property
    def references(self) -> list[str] | None: ...

    def work(self, tokenizer: "Tokenizer", *, longest: int, largest_batch: int) -> Workload: ...


@dataclass(frozen=True)
class GivenTexts:
    """What was given to measure on; nothing given means the built-in sentences."""

    sources: list[str] | None = None
    references: list[str] | None = None

    def __post_init__(self) -> None:
        if self.references is not None and self.sources is None:
            raise UsageError("references go with given sentences: give --input as well")
        if self.sources is not None and self.references is not None and len(self.sources) != len(self.references):
            raise DataError(
                f"there are {len(self.sources)} sentences and {len(self.references)} references, but must be as many"
            )

    def work(self, tokenizer: "Tokenizer", *, longest: int, largest_batch: int) -> Workload:
        """The sentences as a model reads them, without those that say nothing; all have to fit the model."""
        if self.sources is None:
            count = max(len(SENTENCES), largest_batch)
            return Workload(tokenizer.encode(list(islice(cycle(SENTENCES), count))))
        encoded = tokenizer.encode_or_nothing(self.sources)
        kept = [place for place, source in enumerate(encoded) if source]
        for place in kept:
            if len(encoded[place]) > longest:
                raise DataError(
                    f"sentence {place + 1} has {len(encoded[place])} tokens, but the model reads {longest}: take it out"
                )
        if largest_batch > len(kept):
            raise UsageError(
                f"a batch of {largest_batch} was asked for, but there are {len(kept)} sentences: give more"
            )
        references = None if self.references is None else [self.references[place] for place in kept]
        return Workload([encoded[place] for place in kept], references)


def search_options(
    defaults: GenerationOptions, *, num_beams: int, longest: int, new_tokens: int | None = None
) -> GenerationOptions:
    """The search that every system does: a bundle's own, with so many beams and one answer.

    ``new_tokens`` is the exact length of every output. A sentence is done when as many outputs as it has beams have
    ended, the one rule that all systems have (but CTranslate2 without a length penalty, which stops sooner). A last
    token that is forced when an output is cut is left out, as not every peer can do it.
    """
    options = replace(
        defaults,
        num_beams=num_beams,
        num_return_sequences=1,
        early_stopping=True,
        do_sample=False,
        forced_eos_token_id=None,
    ).within(1 + longest, prefix_length=1)
    if new_tokens is None:
        return options
    if new_tokens > longest:
        raise UsageError(f"outputs of {new_tokens} tokens were asked for, but the model makes at most {longest}")
    return replace(options, max_length=1 + new_tokens, min_length=1 + new_tokens)


def first_token_only(options: GenerationOptions) -> GenerationOptions:
    """The same search, ended after its first step."""
    shortest = min(options.shortest(1), 2)
    return replace(options, max_new_tokens=None, max_length=2, min_new_tokens=None, min_length=shortest)


def token_count(outputs: Sequence[Sequence[int]]) -> int:
    return sum(map(len, outputs))


def check_sacrebleu() -> None:
    """Say before anything is measured that something is missing."""
    try:
        import sacrebleu  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("sacrebleu", "bench") from None


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    return round(float(BLEU().corpus_score(list(texts), [list(references)]).score), 2)
