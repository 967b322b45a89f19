"""Take the likeliest token at each step."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.config.generation import GenerationOptions
from seq2edge.search.hypothesis import Hypothesis
from seq2edge.search.interface import Hook, Ids, Scores, Step, SummingStep
from seq2edge.search.log_softmax import as_summing, log_normalizer_at
from seq2edge.search.logits_processors import LogitsProcessors, check_allowed, choice_of, is_end
from seq2edge.search.sampling import StepTokens, collect


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
) -> Iterator[StepTokens]:
    """The same, token by token as they are made; a sentence leaves the batch when it has ended."""
    processors, summing = LogitsProcessors(options, prefixes.shape[1], hook, numbers), as_summing(step)
    choice = choice_of(step, processors)
    sentences = np.arange(len(prefixes), dtype=np.int64)  # (B,): those that go on
    each = rows = sentences  # (B,): 0, 1, ..., and what each of them continues
    tokens = sequences = prefixes  # (B, T), (B, length)
    for length in range(prefixes.shape[1], options.longest(prefixes.shape[1])):
        best = choice.best(tokens[:, None], rows[:, None], 1, length) if choice else None
        if best is not None:
            chosen, log_probabilities = best[0][:, 0, 0], best[1][:, 0, 0]  # (B,) each
            check_allowed(log_probabilities)
        else:
            logits = step(tokens[:, None], rows[:, None])[:, 0]  # (B, V)
            chosen, log_probabilities = _likeliest(logits, each, sentences, sequences, processors, summing)
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


def _likeliest(
    logits: Scores, each: Ids, sentences: Ids, sequences: Ids, processors: LogitsProcessors, summing: SummingStep | None
) -> tuple[Ids, Scores]:  # (B, V) -> (B,) each
    """The tokens, and how likely they are for the model itself."""
    length = sequences.shape[1]
    chosen: Ids = logits.argmax(axis=1)
    peak = logits[each, chosen]  # before anything is forbidden
    log_total = log_normalizer_at(logits, peak[:, None], summing)[:, 0]
    if not processors.needed(length):
        return chosen, -log_total
    if not processors.only_forbid(length):
        scores = processors(sentences, sequences, logits.copy())
        chosen = scores.argmax(axis=1)
        check_allowed(scores[each, chosen])
        return chosen, (logits[each, chosen] - peak) - log_total
    best = _choose_again(chosen, peak, processors(sentences, sequences, logits), each)
    check_allowed(best)
    return chosen, (best - peak) - log_total


def _choose_again(chosen: Ids, peak: Scores, scores: Scores, each: Ids) -> Scores:  # (B,), (B,), (B, V), (B,) -> (B,)
    """Where the likeliest token is forbidden now, take the likeliest that is not; elsewhere it still is the likeliest.

    Gives the scores of what is chosen in the end.
    """
    best: Scores = scores[each, chosen]
    forbidden = best < peak
    if forbidden.any():
        chosen[forbidden] = scores[forbidden].argmax(axis=1)
        best = scores[each, chosen]
    return best
