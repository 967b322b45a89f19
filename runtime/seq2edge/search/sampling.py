"""Sampling: draw tokens at random, so that only the seed and the sentence decide what is drawn."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import check_numbers, chosen_log_probabilities
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, is_end
from seq2edge.search.types import BatchContext, Flags, Ids, Scores


class StepTokens(NamedTuple):
    """The tokens of one step; an output that has ended does not appear again."""

    outputs: Ids  # (R,), where output k of sentence n is n * K + k
    tokens: Ids  # (R,)
    log_probabilities: Scores  # (R,)
    ended: Flags  # (R,)


def sample(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> list[list[Hypothesis]]:
    """Draw ``num_return_sequences`` hypotheses for each sentence, the most likely first."""
    copies = options.num_return_sequences
    outputs = collect(sample_steps(state, prefixes, options, context), len(prefixes) * copies)
    groups = (outputs[start : start + copies] for start in range(0, len(outputs), copies))
    return [sorted(group, key=lambda one: -one.score) for group in groups]


def sample_steps(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> Iterator[StepTokens]:
    """Draw a token for every output that has not ended; a sentence leaves the batch with the last of its outputs.

    N sentences have K outputs each; B sentences and R outputs have not ended.
    """
    copies, limit = options.num_return_sequences, options.longest(prefixes.shape[1])
    draw = TokenSampler(generators_for(options.seed, len(prefixes), context, copies=copies))
    processors = LogitsProcessors(options, prefixes.shape[1], context)
    sequences = _allocate(prefixes, copies, limit, options.pad_token_id)  # (N, K, limit)
    running = np.ones(sequences.shape[:2], dtype=bool)  # (N, K)
    sentences = np.arange(len(prefixes), dtype=np.int64)  # (B,)
    tokens, rows = prefixes[:, None, :], sentences[:, None]  # (B, 1, T), (B, 1): all outputs of a sentence are equal
    for length in range(prefixes.shape[1], limit):
        logits = _running_rows(state.step(tokens, rows).logits, running[sentences])  # (R, V)
        check_numbers(logits)
        outputs = np.flatnonzero(running)  # (R,)
        scores = logits
        if processors.needed(length):
            scores = processors(outputs // copies, sequences[running, :length], logits.copy())
        chosen = draw(scores, outputs)  # (R,)
        ended = is_end(chosen, options.eos_ids)
        yield StepTokens(outputs, chosen, chosen_log_probabilities(logits, chosen), ended)
        sequences[running, length] = chosen
        running[running] = ~ended
        left = running[sentences].any(axis=1)  # (B,)
        if not left.any():
            break
        rows = _continue_rows(rows, copies)[left]
        sentences = sentences[left]
        tokens = sequences[sentences, :, length, None]  # (B, K, 1)


def collect(steps: Iterable[StepTokens], count: int) -> list[Hypothesis]:
    """Join the tokens of each output."""
    taken = list(steps)
    outputs = np.concatenate([one.outputs for one in taken])
    order = np.argsort(outputs, kind="stable")
    ends = np.cumsum(np.bincount(outputs, minlength=count))[:-1]
    tokens, scores, ended = (
        [part.tolist() for part in np.split(np.concatenate(parts)[order], ends)]
        for parts in zip(*((one.tokens, one.log_probabilities, one.ended) for one in taken), strict=True)
    )
    return [
        Hypothesis(tokens=tokens[i], score=sum(scores[i]), token_scores=scores[i], ended=ended[i][-1])
        for i in range(count)
    ]


def _allocate(prefixes: Ids, copies: int, limit: int, pad: int) -> Ids:
    """Return the prefixes with space for the tokens to come; an output that has ended goes on with padding."""
    sequences = np.full((len(prefixes), copies, limit), pad, dtype=np.int64)
    sequences[:, :, : prefixes.shape[1]] = prefixes[:, None, :]
    return sequences


def _running_rows(logits: Scores, running: Flags) -> Scores:  # (B, 1 or K, V), (B, K) -> (R, V)
    """Return the rows of outputs that have not ended; the first call has one row for all outputs of a sentence."""
    if logits.shape[1] == 1 and running.all():
        return np.repeat(logits[:, 0], running.shape[1], axis=0) if running.shape[1] > 1 else logits[:, 0]
    return logits[running]


def _continue_rows(rows: Ids, copies: int) -> Ids:  # (B, K)
    """Let every output continue its own row of the previous call."""
    count, rows_before = rows.shape
    first = np.arange(count, dtype=np.int64)[:, None] * rows_before  # (B, 1)
    continued: Ids = first + np.arange(copies) % rows_before
    return continued


class TokenSampler:
    """Draw one token for each row, with one random number from the generator of its output."""

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
    """Add Gumbel noise to log-probabilities: the top k are then k draws without replacement."""

    def __init__(self, random: "list[np.random.Generator]") -> None:
        self.random = random

    def __call__(self, scores: Scores, sentences: Ids) -> Scores:  # (R, V), (B,) -> (R, V)
        size = len(scores) // len(sentences), scores.shape[1]
        drawn = np.concatenate([self.random[sentence].gumbel(size=size) for sentence in sentences])
        return scores + drawn.astype(np.float32)


def generators_for(seed: int | None, count: int, context: BatchContext, copies: int = 1) -> "list[np.random.Generator]":
    """Return a generator for each output, which depends on the seed, the sentence id and the segment id alone."""
    entropy = np.random.SeedSequence(seed).entropy
    sentence_ids = range(count) if context.sentence_ids is None else context.sentence_ids
    segment_ids = [0] * count if context.segment_ids is None else context.segment_ids
    pairs = zip(sentence_ids, segment_ids, strict=True)
    keys = [(sentence, segment, copy) for sentence, segment in pairs for copy in range(copies)]
    return [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)) for key in keys]
