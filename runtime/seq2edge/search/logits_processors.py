"""Logits processors: change the scores of the next token before it is chosen, in the order of Hugging Face.

A processor takes the tokens of every row so far, prefix included, and the scores of the next token, which it may
overwrite. Only those that the options need are created, so a plain search has none. To add one: give
``GenerationOptions`` a field, write the processor here, and add it to ``_processors`` or ``_sampling_filters``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2edge.config.generation import GenerationOptions, as_ids
from seq2edge.errors import WrongValueError
from seq2edge.search.interface import DecoderState
from seq2edge.search.log_softmax import log_softmax
from seq2edge.search.top_k import top_k
from seq2edge.search.types import BatchContext, Flags, Ids, Scores, TopK

Process = Callable[[Ids, Scores], Scores]  # (R, T), (R, V) -> (R, V)
MOST_FORBIDDEN = 64  # above this, fetching all logits beats asking the decoder for so many more tokens


class LogitsProcessor(NamedTuple):
    """A processor, and what the search can know about it without calling it."""

    process: Process
    lengths: range | None = None  # sequence lengths at which it changes anything; None: all
    forbids: bool = False  # it only forbids tokens, so it works on logits and log-probabilities alike
    tokens: tuple[int, ...] | None = None  # the tokens that it forbids, if they are the same for all sequences

    def applies(self, length: int) -> bool:
        return self.lengths is None or length in self.lengths


class LogitsProcessors:
    """All processors of a search: those of the options, the caller's hook, and the filters of sampling."""

    def __init__(self, options: GenerationOptions, prefix_length: int, context: BatchContext) -> None:
        self.processors = _processors(options, prefix_length)
        self.hook = context.hook
        self.sentence_ids = None if context.sentence_ids is None else np.asarray(context.sentence_ids, dtype=np.int64)
        self.filters = _sampling_filters(options) if options.do_sample else []
        if options.renormalize_logits:
            self.filters.append(renormalize)

    def __bool__(self) -> bool:
        """Whether there is any processor at all, at whatever length."""
        return bool(self.hook or self.filters or self.processors)

    def needed(self, length: int) -> bool:
        """Whether any of them applies to sequences of this length."""
        return bool(self.hook or self.filters) or any(one.applies(length) for one in self.processors)

    def only_forbid(self, length: int) -> bool:
        """Whether all that apply to sequences of this length only forbid tokens."""
        return not (self.hook or self.filters) and all(one.forbids for one in self.processors if one.applies(length))

    def forbidden(self, length: int) -> tuple[int, ...] | None:
        """Return the tokens forbidden to all sequences of this length; None if more than that applies."""
        if self.hook or self.filters:
            return None
        active = [one for one in self.processors if one.applies(length)]
        if any(one.tokens is None for one in active):
            return None
        return tuple(dict.fromkeys(token for one in active for token in one.tokens or ()))

    def top_k(self, state: DecoderState, tokens: Ids, rows: Ids, k: int, length: int) -> TopK | None:
        """Let the decoder select the best allowed tokens; None if the processors have to see all scores.

        If some tokens are forbidden, a decoder that selects on its device is asked for as many more.
        """
        forbidden = self.forbidden(length)
        if forbidden == ():
            return state.top_k(tokens, rows, k)
        if forbidden is None or len(forbidden) > MOST_FORBIDDEN or not state.selects_on_device:
            return None
        return _without(state.top_k(tokens, rows, k + len(forbidden)), forbidden, k)

    def __call__(self, sentences: Ids, tokens: Ids, scores: Scores) -> Scores:  # (R,), (R, T), (R, V) -> (R, V)
        for one in self.processors:
            if one.applies(tokens.shape[1]):
                scores = one.process(tokens, scores)
        if self.hook is not None:
            ids = sentences if self.sentence_ids is None else self.sentence_ids[sentences]
            scores = _check_hook(self.hook(ids, tokens.copy(), scores), scores.shape)  # a hook may write to its copy
        for filter_scores in self.filters:
            scores = filter_scores(tokens, scores)
        return scores


