import json
import re
from dataclasses import asdict

import pytest

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import SchemaError, read_strict

IDS = {"decoder_start_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}


def test_options_survive_json() -> None:
    options = GenerationOptions(
        **{**IDS, "eos_token_id": (2, 3)},
        num_beams=4,
        early_stopping="never",
        bad_words_ids=((4,), (5, 6)),
        suppress_tokens=(7, 8),
        forced_eos_token_id=(2, 3),
        max_new_tokens=256,
        length_penalty=0.6,
    )
    assert read_strict(GenerationOptions, json.loads(json.dumps(asdict(options))), where="options") == options


def test_what_transformers_calls_null_is_read() -> None:
    options = read_strict(GenerationOptions, {**IDS, "max_length": None, "bad_words_ids": None}, where="options")
    assert options == GenerationOptions(**IDS)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"num_beams": 0}, "num_beams is 0, but must be at least 1"),
        ({"num_return_sequences": 0}, "num_return_sequences is 0, but must be at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0, but must be at least 1"),
        ({"max_length": 0}, "max_length is 0, but must be at least 1"),
        ({"min_length": -1}, "min_length is -1, but must be at least 0"),
        ({"top_k": -1}, "top_k is -1, but must be at least 0"),
        ({"seed": -1}, "seed is -1, but must be at least 0"),
        ({"pad_token_id": -1}, "pad_token_id is -1, but must be at least 0"),
        ({"eos_token_id": (2, -1)}, "eos_token_id is [2, -1], but token ids must be at least 0"),
        ({"eos_token_id": ()}, "eos_token_id is empty, but must contain at least one token"),
        ({"suppress_tokens": (-1,)}, "suppress_tokens is [-1], but token ids must be at least 0"),
        ({"bad_words_ids": ((3,), ())}, "bad_words_ids[1] is empty, but must contain at least one token"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, but must be above 0"),
        ({"temperature": 0.0}, "temperature is 0.0, but must be at least 0.0001"),
        ({"temperature": float("inf")}, "temperature is inf, but must be finite"),
        ({"length_penalty": float("nan")}, "length_penalty is nan, but must be finite"),
        ({"length_penalty": -101.0}, "length_penalty is -101.0, but must be between -100 and 100"),
        ({"top_p": 1.5}, "top_p is 1.5, but must be between 0 and 1"),
        ({"early_stopping": "always"}, "early_stopping is 'always', but must be False, True or 'never'"),
        (
            {"num_return_sequences": 2},
            "num_return_sequences is 2, but greedy search returns 1: raise num_beams or set do_sample",
        ),
        (
            {"num_return_sequences": 3, "num_beams": 2},
            "num_return_sequences is 3, but must be at most num_beams, which is 2",
        ),
        (
            {"forced_bos_token_id": 5, "suppress_tokens": (5, 6)},
            "forced_bos_token_id is [5], which suppress_tokens forbids: remove it from one of them",
        ),
    ],
)
def test_an_option_out_of_range_is_refused_in_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        GenerationOptions(**{**IDS, **given})


def test_an_option_of_the_wrong_kind_is_refused_when_read() -> None:
    with pytest.raises(SchemaError, match="early_stopping"):
        read_strict(GenerationOptions, {**IDS, "early_stopping": 1}, where="options")


def test_new_tokens_win_over_lengths() -> None:
    options = GenerationOptions(**IDS, max_new_tokens=5, max_length=3, min_new_tokens=2, min_length=9)
    assert (options.longest(4), options.shortest(4)) == (9, 6)


def test_lengths_count_the_prefix() -> None:
    options = GenerationOptions(**IDS, max_length=7, min_length=3)
    assert (options.longest(4), options.shortest(4)) == (7, 3)


def test_without_a_limit_twenty_tokens_are_made() -> None:
    assert GenerationOptions(**IDS).longest(4) == 24
