"""Take the likeliest token at each step; needs numpy."""

from collections.abc import Iterator

from seq2edge.generation import GenerationOptions
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.processors import make_processors
from seq2edge.search.step import Hook, Ids, Scores, Step
from seq2edge.search.walk import Made, collect, walk


def greedy(
    step: Step, prefixes: Ids, options: GenerationOptions, *, hook: Hook | None = None
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence: its likeliest tokens one by one."""
    return [[one] for one in collect(greedy_steps(step, prefixes, options, hook=hook), len(prefixes))]


def greedy_steps(step: Step, prefixes: Ids, options: GenerationOptions, *, hook: Hook | None = None) -> Iterator[Made]:
    """The same, token by token as they are made."""
    processors = make_processors(options, prefixes.shape[1], hook)
    return walk(step, prefixes, _likeliest, processors, options)


def _likeliest(scores: Scores, outputs: Ids) -> Ids:  # (R, V) -> (R,)
    chosen: Ids = scores.argmax(axis=1)
    return chosen