def _without(best: TopK, forbidden: tuple[int, ...], k: int) -> TopK:
    """Drop the forbidden tokens and keep k others."""
    banned = np.isin(best.tokens, forbidden)
    scores = np.where(banned, np.float32(-np.inf), best.log_probabilities)
    order = np.argsort(banned, axis=-1, kind="stable")[..., :k]  # allowed tokens first
    return TopK(np.take_along_axis(best.tokens, order, axis=-1), np.take_along_axis(scores, order, axis=-1))


def _processors(options: GenerationOptions, prefix_length: int) -> list[LogitsProcessor]:
    processors: list[LogitsProcessor] = []
    shortest, longest = options.shortest(prefix_length), options.longest(prefix_length)
    if options.repetition_penalty != 1:
        processors.append(LogitsProcessor(repetition_penalty(options.repetition_penalty)))
    if options.no_repeat_ngram_size > 0:
        processors.append(LogitsProcessor(no_repeat_ngram(options.no_repeat_ngram_size), forbids=True))
    bad_words = [ids for ids in options.bad_words_ids or () if len(ids) > 1 or ids[0] not in options.eos_ids]
    if bad_words:
        single = tuple(ids[0] for ids in bad_words) if all(len(ids) == 1 for ids in bad_words) else None
        processors.append(LogitsProcessor(no_bad_words(bad_words), forbids=True, tokens=single))
    if shortest > prefix_length:
        process = no_end_before(shortest, options.eos_ids)
        processors.append(LogitsProcessor(process, range(shortest), forbids=True, tokens=options.eos_ids))
    if options.forced_bos_token_id is not None:
        processors.append(LogitsProcessor(force_at(1, (options.forced_bos_token_id,)), range(1, 2)))
    if options.forced_eos_token_id is not None:
        forced = as_ids(options.forced_eos_token_id)
        processors.append(LogitsProcessor(force_at(longest - 1, forced), range(longest - 1, longest)))
    if options.suppress_tokens:
        suppressed = tuple(options.suppress_tokens)
        processors.append(LogitsProcessor(suppress(suppressed), forbids=True, tokens=suppressed))
    return processors


def _sampling_filters(options: GenerationOptions) -> list[Process]:
    """Return the filters of sampling; a beam search must keep at least one token that is not an end token."""
    least = len(options.eos_ids) + 1 if options.num_beams > 1 else 1
    filters: list[Process] = []
    if options.temperature != 1:
        filters.append(temperature(options.temperature))
    if options.top_k > 0:
        filters.append(keep_top_k(max(options.top_k, least)))
    if options.top_p < 1:
        filters.append(keep_top_p(options.top_p, least))
    return filters


def _check_hook(changed: Scores, shape: tuple[int, ...]) -> Scores:
    """Refuse scores from a hook that have another shape or are NaN or plus infinity."""
    changed = np.asarray(changed, dtype=np.float32)
    if changed.shape != shape:
        raise WrongValueError(f"the hook returned scores of the shape {changed.shape}, but must return {shape}")
    highest = changed.max(initial=-np.inf)  # NaN if any is
    if np.isnan(highest):
        raise WrongValueError("the hook returned scores that are not numbers (NaN): use -inf to forbid a token")
    if highest == np.inf:
        raise WrongValueError("the hook returned an infinite score: use a large number instead of inf to favor a token")
    return changed


def repetition_penalty(penalty: float) -> Process:
    """Lower the scores of tokens that the sequence has already, prefix included."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        rows, columns = np.nonzero(tokens < scores.shape[1])  # a start token may lie outside the vocabulary
        used = rows, tokens[rows, columns]
        scores[used] = np.where(scores[used] < 0, scores[used] * penalty, scores[used] / penalty)
        return scores

    return process


def no_repeat_ngram(size: int) -> Process:
    """Forbid a token that would complete an n-gram of this size a second time."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        length = tokens.shape[1]
        if length < size:
            return scores
        windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)  # (R, T - size + 1, size)
        begun = tokens[:, None, length + 1 - size :]  # (R, 1, size - 1)
        rows, starts = np.nonzero((windows[..., :-1] == begun).all(axis=2))
        last = windows[rows, starts, -1]
        inside = last < scores.shape[1]
        scores[rows[inside], last[inside]] = -np.inf
        return scores

    return process


