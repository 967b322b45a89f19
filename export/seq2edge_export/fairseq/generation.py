"""fairseq's search as options of ours; needs nothing."""

from typing import Any

from seq2edge.generation import GenerationOptions
from seq2edge_export.fairseq.dictionary import TOKENS

# Defaults of fairseq-generate and of its hub interface.
BEAM, MOST_A, MOST_B, FEWEST = 5, 0.0, 200, 1
# Settings that are off unless they have another value -> what they are, for people.
OFF: dict[str, tuple[tuple[Any, ...], str]] = {
    "sampling": ((None, False), "sampling"),
    "diverse_beam_groups": ((None, -1, 0, 1), "groups of beams"),
    "diversity_rate": ((None, -1.0, 0.0), "diverse siblings"),
    "constraints": ((None,), "constraints"),
    "lm_path": ((None,), "a language model in the search"),
    "unkpen": ((None, 0.0), "a penalty for unknown words"),
    "match_source_len": ((None, False), "outputs as long as their source"),
    "temperature": ((None, 1.0), "a temperature"),
    "prefix_size": ((None, 0), "a prefix from the target"),
}


def unsupported_search(settings: dict[str, Any]) -> list[str]:
    """What the checkpoint's own settings ask for and ours cannot do."""
    return [f"{words} in the search ({name})" for name, (off, words) in OFF.items() if settings.get(name) not in off]


def read_generation(settings: dict[str, Any], positions: int) -> GenerationOptions:
    """The search that fairseq would do without further options, as far as the model's positions reach.

    fairseq stops when as many outputs have ended as there are beams, and never makes padding. Where an output becomes
    too long it makes the end mark, which would hide that it was cut, so that is left out. ``max_len_a`` is times the
    length of a source; here, of the longest that can be.
    """
    most = int(_number(settings, "max_len_a", MOST_A) * positions + _number(settings, "max_len_b", MOST_B))
    return GenerationOptions(
        decoder_start_token_id=TOKENS.eos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=int(_number(settings, "beam", BEAM)),
        min_new_tokens=min(int(_number(settings, "min_len", FEWEST)), positions),
        max_new_tokens=max(1, min(most + 1, positions)),
        length_penalty=0.0 if settings.get("unnormalized") else _number(settings, "lenpen", 1.0),
        early_stopping=True,
        no_repeat_ngram_size=int(_number(settings, "no_repeat_ngram_size", 0)),
        suppress_tokens=(TOKENS.pad,),
    )


def _number(settings: dict[str, Any], name: str, default: float) -> float:
    value = settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
