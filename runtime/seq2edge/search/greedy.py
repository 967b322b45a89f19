"""Take the likeliest token at each step; needs numpy."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.generation import GenerationOptions
from seq2edge.search.forbidden import check_allowed
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.processors import Processors
from seq2edge.search.step import Hook, Ids, Scores, Step
from seq2edge.search.walk import Made, collect, walk


def greedy(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence: its likeliest tokens one by one."""
    steps = greedy_steps(step, prefixes, options, numbers=numbers, hook=hook)
    return [[one] for one in collect(steps, len(prefixes))]


def greedy_steps(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> Iterator[Made]:
    """The same, token by token as they are made."""
    return walk(step, prefixes, _likeliest, Processors(options, prefixes.shape[1], hook, numbers), options)


def _likeliest(scores: Scores, outputs: Ids) -> Ids:  # (R, V) -> (R,)
    chosen: Ids = scores.argmax(axis=1)
    check_allowed(scores[np.arange(len(chosen)), chosen])
    return chosen
