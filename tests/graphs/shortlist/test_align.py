"""Shortlists learned from an artificial language pair with known translations."""

import numpy as np
import pytest

from seq2edge.errors import DataError
from seq2edge_graphs.shortlist.align import ShortlistSizes, learn_shortlist

TOKENS, EOS = 40, 0
SIZES = ShortlistSizes(source_tokens=TOKENS + 10, vocabulary=100, best=2, frequent=3)


def pairs(count: int = 400):
    """Source token t is translated to 99 - t in random order, and 7 is in every target."""
    random = np.random.default_rng(0)
    for _ in range(count):
        source = random.choice(np.arange(1, TOKENS), random.integers(2, 7), replace=False)
        yield [*source.tolist(), EOS], [*random.permutation(99 - source).tolist(), 7, EOS]


def test_translations_are_learned_from_co_occurrence() -> None:
    table, count = learn_shortlist(pairs(), SIZES, always=[50], shared=False)
    assert count == 400
    for token in range(1, TOKENS):
        assert 99 - token in table.of(token)
        assert len(table.of(token)) <= SIZES.best
    assert {7, EOS, 50} <= set(table.always.tolist())
    assert len(table.always) == SIZES.frequent + 1
    assert not len(table.of(TOKENS + 5)), "it is in no pair"


def test_with_a_shared_vocabulary_a_token_may_be_translated_to_itself() -> None:
    table, _ = learn_shortlist(pairs(50), SIZES, always=[], shared=True)
    assert all(token in table.of(token) for token in range(SIZES.source_tokens))


def test_no_pairs_are_refused() -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        learn_shortlist([], SIZES, always=[], shared=False)
