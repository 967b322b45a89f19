"""Draw tokens at random, in a way that only the seed and the sentence decide; needs numpy."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.generation import GenerationOptions
from seq2edge.search.forbidden import check_allowed
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.processors import Processors
from seq2edge.search.step import Hook, Ids, Scores, Step
from seq2edge.search.walk import Made, collect, walk


def sample(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    parts: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> list[list[Hypothesis]]:
    """Draw ``num_return_sequences`` hypotheses for each sentence, the likeliest of them first."""
    copies = options.num_return_sequences
    steps = sample_steps(step, prefixes, options, numbers=numbers, parts=parts, hook=hook)
    outputs = collect(steps, len(prefixes) * copies)
    groups = (outputs[start : start + copies] for start in range(0, len(outputs), copies))
    return [sorted(group, key=lambda one: -one.score) for group in groups]


def sample_steps(
    step: Step,
    prefixes: Ids,
    options: GenerationOptions,
    *,
    numbers: Sequence[int] | None = None,
    parts: Sequence[int] | None = None,
    hook: Hook | None = None,
) -> Iterator[Made]:
    """The same, token by token as they are drawn."""
    copies = options.num_return_sequences
    draw = Draw(generators(options.seed, len(prefixes), numbers, parts, copies=copies))
    return walk(step, prefixes, draw, Processors(options, prefixes.shape[1], hook, numbers), options, copies=copies)


class Draw:
    """Draw one token for each row, with one random number of the output that the row belongs to."""

    def __init__(self, random: "list[np.random.Generator]") -> None:
        self.random = random

    def __call__(self, scores: Scores, outputs: Ids) -> Ids:  # (R, V), (R,) -> (R,)
        peak = scores.max(axis=1, keepdims=True)
        check_allowed(peak)
        summed = np.exp(scores - peak, dtype=np.float64).cumsum(axis=1)  # (R, V)
        drawn = np.array([self.random[output].random() for output in outputs]) * summed[:, -1]
        chosen: Ids = (summed > drawn[:, None]).argmax(axis=1)  # never a token of probability 0: it adds nothing
        return chosen


class Noise:
    """Add Gumbel noise to log-probabilities: the highest k are then k draws without replacement, in their order."""

    def __init__(self, random: "list[np.random.Generator]") -> None:
        self.random = random

    def __call__(self, scores: Scores, sentences: Ids) -> Scores:  # (R, V), (B,) -> (R, V)
        size = len(scores) // len(sentences), scores.shape[1]
        drawn = np.concatenate([self.random[sentence].gumbel(size=size) for sentence in sentences])
        return scores + drawn.astype(np.float32)


def noise_for(
    options: GenerationOptions, count: int, numbers: Sequence[int] | None, parts: Sequence[int] | None
) -> Noise:
    return Noise(generators(options.seed, count, numbers, parts))


def generators(
    seed: int | None, count: int, numbers: Sequence[int] | None, parts: Sequence[int] | None, *, copies: int = 1
) -> "list[np.random.Generator]":
    """A source of randomness for each output, which depends on the seed, its sentence's number and its part alone."""
    entropy = np.random.SeedSequence(seed).entropy
    named = zip(range(count) if numbers is None else numbers, [0] * count if parts is None else parts, strict=True)
    keys = [(number, part, copy) for number, part in named for copy in range(copies)]
    return [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)) for key in keys]
