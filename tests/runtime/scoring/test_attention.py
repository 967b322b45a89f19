"""Attention of one segment, and of a split text."""

import numpy as np
import pytest

from seq2edge.errors import UsageError
from seq2edge.results import Translation
from seq2edge.scoring.attention import Attention, attention, average, joined


def example(*, seed: int, source: str, target: str) -> Attention:
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(source)), len(target)).astype(np.float32)
    return attention(weights, source, target, special=({len(source) - 1}, {len(target) - 1}))


def test_a_split_text_has_blocks_and_a_matrix_only_on_demand() -> None:
    parts = [example(seed=1, source="abc.", target="xy."), example(seed=2, source="de.", target="zuv.")]
    whole = joined(parts)
    assert [block.shape for block in whole.blocks] == [(3, 4), (4, 3)]
    assert whole.weights.shape == (7, 7)
    np.testing.assert_array_equal(whole.weights[:3, :4], parts[0].weights)
    np.testing.assert_array_equal(whole.weights[3:, 4:], parts[1].weights)
    assert not whole.weights[:3, 4:].any()
    assert not whole.weights[3:, :4].any()
    assert [target for _, target in sorted(whole.alignment, key=lambda pair: pair[1])] == [0, 1, 3, 4, 5]


def test_a_very_long_text_needs_no_matrix() -> None:
    whole = joined([example(seed=1, source="abc.", target="xy.")] * 60_000)
    assert sum(block.nbytes for block in whole.blocks) < 10**7  # the matrix would have 180,000 x 240,000 numbers


def test_results_with_attention_can_be_compared_and_put_into_sets() -> None:
    one, same, other = (
        example(seed=seed, source=text, target="xy.") for seed, text in ((1, "ab."), (1, "ab."), (1, "ac."))
    )
    results = [Translation(text="x", attention=each) for each in (one, same, other)]
    assert results[0] == results[1] != results[2]
    assert len(set(results)) == 2


def test_heads_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="has 2 layers of 3 heads"):
        average(np.zeros((2, 3, 4, 5), np.float32), "3")
