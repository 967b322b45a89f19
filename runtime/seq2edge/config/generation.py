"""The options of the search, with Hugging Face's names, meaning and defaults."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from seq2edge.config.schema import required, setting

DEFAULT_NEW_TOKENS = 20  # of transformers, where neither max_new_tokens nor max_length is given
STEEPEST = 100  # length penalty, either way; long before, length alone decides
COOLEST = 1e-4  # temperature; scores divided by less may be too large for float32


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How to turn scores into tokens; a checkpoint's ``generation_config.json`` gives the defaults.

    Only ``seed`` is ours; without one, every call of the search draws other samples.
    """

    decoder_start_token_id: int = required("the token that every output begins with")
    eos_token_id: int | tuple[int, ...] = required("the token that ends an output, or several such")
    pad_token_id: int = required("the token that fills up what has ended")

    num_beams: int = setting(1, "partial translations to keep at each step; 1 is greedy search")
    num_return_sequences: int = setting(1, "translations to give for each sentence")
    max_new_tokens: int | None = setting(None, "the most tokens to make; wins over max_length")
    min_new_tokens: int | None = setting(None, "the fewest tokens to make; wins over min_length")
    max_length: int | None = setting(None, "the most tokens to make, start token and prefix included")
    min_length: int = setting(0, "the fewest tokens to make, start token and prefix included")
    length_penalty: float = setting(1.0, "beam scores are divided by length to this power; above 0 favours long")
    early_stopping: Literal[False, True, "never"] = setting(
        False, "stop a beam search at num_beams ended translations, by a heuristic, or when none can improve"
    )
    no_repeat_ngram_size: int = setting(0, "never make the same sequence of this many tokens twice; 0 is off")
    repetition_penalty: float = setting(1.0, "above 1 makes tokens that were already used less likely")
    bad_words_ids: tuple[tuple[int, ...], ...] | None = setting(None, "token sequences that must not be made")
    suppress_tokens: tuple[int, ...] | None = setting(None, "tokens that must not be made")
    forced_bos_token_id: int | None = setting(None, "the first token to make, such as the tag of a language")
    forced_eos_token_id: int | tuple[int, ...] | None = setting(None, "the last token to make at the length limit")
    renormalize_logits: bool = setting(False, "let what is not forbidden have a probability of 1 again, as Marian does")
    do_sample: bool = setting(False, "draw tokens at random instead of taking the likeliest")
    temperature: float = setting(1.0, "when drawing: below 1 is more careful, above 1 is bolder")
    top_k: int = setting(50, "when drawing: only from this many likeliest tokens; 0 is all")
    top_p: float = setting(1.0, "when drawing: only from the likeliest tokens that together have this probability")
    seed: int | None = setting(None, "when drawing: the same seed gives the same samples")

    def __post_init__(self) -> None:
        self._check_at_least(1, "num_beams", "num_return_sequences", "max_new_tokens", "max_length")
        self._check_at_least(0, "min_new_tokens", "min_length", "no_repeat_ngram_size", "top_k", "seed")
        self._check_ids()
        self._check_finite("length_penalty", "repetition_penalty", "temperature", "top_p")
        self._check_at_least(COOLEST, "temperature")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty is {self.repetition_penalty}, but must be above 0")
        if abs(self.length_penalty) > STEEPEST:
            raise ValueError(f"length_penalty is {self.length_penalty}, but must be between -{STEEPEST} and {STEEPEST}")
        if not 0 <= self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, but must be between 0 and 1")
        if self.early_stopping not in (False, True, "never"):
            raise ValueError(f"early_stopping is {self.early_stopping!r}, but must be False, True or 'never'")
        self._check_outputs()
        self._check_forced()

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        return as_ids(self.eos_token_id)

    def longest(self, prefix_length: int) -> int:
        """The length at which a sequence is cut, prefix included."""
        if self.max_new_tokens is not None:
            return prefix_length + self.max_new_tokens
        return prefix_length + DEFAULT_NEW_TOKENS if self.max_length is None else self.max_length

    def shortest(self, prefix_length: int) -> int:
        """The length before which a sequence may not end, prefix included."""
        return self.min_length if self.min_new_tokens is None else prefix_length + self.min_new_tokens

    def within(self, length: int, *, prefix_length: int) -> "GenerationOptions":
        """The same for outputs with such a prefix of a model that makes no sequence longer than ``length``."""
        longest = min(length, self.longest(prefix_length))
        shortest = min(longest, self.shortest(prefix_length))
        return replace(self, max_new_tokens=None, max_length=longest, min_new_tokens=None, min_length=shortest)

    def _check_finite(self, *names: str) -> None:
        for name in names:
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}, but must be a finite number")

    def _check_at_least(self, least: float, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, but must be at least {least}")

    def _check_ids(self) -> None:
        self._check_at_least(0, "decoder_start_token_id", "pad_token_id", "forced_bos_token_id")
        lists = {"eos_token_id": self.eos_ids}
        lists |= {f"bad_words_ids[{number}]": word for number, word in enumerate(self.bad_words_ids or ())}
        for name, ids in lists.items():
            if not ids:
                raise ValueError(f"{name} is empty, but must hold at least one token")
        lists |= {name: as_ids(getattr(self, name)) for name in ("suppress_tokens", "forced_eos_token_id")}
        for name, ids in lists.items():
            if any(token < 0 for token in ids):
                raise ValueError(f"{name} is {list(ids)}, but token ids must be at least 0")

    def _check_outputs(self) -> None:
        asked = self.num_return_sequences
        if self.num_beams == 1 and asked > 1 and not self.do_sample:
            raise ValueError(
                f"num_return_sequences is {asked}, but greedy search gives 1: raise num_beams or set do_sample"
            )
        if 1 < self.num_beams < asked:
            raise ValueError(
                f"num_return_sequences is {asked}, but must be at most num_beams, which is {self.num_beams}"
            )

    def _check_forced(self) -> None:
        suppressed = set(as_ids(self.suppress_tokens))
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            forced = set(as_ids(getattr(self, name)))
            if forced and forced <= suppressed:
                raise ValueError(
                    f"{name} is {sorted(forced)}, which suppress_tokens forbids: take it out of one of them"
                )


def as_ids(ids: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """One id, several or none as a tuple."""
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, int) else tuple(ids)
