"""Search over a restricted vocabulary as if the other tokens did not exist.

The search then works with columns of the logits instead of token ids: a token is the index of its id in the restricted
vocabulary. The options are translated to columns, and the hypotheses back to ids. A caller's hook and Gumbel noise must
see the whole vocabulary; for them, the scores of all other tokens are minus infinity.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seq2edge.config.generation import GenerationOptions, as_ids
from seq2edge.errors import WrongValueError
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import DecoderState
from seq2edge.search.types import BatchContext, Ids, StepOutput


class RestrictableState(DecoderState):
    """A decoder state that allows each sentence a part of the vocabulary; ``restrict`` comes before the first step."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """The size of the whole vocabulary, over which ``step`` returns logits."""

    @abstractmethod
    def restrict(self, allowed: Ids, known: Ids) -> tuple[Ids, DecoderState]:
        """Return the sorted ids of the batch (U,), and a state that returns logits for these (B, K, U).

        ``allowed`` are ids that every sentence may use besides its own, ``known`` ids that are only ever read.
        """


@dataclass(frozen=True)
class RestrictedSearch:
    """What a search works with, and how its results become token ids again."""

    state: DecoderState
    prefixes: Ids  # (B, T)
    options: GenerationOptions
    token_ids: Ids | None = None  # (U,): the id of each column; None if the search works with ids

    def to_token_ids(self, tokens: list[int]) -> list[int]:
        return tokens if self.token_ids is None else [int(self.token_ids[token]) for token in tokens]

    def to_hypothesis(self, found: Hypothesis) -> Hypothesis:
        return found if self.token_ids is None else replace(found, tokens=self.to_token_ids(found.tokens))


def restrict(state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext) -> RestrictedSearch:
    """Restrict the search to the ids that the state allows and the options name; other states are left as they are."""
    if not isinstance(state, RestrictableState):
        return RestrictedSearch(state, prefixes, options)
    allowed = _check_ids([*options.eos_ids, *_forced(options)], state.vocabulary_size)
    special = _check_ids([options.decoder_start_token_id, options.pad_token_id], state.vocabulary_size)
    token_ids, restricted = state.restrict(allowed, np.concatenate([special, prefixes.ravel()]))
    if context.hook is not None or (options.do_sample and options.num_beams > 1):
        return RestrictedSearch(state, prefixes, options)
    columns = TokenColumns(token_ids, state.vocabulary_size)
    return RestrictedSearch(
        ColumnState(restricted, token_ids), columns.of_id[prefixes], columns.options(options), token_ids
    )


class TokenColumns:
    """The column of each token id in a restricted vocabulary."""

    def __init__(self, token_ids: Ids, vocabulary_size: int) -> None:
        self.of_id = np.full(vocabulary_size, -1, dtype=np.int64)  # (V,)
        self.of_id[token_ids] = np.arange(len(token_ids))

    def options(self, options: GenerationOptions) -> GenerationOptions:
        """Translate the ids in the options to columns; forbidden tokens that nobody can use are left out."""
        suppressed = [token for token in as_ids(options.suppress_tokens) if token < len(self.of_id)]
        bad_words = [_check_ids(ids, len(self.of_id)) for ids in options.bad_words_ids or ()]
        return replace(
            options,
            decoder_start_token_id=int(self.of_id[options.decoder_start_token_id]),
            pad_token_id=int(self.of_id[options.pad_token_id]),
            eos_token_id=self._columns(options.eos_ids),
            bad_words_ids=tuple(self._columns(ids) for ids in bad_words if (self.of_id[ids] >= 0).all()) or None,
            suppress_tokens=tuple(column for column in self._columns(suppressed) if column >= 0) or None,
            forced_bos_token_id=next(iter(self._columns(as_ids(options.forced_bos_token_id))), None),
            forced_eos_token_id=self._columns(as_ids(options.forced_eos_token_id)) or None,
        )

    def _columns(self, ids: Sequence[int] | Ids) -> tuple[int, ...]:
        return tuple(int(self.of_id[token]) for token in ids)


class ColumnState(DecoderState):
    """A decoder state that takes columns instead of token ids."""

    def __init__(self, state: DecoderState, token_ids: Ids) -> None:
        self.state, self.token_ids = state, token_ids

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        return self.state.step(self.token_ids[tokens], rows)


def _forced(options: GenerationOptions) -> tuple[int, ...]:
    return (*as_ids(options.forced_bos_token_id), *as_ids(options.forced_eos_token_id))


def _check_ids(ids: Sequence[int], vocabulary_size: int) -> Ids:
    checked = np.array(ids, dtype=np.int64)
    if checked.size and checked.max() >= vocabulary_size:
        raise WrongValueError(f"the options name the token {checked.max()}, but the vocabulary has {vocabulary_size}")
    return checked
