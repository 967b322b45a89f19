"""Changes of the scores before a token is chosen, in Hugging Face's order.

Each processor takes the tokens of every row so far, prefix included, and the scores of the next token, which it may
overwrite. Only those that an option asks for are made, so the list is empty in a plain search.

Notice when the options or a hook leave no token to choose.

Which tokens end an output.

Let a step choose the best tokens itself, where the options leave it the choice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from seq2edge.config.generation import GenerationOptions, as_ids
from seq2edge.errors import NotANumberError, WrongValueError
from seq2edge.search.interface import ChoosingStep, Flags, Hook, Ids, Scores, Step
from seq2edge.search.log_softmax import log_softmax
from seq2edge.search.top_k import top_k

Processor = Callable[[Ids, Scores], Scores]  # (R, T), (R, V) -> (R, V)


class LogitsProcessor(NamedTuple):
    """What an option asks for; at other lengths it would change nothing, so it need not be asked."""

    process: Processor
    lengths: range | None = None  # tokens of a sequence so far; none: all
    forbids: bool = False  # it does nothing else, so it says the same of logits as of log-probabilities
    tokens: tuple[int, ...] | None = None  # what it forbids, if that is the same for all sequences

    def at(self, length: int) -> bool:
        return self.lengths is None or length in self.lengths


class LogitsProcessors:
    """All that these options ask for: their rules, the caller's hook, the filters of sampling, the sum of 1 again.

    ``numbers`` are the names that the hook knows the sentences by; 0, 1, ... unless given.
    """

    def __init__(
        self,
        options: GenerationOptions,
        prefix_length: int,
        hook: Hook | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.rules = _rules(options, prefix_length)
        self.hook = hook
        self.numbers = None if numbers is None else np.asarray(numbers, dtype=np.int64)
        self.filters = _filters(options) if options.do_sample else []
        if options.renormalize_logits:
            self.filters.append(renormalize)

    def __bool__(self) -> bool:
        """Whether there is anything at all, at whatever length."""
        return bool(self.hook or self.filters or self.rules)

    def needed(self, length: int) -> bool:
        """Whether any of it applies to sequences of this length; where not, a search is faster."""
        return bool(self.hook or self.filters) or any(rule.at(length) for rule in self.rules)

    def only_forbid(self, length: int) -> bool:
        """Whether all that applies to sequences of this length is to forbid tokens."""
        return not (self.hook or self.filters) and all(rule.forbids for rule in self.rules if rule.at(length))

    def forbidden(self, length: int) -> tuple[int, ...] | None:
        """The tokens that no sequence of this length may have next; None where that is not all that applies."""
        rules = [rule for rule in self.rules if rule.at(length)]
        if self.hook or self.filters or any(rule.tokens is None for rule in rules):
            return None
        return tuple(dict.fromkeys(token for rule in rules for token in rule.tokens or ()))

    def __call__(self, sentences: Ids, tokens: Ids, scores: Scores) -> Scores:  # (R,), (R, T), (R, V) -> (R, V)
        for rule in self.rules:
            if rule.at(tokens.shape[1]):
                scores = rule.process(tokens, scores)
        if self.hook is not None:
            named = sentences if self.numbers is None else self.numbers[sentences]
            scores = checked(self.hook(named, tokens.copy(), scores), scores.shape)  # the tokens are ours
        for narrow in self.filters:
            scores = narrow(tokens, scores)
        return scores


def _rules(options: GenerationOptions, prefix_length: int) -> list[LogitsProcessor]:
    rules: list[LogitsProcessor] = []
    shortest, longest = options.shortest(prefix_length), options.longest(prefix_length)
    if options.repetition_penalty != 1:
        rules.append(LogitsProcessor(repetition_penalty(options.repetition_penalty)))
    if options.no_repeat_ngram_size > 0:
        rules.append(LogitsProcessor(no_repeat_ngram(options.no_repeat_ngram_size), forbids=True))
    words = [word for word in options.bad_words_ids or () if len(word) > 1 or word[0] not in options.eos_ids]
    if words:
        single = tuple(word[0] for word in words) if all(len(word) == 1 for word in words) else None
        rules.append(LogitsProcessor(no_bad_words(words), forbids=True, tokens=single))
    if shortest > prefix_length:
        rules.append(
            LogitsProcessor(
                no_end_before(shortest, options.eos_ids), range(shortest), forbids=True, tokens=options.eos_ids
            )
        )
    if options.forced_bos_token_id is not None:
        rules.append(LogitsProcessor(force_at(1, (options.forced_bos_token_id,)), range(1, 2)))
    if options.forced_eos_token_id is not None:
        forced = as_ids(options.forced_eos_token_id)
        rules.append(LogitsProcessor(force_at(longest - 1, forced), range(longest - 1, longest)))
    if options.suppress_tokens:
        suppressed = tuple(options.suppress_tokens)
        rules.append(LogitsProcessor(suppress(suppressed), forbids=True, tokens=suppressed))
    return rules


def _filters(options: GenerationOptions) -> list[Processor]:
    """What narrows the choice in sampling; a beam search must keep a token that is no end token."""
    least = len(options.eos_ids) + 1 if options.num_beams > 1 else 1
    processors: list[Processor] = []
    if options.temperature != 1:
        processors.append(temperature(options.temperature))
    if options.top_k > 0:
        processors.append(keep_top_k(max(options.top_k, least)))
    if options.top_p < 1:
        processors.append(keep_top_p(options.top_p, least))
    return processors


def checked(changed: Scores, shape: tuple[int, ...]) -> Scores:
    """Refuse what a caller's hook must not give back: another shape, what is not a number, what nothing can beat."""
    changed = np.asarray(changed, dtype=np.float32)
    if changed.shape != shape:
        raise WrongValueError(f"the hook gave scores of the shape {changed.shape}, but was given {shape}")
    highest = changed.max(initial=-np.inf)  # NaN if any is
    if np.isnan(highest):
        raise WrongValueError("the hook gave scores that are not numbers (NaN): use -inf to forbid a token")
    if highest == np.inf:
        raise WrongValueError("the hook gave an infinite score: use a large number instead of inf to favour a token")
    return changed


