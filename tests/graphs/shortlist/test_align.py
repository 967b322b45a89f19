"""Learned lists: a language of words that are known to belong together."""

import numpy as np
import pytest

from seq2edge.errors import DataError
from seq2edge_graphs.shortlist.align import ShortlistSizes, learn_shortlist

WORDS, EOS = 40, 0
SIZES = ShortlistSizes(source_tokens=WORDS + 10, vocabulary=100, best=2, frequent=3)


def pairs(count: int = 400):
    """Source word w is target word 99 - w, the order is another, and 7 stands in every target."""
    random = np.random.default_rng(0)
    for _ in range(count):
        source = random.choice(np.arange(1, WORDS), random.integers(2, 7), replace=False)
        yield [*source.tolist(), EOS], [*random.permutation(99 - source).tolist(), 7, EOS]


def test_a_word_is_learned_from_where_it_stands() -> None:
    table, count = learn_shortlist(pairs(), SIZES, always=[50], shared=False)
    assert count == 400
    for word in range(1, WORDS):
        assert 99 - word in table.of(word)
        assert len(table.of(word)) <= SIZES.best
    assert {7, EOS, 50} <= set(table.always.tolist())
    assert len(table.always) == SIZES.frequent + 1
    assert not len(table.of(WORDS + 5)), "nobody has seen it"


def test_in_one_vocabulary_a_token_may_become_itself() -> None:
    table, _ = learn_shortlist(pairs(50), SIZES, always=[], shared=True)
    assert all(token in table.of(token) for token in range(SIZES.source_tokens))


def test_it_needs_a_pair() -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        learn_shortlist([], SIZES, always=[], shared=False)
