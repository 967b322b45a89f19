"""Search for the best continuation of a prefix with any decoder that can take one step."""

from collections.abc import Sequence

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import WrongValueError
from seq2edge.search.beam import beam_search
from seq2edge.search.greedy import greedy
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import Hook, Ids, Scores, Step
from seq2edge.search.restricted_vocabulary import restrict
from seq2edge.search.sampling import sample
from seq2edge.search.streaming import StreamingSearch

__all__ = ["Hook", "Hypothesis", "Ids", "Scores", "Step", "StreamingSearch", "prefix_block", "search"]


def search(
    step: Step,
    prefixes: Sequence[Sequence[int]],
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    parts: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> list[list[Hypothesis]]:
    """Give ``num_return_sequences`` hypotheses for each sentence, best first.

    A prefix is the start token and what the output has to begin with; those of one call have one length.
    ``numbers`` names the sentences, so that one draws the same samples in every batch and a hook knows it; 0, 1, ...
    unless given. Those of one number are ``parts`` of one text, which draw apart. ``hook`` may change the scores at
    each step, after the options have.
    """
    if not prefixes:
        return []
    task = restrict(step, prefix_block(prefixes, options), options, hook)
    found = _search(task.step, task.prefixes, task.options, numbers=numbers, parts=parts, hook=hook)
    return found if task.words is None else [[task.told(one) for one in several] for several in found]


def _search(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None,
    parts: Sequence[int] | None,
    hook: Hook | None,
) -> list[list[Hypothesis]]:
    if options.num_beams > 1:
        return beam_search(step, prefixes, options, numbers=numbers, parts=parts, hook=hook)
    if options.do_sample:
        return sample(step, prefixes, options, numbers=numbers, parts=parts, hook=hook)
    return greedy(step, prefixes, options, numbers=numbers, hook=hook)


def prefix_block(prefixes: Sequence[Sequence[int]], options: GenerationOptions) -> Ids:  # (B, T)
    """Prefixes as one array, after a check that there is something to add to them."""
    lengths = sorted({len(prefix) for prefix in prefixes})
    if len(lengths) > 1:
        raise WrongValueError(
            f"the prefixes have the lengths {lengths}, but must have one: search for each length alone"
        )
    if lengths[0] < 1:
        raise WrongValueError("the prefixes are empty, but must hold at least the start token")
    if lengths[0] >= options.longest(lengths[0]):
        raise WrongValueError(
            f"the prefixes have {lengths[0]} tokens, but max_length is {options.max_length}: raise it"
        )
    return np.array(prefixes, dtype=np.int64)
