"""Draw tokens at random, in a way that only the seed and the sentence decide.

Make tokens one after another, each output on its own: what greedy search and sampling share.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import Flags, Hook, Ids, Scores, Step
from seq2edge.search.log_softmax import chosen_log_probabilities
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, is_end

Choose = Callable[[Scores, Ids], Ids]  # scores (R, V) and which output each row is (R,) -> a token for each row (R,)


class StepTokens(NamedTuple):
    """The tokens of one step; an output that has ended does not come again."""

    outputs: Ids  # (R,), where output k of sentence n is n * K + k
    tokens: Ids  # (R,)
    log_probabilities: Scores  # (R,)
    ended: Flags  # (R,)


def decode_independently(
    step: Step,
    prefixes: Ids,
    choose: Choose,
    processors: LogitsProcessors,
    options: GenerationOptions,
    *,
    copies: int = 1,
) -> Iterator[StepTokens]:
    """Choose a token for every output that has not ended; a sentence leaves the batch with the last of its outputs.

    N sentences have K outputs each; B sentences and R outputs are still going.
    """
    limit = options.longest(prefixes.shape[1])
    sequences = _room(prefixes, copies, limit, options.pad_token_id)  # (N, K, limit)
    going = np.ones(sequences.shape[:2], dtype=bool)  # (N, K)
    sentences = np.arange(len(prefixes), dtype=np.int64)  # (B,)
    tokens, rows = prefixes[:, None, :], sentences[:, None]  # (B, 1, T), (B, 1): all outputs of a sentence are equal
    for length in range(prefixes.shape[1], limit):
        logits = _rows_going(step(tokens, rows), going[sentences])  # (R, V)
        outputs = np.flatnonzero(going)  # (R,)
        scores = logits
        if processors.needed(length):
            scores = processors(outputs // copies, sequences[going, :length], logits.copy())
        chosen = choose(scores, outputs)  # (R,)
        ended = is_end(chosen, options.eos_ids)
        yield StepTokens(outputs, chosen, chosen_log_probabilities(logits, chosen), ended)
        sequences[going, length] = chosen
        going[going] = ~ended
        left = going[sentences].any(axis=1)  # (B,)
        if not left.any():
            break
        rows = _continued(rows, copies)[left]
        sentences = sentences[left]
        tokens = sequences[sentences, :, length, None]  # (B, K, 1)


def collect(steps: Iterable[StepTokens], count: int) -> list[Hypothesis]:
    """Put the tokens of each output together."""
    made = list(steps)
    outputs = np.concatenate([one.outputs for one in made])
    order = np.argsort(outputs, kind="stable")
    ends = np.cumsum(np.bincount(outputs, minlength=count))[:-1]
    tokens, scores, ended = (
        [part.tolist() for part in np.split(np.concatenate(parts)[order], ends)]
        for parts in zip(*((one.tokens, one.log_probabilities, one.ended) for one in made), strict=True)
    )
    return [
        Hypothesis(tokens=tokens[i], score=sum(scores[i]), token_scores=scores[i], ended=ended[i][-1])
        for i in range(count)
    ]


def _room(prefixes: Ids, copies: int, limit: int, pad: int) -> Ids:
    """The prefixes with room for what follows; an output that has ended goes on with padding."""
    sequences = np.full((len(prefixes), copies, limit), pad, dtype=np.int64)
    sequences[:, :, : prefixes.shape[1]] = prefixes[:, None, :]
    return sequences


def _rows_going(logits: Scores, going: Flags) -> Scores:  # (B, 1 or K, V), (B, K) -> (R, V)
    """The rows of outputs that have not ended; in the first call one row stands for all outputs of a sentence."""
    if logits.shape[1] == 1 and going.all():
        return np.repeat(logits[:, 0], going.shape[1], axis=0) if going.shape[1] > 1 else logits[:, 0]
    return logits[going]


def _continued(rows: Ids, copies: int) -> Ids:  # (B, K)
    """Every output continues its own row of the last call."""
    count, rows_before = rows.shape
    first = np.arange(count, dtype=np.int64)[:, None] * rows_before  # (B, 1)
    continued: Ids = first + np.arange(copies) % rows_before
    return continued


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
) -> Iterator[StepTokens]:
    """The same, token by token as they are drawn."""
    copies = options.num_return_sequences
    draw = TokenSampler(generators(options.seed, len(prefixes), numbers, parts, copies=copies))
    return decode_independently(
        step, prefixes, draw, LogitsProcessors(options, prefixes.shape[1], hook, numbers), options, copies=copies
    )


class TokenSampler:
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


class GumbelNoise:
    """Add Gumbel noise to log-probabilities: the highest k are then k draws without replacement, in their order."""

    def __init__(self, random: "list[np.random.Generator]") -> None:
        self.random = random

    def __call__(self, scores: Scores, sentences: Ids) -> Scores:  # (R, V), (B,) -> (R, V)
        size = len(scores) // len(sentences), scores.shape[1]
        drawn = np.concatenate([self.random[sentence].gumbel(size=size) for sentence in sentences])
        return scores + drawn.astype(np.float32)


def noise_for(
    options: GenerationOptions, count: int, numbers: Sequence[int] | None, parts: Sequence[int] | None
) -> GumbelNoise:
    return GumbelNoise(generators(options.seed, count, numbers, parts))


def generators(
    seed: int | None, count: int, numbers: Sequence[int] | None, parts: Sequence[int] | None, *, copies: int = 1
) -> "list[np.random.Generator]":
    """A source of randomness for each output, which depends on the seed, its sentence's number and its part alone."""
    entropy = np.random.SeedSequence(seed).entropy
    named = zip(range(count) if numbers is None else numbers, [0] * count if parts is None else parts, strict=True)
    keys = [(number, part, copy) for number, part in named for copy in range(copies)]
    return [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)) for key in keys]
