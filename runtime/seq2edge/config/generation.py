"""Define the options of the search, with the names, meanings and defaults of Hugging Face."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from seq2edge.config.schema import required, setting

DEFAULT_NEW_TOKENS = 20  # as in transformers, if neither max_new_tokens nor max_length is set
MAX_LENGTH_PENALTY = 100  # absolute value; far below it, length alone already decides
MIN_TEMPERATURE = 1e-4  # logits divided by less may overflow float32


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How the search turns logits into tokens; a bundle has the defaults of its model.

    Only ``seed`` is not an option of Hugging Face; without it, every call draws different samples.
    """

    decoder_start_token_id: int = required("the token that every output starts with")
    eos_token_id: int | tuple[int, ...] = required("the token that ends an output, or several of them")
    pad_token_id: int = required("the token that pads finished outputs")

    num_beams: int = setting(1, "partial translations to keep at each step; 1 is greedy search")
    num_return_sequences: int = setting(1, "translations to return for each sentence")
    max_new_tokens: int | None = setting(None, "maximum number of tokens to generate; takes precedence over max_length")
    min_new_tokens: int | None = setting(None, "minimum number of tokens to generate; takes precedence over min_length")
    max_length: int | None = setting(None, "maximum length of the output, including start token and prefix")
    min_length: int = setting(0, "minimum length of the output, including start token and prefix")
    length_penalty: float = setting(
        1.0, "beam scores are divided by the length to this power; above 0 favours long outputs"
    )
    early_stopping: Literal[False, True, "never"] = setting(
        False,
        "when beam search stops: True at num_beams finished outputs, False by a heuristic, never when none can improve",
    )
    no_repeat_ngram_size: int = setting(0, "never generate the same sequence of this many tokens twice; 0 is off")
    repetition_penalty: float = setting(1.0, "values above 1 make tokens that were already used less likely")
    bad_words_ids: tuple[tuple[int, ...], ...] | None = setting(None, "token sequences that must not be generated")
    suppress_tokens: tuple[int, ...] | None = setting(None, "tokens that must not be generated")
    forced_bos_token_id: int | None = setting(None, "the first token to generate, such as a language tag")
    forced_eos_token_id: int | tuple[int, ...] | None = setting(None, "the last token to generate at the length limit")
    renormalize_logits: bool = setting(
        False, "normalize the probabilities again after tokens were forbidden, as Marian does"
    )
    do_sample: bool = setting(False, "sample tokens instead of taking the likeliest")
    temperature: float = setting(1.0, "sampling: below 1 is more conservative, above 1 more diverse")
    top_k: int = setting(50, "sampling: only from this many likeliest tokens; 0 is all")
    top_p: float = setting(1.0, "sampling: only from the likeliest tokens that together have this probability")
    seed: int | None = setting(None, "sampling: the same seed gives the same samples")

    def __post_init__(self) -> None:
        self._check_at_least(1, "num_beams", "num_return_sequences", "max_new_tokens", "max_length")
        self._check_at_least(0, "min_new_tokens", "min_length", "no_repeat_ngram_size", "top_k", "seed")
        self._check_ids()
        self._check_finite("length_penalty", "repetition_penalty", "temperature", "top_p")
        self._check_at_least(MIN_TEMPERATURE, "temperature")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty is {self.repetition_penalty}, but must be above 0")
        if abs(self.length_penalty) > MAX_LENGTH_PENALTY:
            limit = MAX_LENGTH_PENALTY
            raise ValueError(f"length_penalty is {self.length_penalty}, but must be between -{limit} and {limit}")
        if not 0 <= self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, but must be between 0 and 1")
        if self.early_stopping not in (False, True, "never"):
            raise ValueError(f"early_stopping is {self.early_stopping!r}, but must be False, True or 'never'")
        self._check_outputs()
        self._check_forced()

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end an output, as a tuple."""
        return as_ids(self.eos_token_id)

    def longest(self, prefix_length: int) -> int:
        """Return the length at which a sequence is cut, including the prefix."""
        if self.max_new_tokens is not None:
            return prefix_length + self.max_new_tokens
        return prefix_length + DEFAULT_NEW_TOKENS if self.max_length is None else self.max_length

    def shortest(self, prefix_length: int) -> int:
        """Return the minimum length of a sequence, including the prefix."""
        return self.min_length if self.min_new_tokens is None else prefix_length + self.min_new_tokens

    def within(self, length: int, *, prefix_length: int) -> "GenerationOptions":
        """Return the same options for a model that generates at most ``length`` tokens, including the prefix."""
        return _within(self, length, prefix_length)

    def _check_finite(self, *names: str) -> None:
        for name in names:
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}, but must be finite")

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
                raise ValueError(f"{name} is empty, but must contain at least one token")
        lists |= {name: as_ids(getattr(self, name)) for name in ("suppress_tokens", "forced_eos_token_id")}
        for name, ids in lists.items():
            if any(token < 0 for token in ids):
                raise ValueError(f"{name} is {list(ids)}, but token ids must be at least 0")

    def _check_outputs(self) -> None:
        count = self.num_return_sequences
        if self.num_beams == 1 and count > 1 and not self.do_sample:
            raise ValueError(
                f"num_return_sequences is {count}, but greedy search returns 1: raise num_beams or set do_sample"
            )
        if 1 < self.num_beams < count:
            raise ValueError(
                f"num_return_sequences is {count}, but must be at most num_beams, which is {self.num_beams}"
            )

    def _check_forced(self) -> None:
        suppressed = set(as_ids(self.suppress_tokens))
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            forced = set(as_ids(getattr(self, name)))
            if forced and forced <= suppressed:
                raise ValueError(
                    f"{name} is {sorted(forced)}, which suppress_tokens forbids: remove it from one of them"
                )


def as_ids(ids: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return one id, several or none as a tuple."""
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, int) else tuple(ids)


@lru_cache(maxsize=16)  # every batch asks; checking all values again takes as long as half a step of a small model
def _within(options: GenerationOptions, length: int, prefix_length: int) -> GenerationOptions:
    longest = min(length, options.longest(prefix_length))
    shortest = min(longest, options.shortest(prefix_length))
    return replace(options, max_new_tokens=None, max_length=longest, min_new_tokens=None, min_length=shortest)
