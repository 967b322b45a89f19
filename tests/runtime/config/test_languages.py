"""Language names are resolved to tags, and unknown names are refused with suggestions."""

import pytest

from seq2edge.config.languages import Languages, Tags, default_tags, resolve_tags
from seq2edge.errors import UsageError

CODES = {"deu_Latn": 11, "eng_Latn": 12, "fra_Latn": 13, "zho_Hans": 14, "zho_Hant": 15}
NLLB = Languages(source="eng_Latn", target="", codes=CODES, source_tag="before", target_tag="first")
MBART = Languages(source="eng_Latn", target="deu_Latn", codes=CODES, source_tag="after", target_tag="start")
MARIAN = Languages(source="", target="", codes=CODES, target_tag="source")
TWO = Languages(source="en", target="de")


@pytest.mark.parametrize(
    ("languages", "source", "target", "tags"),
    [
        (NLLB, "", "", Tags(before=(12,))),
        (NLLB, "zho_Hans", "fra_Latn", Tags(before=(14,), first=13)),
        (MBART, "", "", Tags(after=(12,), start=11)),
        (MBART, "fra_Latn", "zho_Hant", Tags(after=(13,), start=15)),
        (MARIAN, "", "fra_Latn", Tags(before=(13,))),
        (MARIAN, "", "", Tags()),
        (TWO, "en", "de", Tags()),
    ],
)
def test_tags_are_where_the_model_expects_them(languages: Languages, source: str, target: str, tags: Tags) -> None:
    assert resolve_tags(languages, source, target) == tags


def test_without_names_the_default_languages_are_used() -> None:
    assert default_tags(MBART) == resolve_tags(MBART, "", "")


@pytest.mark.parametrize(
    ("languages", "source", "target", "message"),
    [
        (NLLB, "", "zho", "target_lang is 'zho', which this model does not know; similar ones are zho_Hans, zho_Hant"),
        (NLLB, "de", "fra_Latn", "source_lang is 'de', which this model does not know; similar ones are deu_Latn"),
        (NLLB, "", "xx", "it knows 5, such as deu_Latn, eng_Latn"),
        (TWO, "fr", "", "source_lang is 'fr', but this model has only 'en'; leave it out"),
        (MARIAN, "eng_Latn", "", "source_lang is 'eng_Latn', but this model has no tags for it; leave it out"),
    ],
)
def test_an_unknown_language_is_refused_with_similar_ones(
    languages: Languages, source: str, target: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_tags(languages, source, target)


def test_the_default_languages_must_have_tags() -> None:
    with pytest.raises(ValueError, match="target is 'xx', which has no tag in codes"):
        Languages(source="eng_Latn", target="xx", codes=CODES, source_tag="before", target_tag="first")
    with pytest.raises(ValueError, match="source is empty"):
        Languages(source="", target="", codes=CODES, source_tag="before", target_tag="first")
