import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.search.top_k import GROUPS, MEMBERS, top_k

LARGE = 4 * GROUPS * MEMBERS  # of a vocabulary that is searched in small groups


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
    np.testing.assert_array_equal(top_k(scores, k)[0], expected)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    rows=st.integers(5, 9),
    size=st.sampled_from([LARGE + more for more in (-1, 0, 1, 4 * GROUPS - 1, 4 * GROUPS, 5 * GROUPS + 1)]),
    values=st.sampled_from([2, 50, 100_000_000]),
    forbidden=st.sampled_from([0.0, 0.3, 0.9999]),
    k=st.sampled_from([1, 8, GROUPS - 1, GROUPS, GROUPS + 1, 2000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_many_rows_of_a_large_vocabulary_are_sorted_as_few_of_a_small_one(
    rows: int, size: int, values: int, forbidden: float, k: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, values, size=(rows, size)).astype(np.float32)
    scores[random.random(size=scores.shape) < forbidden] = -np.inf
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    places, found = top_k(scores, k)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(found, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize("rest", [0, 1, 300])
def test_what_lies_behind_the_last_whole_block_is_found(rest: int) -> None:
    scores = np.zeros((8, LARGE + rest), dtype=np.float32)
    scores[:, -1], scores[:, 0] = 2, 1
    assert top_k(scores, 3)[0].tolist() == [[LARGE + rest - 1, 0, 1]] * 8


@pytest.mark.parametrize("size", [7, 5000, 100_000])
def test_a_row_where_all_is_forbidden_gives_the_first_places(size: int) -> None:
    scores = np.full((2, size), -np.inf, dtype=np.float32)
    assert top_k(scores, 3)[0].tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("size", [7, 5000, 100_000])
def test_the_first_forbidden_places_follow_what_is_allowed(size: int) -> None:
    scores = np.full((2, size), -np.inf, dtype=np.float32)
    scores[0, 5], scores[1, 1] = 0, 0
    assert top_k(scores, 4)[0].tolist() == [[5, 0, 1, 2], [1, 0, 2, 3]]
