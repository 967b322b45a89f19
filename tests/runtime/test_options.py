"""The options of a call: what it gives, what the bundle gives, and what cannot be."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, Manifest, load_bundle
from seq2edge.errors import BundleError, UsageError
from seq2edge.options import CallOptions, resolve_options


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_bundle(DEFAULT_BUNDLE, check_hashes=False).manifest


def with_defaults(manifest: Manifest, changes: dict[str, Any], **defaults: int) -> CallOptions:
    return resolve_options(changes, replace(manifest, generation=replace(manifest.generation, **defaults)))


def test_a_length_of_a_call_counts_although_the_bundle_has_new_tokens(manifest: Manifest) -> None:
    wanted = with_defaults(manifest, {"max_length": 9, "min_length": 3}, max_new_tokens=200, min_new_tokens=7)
    assert (wanted.generation.longest(2), wanted.generation.shortest(2)) == (9, 3)


def test_new_tokens_of_a_call_count_although_the_bundle_has_a_length(manifest: Manifest) -> None:
    wanted = with_defaults(manifest, {"max_new_tokens": 9, "min_new_tokens": 2}, max_length=5, min_length=4)
    assert (wanted.generation.longest(2), wanted.generation.shortest(2)) == (11, 4)


def test_the_bundle_decides_how_texts_are_split_unless_the_call_does(manifest: Manifest) -> None:
    bundle = replace(manifest, split="none")
    assert [resolve_options(changes, bundle).text.split for changes in ({}, {"split": "auto"})] == ["none", "none"]
    assert resolve_options({"split": "sentences"}, bundle).text.split == "sentences"


@pytest.mark.parametrize("kind", ["max", "min"])
def test_both_at_once_are_refused(manifest: Manifest, kind: str) -> None:
    with pytest.raises(UsageError, match=f"{kind}_length and {kind}_new_tokens were both given"):
        resolve_options({f"{kind}_length": 4, f"{kind}_new_tokens": 4}, manifest)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_beams", "4"),
        ("num_beams", 2.0),
        ("num_beams", True),
        ("num_beams", None),
        ("max_new_tokens", 5.0),
        ("length_penalty", "a"),
        ("length_penalty", float("nan")),
        ("length_penalty", 1000),
        ("temperature", 1e-9),
        ("early_stopping", 1),
        ("suppress_tokens", 5),
        ("suppress_tokens", "5"),
        ("bad_words_ids", (5, 6)),
        ("attention", None),
        ("attention", "9"),
        ("attention", "1.9"),
        ("long", 7),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(manifest: Manifest, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"^{name} is [^\n]*$"):
        resolve_options({name: value}, manifest)


def test_lists_are_called_lists(manifest: Manifest) -> None:
    with pytest.raises(UsageError, match=r"^bad_words_ids is \(5, 6\), which is not list of list of int or null$"):
        resolve_options({"bad_words_ids": (5, 6)}, manifest)


def test_lists_and_numbers_of_numpy_are_welcome(manifest: Manifest) -> None:
    wanted = resolve_options({"suppress_tokens": np.array([5, 6]), "bad_words_ids": [[7], [np.int64(8)]]}, manifest)
    assert wanted.generation.suppress_tokens == (5, 6)
    assert wanted.generation.bad_words_ids == ((7,), (8,))
    assert resolve_options({"length_penalty": np.float32(0.5)}, manifest).generation.length_penalty == 0.5


def test_a_bundle_that_cannot_show_attention_says_so_before_it_translates(manifest: Manifest) -> None:
    files = {name: entry for name, entry in manifest.files.items() if name != tensor_names.SCORER}
    with pytest.raises(BundleError, match="has no scorer graph"):
        resolve_options({"attention": "all"}, replace(manifest, files=files))


@pytest.mark.parametrize("name", ["num_beams", "num_return_sequences"])
def test_more_beams_than_tokens_are_refused(manifest: Manifest, name: str) -> None:
    changes = {"num_beams": 10**6, "do_sample": True, name: 10**6}
    with pytest.raises(UsageError, match="is 1000000, but the vocabulary of the model has 8000 tokens"):
        resolve_options(changes, manifest)


def test_a_padding_token_outside_the_vocabulary_is_refused(manifest: Manifest) -> None:
    with pytest.raises(UsageError, match="pad_token_id is 100000, but the token ids of the model are 0 to 7999"):
        resolve_options({"pad_token_id": 100000}, manifest)
