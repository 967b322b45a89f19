"""Reuse large arrays.

Memory that an allocator returned to the system comes back page by page when it is touched again, which for the KV cache
of a large batch takes as long as several decoder steps.
"""

import math
import sys
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

MOST_IDLE = 4
SMALLEST = 2**20  # bytes; smaller arrays are not worth pooling


class ArrayPool:
    """Hand out arrays to any number of threads; their memory is reused when nothing refers to them any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: list[NDArray[np.uint8]] = []  # the last used come last

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialized array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST:
            return np.empty(shape, dtype)
        with self._lock:
            block = self._idle_or_new(size)
            self._blocks.append(block)
            return block[:size].view(dtype).reshape(shape)

    def _idle_or_new(self, size: int) -> NDArray[np.uint8]:
        idle = [index for index in range(len(self._blocks)) if _is_idle(self._blocks, index)]
        for index in idle:
            if size <= self._blocks[index].size <= 2 * size:
                return self._blocks.pop(index)
        for index in reversed(idle[: max(0, len(idle) - MOST_IDLE + 1)]):  # the longest unused
            del self._blocks[index]
        return np.empty(_round_up(size), np.uint8)


def _is_idle(blocks: list[NDArray[np.uint8]], index: int) -> bool:
    """Whether only the list refers to a block; a view of an array refers to it."""
    return sys.getrefcount(blocks[index]) == 2  # the list, and the argument of this call


def _round_up(size: int) -> int:
    """Round up to an eighth of the next power of two, so that batches of similar shape can share a block."""
    unit = 1 << max(0, size.bit_length() - 3)
    return -(-size // unit) * unit
