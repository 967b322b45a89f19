"""Make the C library give freed memory back to the system; needs nothing, and does nothing without glibc."""

import ctypes
from contextlib import suppress

MMAP_THRESHOLD = -3  # glibc's number of that setting
LARGE = 2**20  # bytes


def give_back_large_blocks() -> None:
    """From now on, give every large block to the system when it is freed.

    glibc raises the limit as it meets larger blocks, and then keeps them: caches that grow step by step leave holes
    that are never used again. Call it before anything is loaded; blocks that were taken before stay as they are.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)


def give_back_memory() -> None:
    """Give back what has been freed so far."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
