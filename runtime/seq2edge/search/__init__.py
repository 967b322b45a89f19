"""Greedy, beam and sampling search over any decoder that implements ``DecoderState``."""

from collections.abc import Sequence

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import WrongValueError
from seq2edge.search.beam import beam_search
from seq2edge.search.greedy import greedy
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import DecoderState
from seq2edge.search.plain import is_plain, plain_beam_search, plain_greedy
from seq2edge.search.restricted_vocabulary import restrict
from seq2edge.search.sampling import sample
from seq2edge.search.streaming import StreamingSearch
from seq2edge.search.types import BatchContext, Flags, Hook, Ids, Scores, StepOutput, TopK

__all__ = [
    "BatchContext",
    "DecoderState",
    "Flags",
    "Hook",
    "Hypothesis",
    "Ids",
    "Scores",
    "StepOutput",
    "StreamingSearch",
    "TopK",
    "prefix_block",
    "search",
]

NO_CONTEXT = BatchContext()


def search(
    state: DecoderState,
    prefixes: Sequence[Sequence[int]],
    options: GenerationOptions,
    context: BatchContext = NO_CONTEXT,
) -> list[list[Hypothesis]]:
    """Return ``num_return_sequences`` hypotheses for each sentence, best first.

    A prefix is the start token and what the output has to begin with; all prefixes of a call have the same length.
    """
    if not prefixes:
        return []
    restricted = restrict(state, prefix_block(prefixes, options), options, context)
    found = _search(restricted.state, restricted.prefixes, restricted.options, context)
    return [[restricted.to_hypothesis(one) for one in hypotheses] for hypotheses in found]


def _search(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> list[list[Hypothesis]]:
    if is_plain(state, prefixes, options, context):
        plain = plain_beam_search if options.num_beams > 1 else plain_greedy
        return plain(state, prefixes, options)
    if options.num_beams > 1:
        return beam_search(state, prefixes, options, context)
    if options.do_sample:
        return sample(state, prefixes, options, context)
    return greedy(state, prefixes, options, context)


def prefix_block(prefixes: Sequence[Sequence[int]], options: GenerationOptions) -> Ids:  # (B, T)
    """Return the prefixes as one array, after checking that something can be appended to them."""
    lengths = sorted({len(prefix) for prefix in prefixes})
    if len(lengths) > 1:
        raise WrongValueError(f"the prefixes have the lengths {lengths}, but must have one: search for each separately")
    if lengths[0] < 1:
        raise WrongValueError("the prefixes are empty, but must hold at least the start token")
    if lengths[0] >= options.longest(lengths[0]):
        raise WrongValueError(
            f"the prefixes have {lengths[0]} tokens, but max_length is {options.max_length}: raise it"
        )
    return np.array(prefixes, dtype=np.int64)
