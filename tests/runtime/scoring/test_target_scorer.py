"""Targets are scored in batches of limited size, and attention is computed only on request."""

import numpy as np
import pytest
from tolerances import int8_rounding

from seq2edge import Translator
from seq2edge.scoring import scorer
from seq2edge.scoring.scorer import Pair

INT8 = int8_rounding(width=256, size=10)  # of the scores that attention weights are the softmax of
TEXTS = ["Good morning.", "Where is the old bridge?", "I have a dog.", "My brother bought two bottles of milk."]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


def test_the_attention_weights_of_a_batch_are_limited() -> None:
    pairs: list[Pair] = [([7] * 500, [7] * 1000)] * 5
    assert scorer._divide([4, 3, 2, 1, 0], pairs, heads=8) == [[4, 3], [2, 1], [0]]
    assert scorer._divide([4, 3], pairs, heads=1000) == [[4], [3]]  # one at a time, however large


def test_small_batches_show_the_same_attention(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = translator.translate(TEXTS, attention="1.2", num_beams=1)
    monkeypatch.setattr(scorer, "MAX_ATTENTION_WEIGHTS", 1000)
    for one, same in zip(translator.translate(TEXTS, attention="1.2", num_beams=1), expected, strict=True):
        assert one.alignment == same.alignment
        np.testing.assert_allclose(one.attention.weights, same.attention.weights, atol=INT8)


def test_scoring_does_not_compute_attention(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = translator._scorer.scorer
    assert scorer is not None
    monkeypatch.setattr(scorer, "score", None)
    assert len(translator.score(TEXTS, TEXTS)) == len(TEXTS)
