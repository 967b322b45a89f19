"""Loops are detected, but not ordinary language or a repetition in the source."""

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.text.repetition import repeats


def ids(text: str) -> list[int]:
    """A token for each word; the same words have the same ids everywhere."""
    return [int.from_bytes(word.encode()[:7]) for word in text.split()]


@pytest.mark.parametrize(
    "text",
    [
        "no no no no no no no no",
        "the man who was the man who was the man who was the man who was",
        "Ich weiß nicht , was ich sagen soll , " + "was ich sagen soll , " * 4 + ".",
        "A good beginning . " + "and then " * 20,
        "x " * 200 + "and a good end .",
        " ".join(map(str, range(20))) + " " + (" ".join(map(str, range(20))) + " ") * 3,
    ],
)
def test_a_loop_is_detected(text: str) -> None:
    assert repeats(ids(text))
    assert repeats(ids(text), ids("I do not know what to say ."))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello .",
        "ha ha ha ha",
        "no no no no no no no",  # seven tokens
        "very very very good , very very very bad , very very very ugly .",
        "round and round and round and it goes",
        "If it looks like a duck , swims like a duck and quacks like a duck , then it is a duck .",
        "the more the merrier , the less the better , the sooner the safer , the later the worse .",
        "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo .",
        "a b c a b c a b c a b",  # not quite four times
        " ".join(map(str, range(500))),
        (" ".join(map(str, range(21))) + " ") * 4,  # longer than the longest period
    ],
)
def test_ordinary_language_is_not_a_loop(text: str) -> None:
    assert not repeats(ids(text))


def test_a_repetition_in_the_source_is_not_a_loop() -> None:
    laughing = ids("ha " * 10)
    assert repeats(laughing)
    assert not repeats(laughing, ids("he laughed : " + "ho " * 10))
    assert not repeats(ids("ha ha " * 10)[:20], ids("ho " * 20))
    assert repeats(ids("ha " * 200), ids("ho " * 10))


def test_times_are_compared_and_not_tokens() -> None:
    assert not repeats(ids("h a " * 4), ids("ha ha ha ha"))
    assert repeats(ids("h a " * 5), ids("ha ha ha ha"))


def repeats_word_by_word(tokens: list[int]) -> bool:
    """Implement the definition directly."""
    for period in range(1, 21):
        times = max(4, -(-8 // period))
        for start in range(len(tokens)):
            run = tokens[start : start + period * times]
            if len(run) == period * times and run == run[:period] * times:
                return True
    return any(len(list(same)) >= 8 for _, same in groupby(tokens))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(st.integers(0, 2), max_size=60))
def test_the_result_matches_the_definition(tokens: list[int]) -> None:
    assert repeats(tokens) == repeats_word_by_word(tokens)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 1), max_size=60))
def test_a_copy_is_never_a_loop(tokens: list[int]) -> None:
    assert not repeats(tokens, tokens)
