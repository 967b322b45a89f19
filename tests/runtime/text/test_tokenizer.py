"""Special tokens around a text, texts without visible characters, and unknown characters."""

import pytest

from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.search import Hypothesis
from seq2edge.text.segments import Segment, make_segments
from seq2edge.text.tokenizer import Frame, Tokenizer, bundle_tokenizer
from seq2edge.translator import translation_of


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bundle_tokenizer(load_bundle(DEFAULT_BUNDLE, check_hashes=False))


@pytest.mark.parametrize(
    "frame",
    [
        Frame(before=(2,), after=(3,), pad=0, length=12),
        Frame(before=(2,), after=(3,), pad=3, length=12),  # the end token is also the padding
        Frame(before=(2,), after=(), pad=0, length=12),
        Frame(before=(2,), after=(3,), pad=0, length=4),
        Frame(before=(2,), after=(3,)),
    ],
)
def test_positions_are_either_text_or_special(frame: Frame) -> None:
    ids = frame.wrap([10, 11, 12])
    assert list(frame.text_positions(ids)) == [1, 2, 3]
    assert frame.special_positions(ids) == set(range(len(ids))) - {1, 2, 3}


def test_a_loop_is_detected_although_the_source_is_padded(tokenizer: Tokenizer) -> None:
    frame = Frame(after=(3,), pad=0, length=40)
    padded = Tokenizer(tokenizer.source, tokenizer.target, eos=3, frame=frame)
    segment = Segment(text_index=0, text="", ids=frame.wrap([10, 11, 12]), unknown=0)
    hypothesis = Hypothesis(tokens=[5, 6] * 8, score=0.0, token_scores=[0.0] * 16, ended=False)
    assert translation_of(segment, hypothesis, (), padded).repeats


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \u3000\t",
        "\u200b\u200b",
        "\ufeff",
        "\u2060",
        "\u00ad",
        "\u200e",
        "\u0301",
        "\u3164",
        "\u2800",
        "\u115f\u1160",
    ],
)
def test_text_without_a_visible_character_has_no_ids(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode_visible([text]) == [[]]


@pytest.mark.parametrize("text", ["a", "e\u0301", "\u200b!", "☃", "水"])
def test_one_visible_character_is_a_text(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode_visible([text]) != [[]]


def test_unknown_characters_are_counted_only_before_the_truncation(tokenizer: Tokenizer) -> None:
    [whole] = make_segments(["I have a ☃ dog ☃☃."], tokenizer, max_tokens=90, long="truncate")
    assert whole.unknown == 3
    [cut] = make_segments(["I have a ☃ dog. " + "dog " * 90 + "☃☃"], tokenizer, max_tokens=20, long="truncate")
    assert (cut.unknown, cut.truncated) == (1, True)
