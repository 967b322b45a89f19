"""Large blocks of memory that are used again and again.

What an allocator gives back to the system it gets from there page by page when it is touched again, which for the cache
of a large batch takes as long as several steps of the decoder.
"""

import math
import sys
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

MOST_IDLE = 4
SMALLEST = 2**20  # bytes; for less it is not worth the trouble


class ArrayPool:
    """Blocks that may be asked for from many threads; one is given out again when nothing refers to it any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: list[NDArray[np.uint8]] = []  # the last used come last

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array of that shape, with anything in it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST:
            return np.empty(shape, dtype)
        with self._lock:
            block = self._idle_or_new(size)
            self._blocks.append(block)
            return block[:size].view(dtype).reshape(shape)

    def _idle_or_new(self, size: int) -> NDArray[np.uint8]:
        idle = [place for place in range(len(self._blocks)) if _is_idle(self._blocks, place)]
        for place in idle:
            if size <= self._blocks[place].size <= 2 * size:
                return self._blocks.pop(place)
        for place in reversed(idle[: max(0, len(idle) - MOST_IDLE + 1)]):  # the longest unused
            del self._blocks[place]
        return np.empty(_rounded_up(size), np.uint8)


def _is_idle(blocks: list[NDArray[np.uint8]], place: int) -> bool:
    """Whether nothing but the list refers to a block: every view of an array refers to it."""
    return sys.getrefcount(blocks[place]) == 2  # the list, and the argument of this call


def _rounded_up(size: int) -> int:
    """To an eighth of the next power of two, so that batches of nearly the same shape can use it too."""
    unit = 1 << max(0, size.bit_length() - 3)
    return -(-size // unit) * unit
