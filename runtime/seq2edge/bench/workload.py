"""What every system translates: the same source tokens, with the same search options."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Protocol

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import DataError, UsageError, imports_of_extras
from seq2edge.search.batch_decode import group

if TYPE_CHECKING:
    from seq2edge.text.tokenizer import Tokenizer

Sources = list[list[int]]
NO_LIMIT = 2**62  # tokens of a batch: only the number of sentences counts here
SENTENCES = (  # measured by default
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
    "Tom would like to learn Portuguese.",
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


@dataclass(frozen=True)
class Workload:
    """Source token ids of the sentences, and their reference translations if known."""

    sources: Sources
    references: list[str] | None = None

    @property
    def source_tokens(self) -> int:
        return sum(map(len, self.sources))

    @property
    def signature(self) -> str:
        """A hash of the source tokens."""
        return hashlib.sha256(json.dumps(self.sources).encode()).hexdigest()[:16]

    def batches(self, size: int) -> list[list[int]]:
        """Return the sentence indices of each batch; similar lengths share a batch, the longest come first."""
        return group([len(source) for source in self.sources], batch_tokens=NO_LIMIT, batch_size=size)


class WorkloadSource(Protocol):
    """Texts to measure on, which each model encodes with its own tokenizer; references add BLEU."""

    @property
    def references(self) -> list[str] | None: ...

    def work(self, tokenizer: "Tokenizer", *, longest: int, largest_batch: int) -> Workload: ...


@dataclass(frozen=True)
class BenchTexts:
    """Sentences with or without references; by default the built-in sentences."""

    sources: list[str] | None = None
    references: list[str] | None = None

    def __post_init__(self) -> None:
        if self.references is not None and self.sources is None:
            raise UsageError("references need the sentences they belong to: give --input as well")
        if self.sources is not None and self.references is not None and len(self.sources) != len(self.references):
            raise DataError(
                f"there are {len(self.sources)} sentences, but {len(self.references)} references: give one for each"
            )

    def work(self, tokenizer: "Tokenizer", *, longest: int, largest_batch: int) -> Workload:
        """Encode the sentences, leaving out blank ones; one that is longer than the model allows is an error."""
        if self.sources is None:
            count = max(len(SENTENCES), largest_batch)
            return Workload(tokenizer.encode(list(islice(cycle(SENTENCES), count))))
        encoded = tokenizer.encode_visible(self.sources)
        kept = [index for index, source in enumerate(encoded) if source]
        for index in kept:
            if len(encoded[index]) > longest:
                raise DataError(
                    f"sentence {index + 1} has {len(encoded[index])} tokens, but the model reads at most {longest}: "
                    "remove it"
                )
        if largest_batch > len(kept):
            raise UsageError(f"the batch size is {largest_batch}, but there are only {len(kept)} sentences: add more")
        references = None if self.references is None else [self.references[index] for index in kept]
        return Workload([encoded[index] for index in kept], references)


def search_options(
    defaults: GenerationOptions, *, num_beams: int, longest: int, new_tokens: int | None = None
) -> GenerationOptions:
    """Return the search that every system runs: the bundle's own, with ``num_beams`` and one output per sentence.

    ``new_tokens`` is the exact length of every output. A sentence is finished when as many hypotheses as it has beams
    have ended, the rule that all systems share (except CTranslate2 without a length penalty, which stops sooner).
    ``forced_eos_token_id`` is turned off because some peers lack it.
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
        raise UsageError(f"--new-tokens is {new_tokens}, but the model generates at most {longest} tokens")
    return replace(options, max_length=1 + new_tokens, min_length=1 + new_tokens)


def first_token_only(options: GenerationOptions) -> GenerationOptions:
    """Return the same search, ended after its first step."""
    shortest = min(options.shortest(1), 2)
    return replace(options, max_new_tokens=None, max_length=2, min_new_tokens=None, min_length=shortest)


def token_count(outputs: Sequence[Sequence[int]]) -> int:
    return sum(map(len, outputs))


def require_sacrebleu() -> None:
    """Raise an error before anything is measured if sacrebleu is missing."""
    with imports_of_extras():
        import sacrebleu  # noqa: F401


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    return round(float(BLEU().corpus_score(list(texts), [list(references)]).score), 2)
