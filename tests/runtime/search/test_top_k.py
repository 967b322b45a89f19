import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.search.top_k import top_k


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    rows=st.integers(1, 4),
    size=st.sampled_from([1, 5, 40, 255, 511, 512, 513, 1000, 2048]),
    values=st.sampled_from([1, 3, 50, 100_000]),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_the_greatest_come_first_and_equal_ones_in_their_order(
    rows: int, size: int, values: int, seed: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, min(size, 300)))
    random = np.random.default_rng(seed)
    scores = random.integers(0, values, size=(rows, size)).astype(np.float32)  # few values: many are equal
    scores[random.random(size=scores.shape) < 0.3] = -np.inf
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(top_k(scores, k), expected)


@pytest.mark.parametrize("size", [7, 5000])
def test_a_row_where_all_is_forbidden_gives_the_first_places(size: int) -> None:
    scores = np.full((2, size), -np.inf, dtype=np.float32)
    assert top_k(scores, 3).tolist() == [[0, 1, 2], [0, 1, 2]]
