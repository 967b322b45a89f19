"""Search among some words of a vocabulary as if there were no others.

The words are counted anew, in the order of their ids: what the search takes for a token is the place of a word, a
column of the scores. Its options are told in the same way, so each keeps its meaning; what is found is told in ids
again. A caller's hook, and noise on all scores, must see the whole vocabulary: there the scores of all other words are
minus infinity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np

from seq2edge.config.generation import GenerationOptions, as_ids
from seq2edge.errors import WrongValueError
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import Hook, Ids, Scores, Step, SummingStep
from seq2edge.search.log_softmax import as_summing


class NarrowStep(Protocol):
    """A step that allows each sentence some words only; before its first call it is told which others it needs."""

    @property
    def vocabulary(self) -> int: ...

    def among(self, allowed: Ids, known: Ids) -> tuple[Ids, Step]:
        """All words of the batch (U,) in order, and a step that takes ids and gives the scores of these (B, K, U).

        ``allowed`` are words that every sentence may have, ``known`` such as are only read.
        """
        ...

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...  # (B, K, T), (B, K) -> (B, K, V)


@dataclass(frozen=True)
class RestrictedSearch:
    """What a search is given, and how what it finds is told in ids."""

    step: Step
    prefixes: Ids  # (B, T)
    options: GenerationOptions
    words: Ids | None = None  # (U,): the ids of what it takes for tokens; none: they are ids

    def ids(self, tokens: list[int]) -> list[int]:
        return tokens if self.words is None else [int(self.words[token]) for token in tokens]

    def told(self, found: Hypothesis) -> Hypothesis:
        return replace(found, tokens=self.ids(found.tokens))


def restrict(step: Step, prefixes: Ids, options: GenerationOptions, hook: Hook | None) -> RestrictedSearch:
    """What to search with, after a step that knows some words only was told what else it needs."""
    if not _is_narrow(step):
        return RestrictedSearch(step, prefixes, options)
    allowed = _checked([*options.eos_ids, *_forced(options)], step.vocabulary)
    marks = _checked([options.decoder_start_token_id, options.pad_token_id], step.vocabulary)
    words, narrow = step.among(allowed, np.concatenate([marks, prefixes.ravel()]))
    if hook is not None or (options.do_sample and options.num_beams > 1):
        return RestrictedSearch(step, prefixes, options)
    columns = TokenColumns(words, step.vocabulary)
    summing = as_summing(narrow)
    in_places = ColumnStep(narrow, words) if summing is None else SummingColumnStep(narrow, words, summing)
    return RestrictedSearch(in_places, columns.places[prefixes], columns.options(options), words)


class TokenColumns:
    """The place of each word among some."""

    def __init__(self, words: Ids, vocabulary: int) -> None:
        self.places = np.full(vocabulary, -1, dtype=np.int64)  # (V,)
        self.places[words] = np.arange(len(words))

    def options(self, options: GenerationOptions) -> GenerationOptions:
        """The same options with places; what forbids words that nobody can say is left out."""
        suppressed = [token for token in as_ids(options.suppress_tokens) if token < len(self.places)]
        words = [_checked(word, len(self.places)) for word in options.bad_words_ids or ()]
        return replace(
            options,
            decoder_start_token_id=int(self.places[options.decoder_start_token_id]),
            pad_token_id=int(self.places[options.pad_token_id]),
            eos_token_id=self._places(options.eos_ids),
            bad_words_ids=tuple(self._places(word) for word in words if (self.places[word] >= 0).all()) or None,
            suppress_tokens=tuple(place for place in self._places(suppressed) if place >= 0) or None,
            forced_bos_token_id=next(iter(self._places(as_ids(options.forced_bos_token_id))), None),
            forced_eos_token_id=self._places(as_ids(options.forced_eos_token_id)) or None,
        )

    def _places(self, ids: Sequence[int] | Ids) -> tuple[int, ...]:
        return tuple(int(self.places[token]) for token in ids)


class ColumnStep:
    """A step whose tokens are places of words."""

    def __init__(self, step: Step, words: Ids) -> None:
        self.step, self.words = step, words

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:
        return self.step(self.words[tokens], rows)


class SummingColumnStep(ColumnStep):
    """The same of a step that has added up the exponentials."""

    def __init__(self, step: Step, words: Ids, summing: SummingStep) -> None:
        super().__init__(step, words)
        self.summing = summing

    @property
    def log_totals(self) -> Scores:
        return self.summing.log_totals


def _is_narrow(step: Step) -> TypeGuard[NarrowStep]:
    return hasattr(step, "among")  # asking for the whole protocol takes as long as a step of a small model


def _forced(options: GenerationOptions) -> tuple[int, ...]:
    return (*as_ids(options.forced_bos_token_id), *as_ids(options.forced_eos_token_id))


def _checked(ids: Sequence[int], vocabulary: int) -> Ids:
    found = np.array(ids, dtype=np.int64)
    if found.size and found.max() >= vocabulary:
        raise WrongValueError(f"the options name the token {found.max()}, but the vocabulary has {vocabulary}")
    return found
