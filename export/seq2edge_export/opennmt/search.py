"""How OpenNMT-py and eole search, said in Hugging Face's words; needs nothing."""

from typing import Any

from seq2edge.architecture import Architecture
from seq2edge.closed import ClosedError, read_closed
from seq2edge.errors import CheckpointError
from seq2edge.generation import GenerationOptions
from seq2edge.tokens import SpecialTokens
from seq2edge_export.opennmt.given import Given
from seq2edge_export.opennmt.settings import Limit, Options, beyond

BEAMS, MOST = 5, 250  # of both, where nothing else is said
LIMITS = (
    Limit("length_penalty", ("avg", "none"), "the length penalty of GNMT"),
    Limit("coverage_penalty", ("none",), "a coverage penalty"),
    Limit("ratio", (0, None), "a ratio that ends the search"),
    Limit("top_k", (0, 1), "samples instead of a search"),
    Limit("top_p", (0, 1), "samples instead of a search"),
    Limit("replace_unk", (False,), "words of the source in the place of unknown ones"),
)


def unsupported_search(search: Options) -> list[str]:
    """What eole's ``inference`` settings ask for and our search has not."""
    return beyond(search, LIMITS, {})


def generation_of(given: Given, tokens: SpecialTokens, shape: Architecture) -> GenerationOptions:
    """The defaults of the search."""
    search = given.search
    options: dict[str, Any] = {
        "decoder_start_token_id": tokens.bos,
        "eos_token_id": [tokens.eos, *_other_ends(given)],
        "pad_token_id": tokens.pad,
        "num_beams": search.get("beam_size", BEAMS),
        "max_new_tokens": search.get("max_length", MOST),
        "min_new_tokens": search.get("min_length", 0),
        "length_penalty": search.get("alpha", 1.0) if search.get("length_penalty", "avg") == "avg" else 0.0,
        "no_repeat_ngram_size": search.get("block_ngram_repeat", 0),
        "suppress_tokens": [tokens.unk] if search.get("ban_unk_token") else None,
    }
    if isinstance(options["max_new_tokens"], int):
        options["max_new_tokens"] = min(options["max_new_tokens"], shape.max_positions)
    try:
        return read_closed(GenerationOptions, options, where="the inference settings")
    except ClosedError as error:
        raise CheckpointError(f"{given.path} is not as eole writes it: {error}") from None


def _other_ends(given: Given) -> list[int]:
    named = given.search.get("optional_eos")
    ends = {str(token) for token in named} if isinstance(named, list) else set()
    return [number for number, token in enumerate(given.words.target) if token in ends]
