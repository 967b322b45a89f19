"""The rows of a cache, followed through many steps by what is written into them."""

import numpy as np
import pytest

from seq2edge.engine.kv_inplace import CacheSlot


@pytest.mark.parametrize("beams", [1, 2, 4, 6])
def test_every_beam_finds_what_its_ancestors_wrote(beams: int) -> None:
    random = np.random.default_rng(beams)
    slot = CacheSlot(2, size=beams, length=1)
    cache = np.zeros((3 * beams, 60), dtype=np.int64)  # by row and token
    written = np.zeros((beams, 1), dtype=np.int64)  # by beam
    for length in range(1, 60):
        parents = random.integers(0, beams, size=beams)
        for source, target, start in slot.follow(parents.tolist(), length):
            cache[target, start:length] = cache[source, start:length]
        new = random.integers(1, 10**9, size=beams)
        cache[slot.cache_rows, length] = new
        written = np.concatenate([written[parents], new[:, None]], axis=1)
        np.testing.assert_array_equal(cache[slot.cache_rows, : length + 1], written)
    assert sorted(slot.cache_rows) == list(range(2 * beams, 3 * beams))


def test_only_what_differs_is_copied() -> None:
    slot = CacheSlot(0, size=2, length=5)
    assert slot.follow([0, 0], 5) == [(0, 1, 5)]  # both are still alike
    assert slot.follow([0, 1], 6) == []
    assert slot.follow([1, 1], 7) == [(1, 0, 5)]
    assert slot.follow([0, 0], 8) == [(1, 0, 7)]  # the first beam had stayed in its row


def test_a_copy_goes_where_the_least_is_to_be_copied() -> None:
    slot = CacheSlot(0, size=3, length=1)
    slot.follow([0, 0, 2], 4)  # the rows 0 and 1 are alike up to there, the row 2 is not
    assert slot.follow([0, 0, 0], 5) == [(0, 1, 4), (0, 2, 1)]