def repetition_penalty(penalty: float) -> Processor:
    """Lower the scores of tokens that were used, prefix included."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        rows, columns = np.nonzero(tokens < scores.shape[1])  # a start token may lie outside the vocabulary
        used = rows, tokens[rows, columns]
        scores[used] = np.where(scores[used] < 0, scores[used] * penalty, scores[used] / penalty)
        return scores

    return process


def no_repeat_ngram(size: int) -> Processor:
    """Forbid a token that would end a sequence of ``size`` tokens that was already there."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        length = tokens.shape[1]
        if length < size:
            return scores
        windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)  # (R, T - size + 1, size)
        begun = tokens[:, None, length + 1 - size :]  # (R, 1, size - 1)
        rows, places = np.nonzero((windows[..., :-1] == begun).all(axis=2))
        last = windows[rows, places, -1]
        inside = last < scores.shape[1]
        scores[rows[inside], last[inside]] = -np.inf
        return scores

    return process


def no_bad_words(words: Sequence[tuple[int, ...]]) -> Processor:
    """Forbid a token that would end one of these sequences."""
    highest = max(max(word) for word in words)

    def process(tokens: Ids, scores: Scores) -> Scores:
        if highest >= scores.shape[1]:
            raise WrongValueError(f"bad_words_ids holds the token {highest}, but the vocabulary has {scores.shape[1]}")
        for *begin, last in words:
            if len(begin) <= tokens.shape[1]:
                begun = (tokens[:, tokens.shape[1] - len(begin) :] == begin).all(axis=1)  # (R,)
                scores[begun, last] = -np.inf
        return scores

    return process


def no_end_before(length: int, eos: Sequence[int]) -> Processor:
    """Forbid the end tokens until a sequence has this many tokens; ids outside the vocabulary are ignored."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        if tokens.shape[1] < length:
            for token in eos:  # they are few: faster than all at once
                scores[:, token : token + 1] = -np.inf
        return scores

    return process


def force_at(length: int, forced: Sequence[int]) -> Processor:
    """Forbid all but these tokens when a sequence has this many tokens."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        if tokens.shape[1] == length:
            scores[:] = -np.inf
            scores[:, list(forced)] = 0
        return scores

    return process


