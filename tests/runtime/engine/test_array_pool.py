"""Memory is used again, but never while somebody still looks at it."""

import numpy as np

from seq2edge.engine.array_pool import MOST_IDLE, ArrayPool

LARGE = (3, 1024, 1024)  # float32: 12 MB


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_what_nobody_refers_to_is_given_out_again() -> None:
    blocks = ArrayPool()
    first = address(blocks.take(LARGE, np.float32))
    assert address(blocks.take((3, 1000, 1024), np.float32)) == first


def test_what_somebody_still_has_a_view_of_is_not() -> None:
    blocks = ArrayPool()
    view = blocks.take(LARGE, np.float32)[1:, 5]
    view[:] = 7
    other = blocks.take(LARGE, np.float32)
    other[:] = 8
    assert (view == 7).all()


def test_a_much_larger_block_is_left_to_those_who_need_it() -> None:
    blocks = ArrayPool()
    large = address(blocks.take(LARGE, np.float32))
    small = blocks.take((1024, 1024), np.float32)
    assert address(small) != large


def test_few_blocks_are_kept_for_later() -> None:
    blocks = ArrayPool()
    for megabytes in range(1, 200, 7):
        blocks.take((megabytes, 2**20), np.uint8)
    assert len(blocks._blocks) <= MOST_IDLE + 1


def test_a_small_array_is_an_ordinary_one() -> None:
    blocks = ArrayPool()
    assert blocks.take((3, 4), np.int64).flags.owndata
