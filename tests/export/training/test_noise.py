from pathlib import Path
from random import Random

import pytest

from seq2edge_export.training import noise
from seq2edge_export.training.data import Pairs

PAIRS = Pairs(
    Path("pairs.tsv"), [f"Good morning, number {n}." for n in range(200)], [f"Bom dia, {n}." for n in range(200)]
)


def test_copies_come_after_the_pairs_and_depend_only_on_the_seed() -> None:
    noisy = noise.with_noise(PAIRS, share=0.5, seed=3)
    assert noisy.sources[:200] == PAIRS.sources
    assert noisy.targets[:200] == PAIRS.targets
    assert 250 <= len(noisy) <= 300
    assert noisy == noise.with_noise(PAIRS, share=0.5, seed=3)
    assert noisy != noise.with_noise(PAIRS, share=0.5, seed=4)
    added = list(zip(noisy.sources, noisy.targets, strict=True))[200:]
    assert not set(added) & set(zip(PAIRS.sources, PAIRS.targets, strict=True))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (noise.without_mark, ("Hello there", "Ol\u00e1")),
        (noise.in_lower_case, ("hello there.", "Ol\u00e1.")),
        (noise.in_capitals, ("HELLO THERE.", "OL\u00c1.")),
        (noise.joined_with("Bye.", "Tchau."), ("Hello there. Bye.", "Ol\u00e1. Tchau.")),
    ],
)
def test_each_kind_of_noise(kind: noise.Noise, expected: tuple[str, str]) -> None:
    assert kind("Hello there.", "Ol\u00e1.", Random(1)) == expected


def test_a_typing_error_is_inside_a_word_of_the_source() -> None:
    for seed in range(50):
        typed = noise.with_typing_error("Hello there.", "Ol\u00e1.", Random(seed))
        assert typed is not None
        assert typed[1] == "Ol\u00e1."
        assert typed[0][0] == "H"
        assert typed[0].endswith(".")
        assert 11 <= len(typed[0]) <= 13


def test_symbols_are_the_same_on_both_sides() -> None:
    for seed in range(50):
        noisy = noise.with_symbols("Hello.", "Ol\u00e1.", Random(seed))
        assert noisy is not None
        assert noisy[0].replace("Hello.", "") == noisy[1].replace("Ol\u00e1.", "")
        assert not noisy[0].isascii()


@pytest.mark.parametrize(
    "kind", [noise.without_mark, noise.in_lower_case, noise.with_typing_error, noise.joined_with("A.", "B.")]
)
def test_noise_that_cannot_be_applied_gives_nothing(kind: noise.Noise) -> None:
    assert kind("42", "42", Random(1)) is None
