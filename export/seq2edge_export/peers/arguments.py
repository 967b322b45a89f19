"""The options of the search as arguments of Hugging Face's ``generate``; needs nothing."""

from typing import Any

from seq2edge.generation import GenerationOptions

AS_THEY_ARE = (
    *("num_beams", "length_penalty", "early_stopping", "no_repeat_ngram_size", "repetition_penalty"),
    *("suppress_tokens", "forced_bos_token_id", "renormalize_logits"),
)


def generate_arguments(options: GenerationOptions) -> dict[str, Any]:
    """Every option has its name there; the start token is the folder's."""
    found = {name: getattr(options, name) for name in AS_THEY_ARE if getattr(options, name) is not None}
    if options.bad_words_ids is not None:
        found["bad_words_ids"] = [list(word) for word in options.bad_words_ids]
    if options.suppress_tokens is not None:
        found["suppress_tokens"] = list(options.suppress_tokens)
    lengths = {"max_new_tokens": options.longest(1) - 1, "min_new_tokens": max(0, options.shortest(1) - 1)}
    return {**found, **lengths, "do_sample": False}