def no_bad_words(bad_words: Sequence[tuple[int, ...]]) -> Process:
    """Forbid a token that would complete one of these sequences."""
    highest = max(max(ids) for ids in bad_words)

    def process(tokens: Ids, scores: Scores) -> Scores:
        if highest >= scores.shape[1]:
            raise WrongValueError(f"bad_words_ids holds the token {highest}, but the vocabulary has {scores.shape[1]}")
        for *begin, last in bad_words:
            if len(begin) <= tokens.shape[1]:
                begun = (tokens[:, tokens.shape[1] - len(begin) :] == begin).all(axis=1)  # (R,)
                scores[begun, last] = -np.inf
        return scores

    return process


def no_end_before(length: int, eos: Sequence[int]) -> Process:
    """Forbid the end tokens until a sequence has this many tokens; ids outside the vocabulary are ignored."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        if tokens.shape[1] < length:
            for token in eos:  # they are few: faster than all at once
                scores[:, token : token + 1] = -np.inf
        return scores

    return process


def force_at(length: int, forced: Sequence[int]) -> Process:
    """Forbid all but these tokens when a sequence has this many tokens."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        if tokens.shape[1] == length:
            scores[:] = -np.inf
            scores[:, list(forced)] = 0
        return scores

    return process


def suppress(ids: Sequence[int]) -> Process:
    """Forbid these tokens; ids outside the vocabulary are ignored, as in transformers."""
    banned = np.asarray(ids)

    def process(tokens: Ids, scores: Scores) -> Scores:
        scores[:, banned[banned < scores.shape[1]]] = -np.inf
        return scores

    return process


def renormalize(tokens: Ids, scores: Scores) -> Scores:
    """Turn the scores into log-probabilities, which gives the others the probability of forbidden tokens."""
    return log_softmax(scores)


def temperature(value: float) -> Process:
    return lambda tokens, scores: scores / value


def keep_top_k(k: int) -> Process:
    """Forbid tokens that are less likely than the k-th most likely one; ties stay."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        _, kept = top_k(scores, min(k, scores.shape[1]))  # (R, k)
        scores[scores < kept[:, -1:]] = -np.inf
        return scores

    return process


def keep_top_p(p: float, least: int) -> Process:
    """Forbid the least likely tokens whose total probability is at most 1 - p."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        order = np.argsort(scores, axis=1, kind="stable")  # least likely first
        with np.errstate(invalid="ignore"):  # a row where all is forbidden stays so
            weights = np.exp(np.take_along_axis(scores, order, axis=1) - scores.max(axis=1, keepdims=True))
            summed = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
        removed = summed <= 1 - p  # (R, V), in that order
        removed[:, -least:] = False
        rows, columns = np.nonzero(removed)
        scores[rows, order[rows, columns]] = -np.inf
        return scores

    return process


def one_is_forbidden(scores: Scores) -> bool:
    """Whether any score is that of a forbidden token; none may be NaN."""
    return bool(np.minimum.reduce(scores, axis=None, initial=np.inf) == -np.inf)


def check_allowed(best: Scores) -> None:
    """Raise an error if the best token of a row is forbidden, that is, if all its tokens are."""
    if one_is_forbidden(best):
        raise WrongValueError("the options or the hook forbid every token, so none can be chosen: allow at least one")


def is_end(tokens: Ids, eos: Sequence[int]) -> Flags:
    """Tell which tokens are end tokens; several times faster than ``np.isin`` for so few."""
    first, *others = eos
    found: Flags = tokens == first
    for other in others:
        found |= tokens == other
    return found