def suppress(ids: Sequence[int]) -> Processor:
    """Forbid these tokens; ids outside the vocabulary are ignored, as in transformers."""
    banned = np.asarray(ids)

    def process(tokens: Ids, scores: Scores) -> Scores:
        scores[:, banned[banned < scores.shape[1]]] = -np.inf
        return scores

    return process


def renormalize(tokens: Ids, scores: Scores) -> Scores:
    """Make log-probabilities of the scores, so that what was forbidden goes to the others."""
    return log_softmax(scores)


def temperature(degree: float) -> Processor:
    return lambda tokens, scores: scores / degree


def keep_top_k(k: int) -> Processor:
    """Forbid what is less likely than the k-th likeliest token; its equals stay."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        _, kept = top_k(scores, min(k, scores.shape[1]))  # (R, k)
        scores[scores < kept[:, -1:]] = -np.inf
        return scores

    return process


def keep_top_p(share: float, least: int) -> Processor:
    """Forbid the unlikeliest tokens that together have a probability of at most 1 - share."""

    def process(tokens: Ids, scores: Scores) -> Scores:
        order = np.argsort(scores, axis=1, kind="stable")  # unlikeliest first
        with np.errstate(invalid="ignore"):  # a row where all is forbidden stays so
            weights = np.exp(np.take_along_axis(scores, order, axis=1) - scores.max(axis=1, keepdims=True))
            summed = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
        removed = summed <= 1 - share  # (R, V), in that order
        removed[:, -least:] = False
        rows, places = np.nonzero(removed)
        scores[rows, order[rows, places]] = -np.inf
        return scores

    return process


def one_is_forbidden(scores: Scores) -> bool:
    """Whether one of some scores, which must be numbers, is that of a forbidden token."""
    return bool(np.minimum.reduce(scores, axis=None, initial=np.inf) == -np.inf)


def check_allowed(best: Scores) -> None:
    """Refuse best scores of which one is forbidden: whatever was chosen there would be made up."""
    if one_is_forbidden(best):
        raise WrongValueError("the options or the hook forbid every token, so none can be chosen: allow at least one")


def is_end(tokens: Ids, eos: Sequence[int]) -> Flags:
    """True where a token is one of the few end tokens; several times faster than ``np.isin`` for so few."""
    first, *others = eos
    found: Flags = tokens == first
    for other in others:
        found |= tokens == other
    return found


MOST_FORBIDDEN = 64  # with more of them, all scores are looked at


class Choice:
    """What a search asks a step that can choose."""

    def __init__(self, step: ChoosingStep, processors: LogitsProcessors) -> None:
        self.step, self.processors = step, processors

    def best(self, tokens: Ids, rows: Ids, count: int, length: int) -> tuple[Ids, Scores] | None:  # (B, K, count) each
        """The best tokens that sequences of this length may have next; None where all scores have to be seen.

        Where some are forbidden, so many more are asked for, and those are left out.
        """
        forbidden = self.processors.forbidden(length)
        if forbidden is None or len(forbidden) > MOST_FORBIDDEN:
            return None
        wanted = min(count + len(forbidden), self.step.vocabulary)
        chosen, scores = self.step.best(tokens, rows, wanted)
        if np.isnan(scores).any():
            raise NotANumberError("the decoder gave scores that are not numbers (NaN): try a higher precision")
        return _allowed(chosen, scores, forbidden, count) if forbidden else (chosen, scores)


def choice_of(step: Step, processors: LogitsProcessors) -> Choice | None:
    """None where the step cannot; asking for the whole protocol takes as long as a step of a small model."""
    return Choice(cast(ChoosingStep, step), processors) if hasattr(step, "best") else None


def _allowed(chosen: Ids, scores: Scores, forbidden: tuple[int, ...], count: int) -> tuple[Ids, Scores]:
    banned = np.isin(chosen, forbidden)
    scores = np.where(banned, np.float32(-np.inf), scores)
    order = np.argsort(banned, axis=-1, kind="stable")[..., :count]  # those that are allowed first
    return np.take_along_axis(chosen, order, axis=-1), np.take_along_axis(scores, order, axis=-1)
