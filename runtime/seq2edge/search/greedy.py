"""Greedy search: take the most likely token at each step."""

from collections.abc import Iterator

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import log_normalizer_at
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, is_end
from seq2edge.search.sampling import StepTokens, collect
from seq2edge.search.types import BatchContext, Ids, Scores, StepOutput


def greedy(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> list[list[Hypothesis]]:
    """Return one hypothesis for each sentence."""
    steps = greedy_steps(state, prefixes, options, context)
    return [[one] for one in collect(steps, len(prefixes))]


def greedy_steps(
    state: DecoderState, prefixes: Ids, options: GenerationOptions, context: BatchContext
) -> Iterator[StepTokens]:
    """Yield the tokens of each step; a sentence leaves the batch when it has ended."""
    processors = LogitsProcessors(options, prefixes.shape[1], context)
    sentences = np.arange(len(prefixes), dtype=np.int64)  # (B,): those that have not ended
    each = rows = sentences  # (B,): 0, 1, ..., and the row that each of them continues
    tokens = sequences = prefixes  # (B, T), (B, length)
    for length in range(prefixes.shape[1], options.longest(prefixes.shape[1])):
        best = processors.top_k(state, tokens[:, None], rows[:, None], 1, length)
        if best is not None:
            chosen, log_probabilities = best.tokens[:, 0, 0], best.log_probabilities[:, 0, 0]  # (B,) each
            check_allowed(log_probabilities)
        else:
            output = state.step(tokens[:, None], rows[:, None])
            chosen, log_probabilities = _most_likely(output, each, sentences, sequences, processors)
        ended = is_end(chosen, options.eos_ids)
        yield StepTokens(sentences, chosen, log_probabilities, ended)
        tokens = chosen[:, None]
        sequences = np.concatenate([sequences, tokens], axis=1) if processors else sequences
        rows = each
        if ended.any():
            rows = np.flatnonzero(~ended)
            each = np.arange(len(rows))
            sentences, tokens, sequences = sentences[rows], tokens[rows], sequences[rows]
        if not len(rows):
            break


def _most_likely(
    output: StepOutput, each: Ids, sentences: Ids, sequences: Ids, processors: LogitsProcessors
) -> tuple[Ids, Scores]:  # (B,) each
    """Return the tokens chosen after the logits processors, and their log-probabilities before them."""
    logits = output.logits[:, 0]  # (B, V)
    chosen: Ids = logits.argmax(axis=1)
    peak = logits[each, chosen]  # before anything is forbidden
    log_total = log_normalizer_at(logits, peak[:, None], output.log_normalizer)[:, 0]
    if processors.only_forbid(sequences.shape[1]):
        best = _choose_again(chosen, peak, processors(sentences, sequences, logits), each)
        check_allowed(best)
        return chosen, (best - peak) - log_total
    scores = processors(sentences, sequences, logits.copy())
    chosen = scores.argmax(axis=1)
    check_allowed(scores[each, chosen])
    return chosen, (logits[each, chosen] - peak) - log_total


def _choose_again(chosen: Ids, peak: Scores, scores: Scores, each: Ids) -> Scores:  # (B,), (B,), (B, V), (B,) -> (B,)
    """Replace chosen tokens that are now forbidden by the best allowed ones; return the scores of the final choice.

    Forbidding tokens cannot change the choice of any other row.
    """
    best: Scores = scores[each, chosen]
    forbidden = best < peak
    if forbidden.any():
        chosen[forbidden] = scores[forbidden].argmax(axis=1)
        best = scores[each, chosen]
    return best
