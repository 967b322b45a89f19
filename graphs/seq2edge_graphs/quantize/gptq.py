"""Round weights to 4-bit integers in short blocks, each with a scale of its own.

A weight is (q - 8) * scale, with q from 0 to 15. The scale of a block is an integer from -127 to 127 times a unit of
the channel: one byte a block, so that blocks can be short. Its sign is such that the weight of the largest magnitude is
on the side that reaches to -8, and its length the one of some candidates that gives the least squared error: clipping
the largest weight a little serves the others.

With the mean outer product of the rows that are multiplied with the weights (their Gram matrix), the error that counts
is that of the products, and what rounding one weight does to them can be made up for by the weights that are still to
be rounded ("GPTQ", arXiv 2210.17323): the inverse of the Gram matrix says how. Scales are then chosen block by block on
the way.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2edge_graphs.quantize.storage import round_up_to_bfloat16
from seq2edge_graphs.quantize.weights import Floats

Gram = NDArray[np.float64]  # (K, K)

SIZES = (32, 16)  # of a block, the first that divides the channel
ZERO = 8  # the integer that stands for 0
LONGEST = 127  # units
# By what the largest magnitude of a block is divided: 8 is where it is kept, below it has room, above it is clipped.
DIVISORS = np.arange(7, 10.51, 0.25, dtype=np.float32)
DAMPING = 0.05  # of the mean of the Gram matrix's diagonal, so that it can be inverted


@dataclass(frozen=True)
class Int4Blocks:
    """N channels of B blocks: integers (N, B, size), scales (N, B) in units (N,)."""

    integers: NDArray[np.uint8]
    scales: NDArray[np.int8]
    units: Floats

    def packed(self) -> NDArray[np.uint8]:  # (N, B, size / 2)
        """Two integers a byte, the earlier one in the lower half."""
        pairs: NDArray[np.uint8] = self.integers[..., 0::2] + self.integers[..., 1::2] * np.uint8(16)
        return pairs

    def numbers(self) -> Floats:  # (N, K)
        lengths = self.scales * self.units[:, None]
        numbers: Floats = (self.integers.astype(np.float32) - ZERO) * lengths[..., None]
        return numbers.reshape(len(numbers), -1)


def int4_block_size(inner: int) -> int | None:
    """The length of the blocks of a channel, or nothing where none divides it."""
    return next((size for size in SIZES if inner % size == 0), None)


def round_int4_blocks(channels: Floats, gram: Gram | None = None) -> Int4Blocks:  # (N, K), (K, K)
    """The blocks that come closest to the weights, or, with a Gram matrix, to their products."""
    size = int4_block_size(channels.shape[1])
    assert size is not None
    blocks = channels.reshape(len(channels), -1, size)  # (N, B, size)
    wanted = _best_scales(blocks)  # (N, B)
    largest = np.abs(wanted).max(axis=1)
    units = round_up_to_bfloat16((np.where(largest > 0, largest, 1) / LONGEST).astype(np.float32))
    if gram is not None:
        return _compensated(channels, gram, size, units)
    scales = _in_units(wanted, units[:, None])
    return Int4Blocks(_integers(blocks, (scales * units[:, None])[..., None]), scales, units)


def _compensated(channels: Floats, gram: Gram, size: int, units: Floats) -> Int4Blocks:
    """Round inner place by inner place, and move what each leaves over to those behind it."""
    rest, spread = channels.astype(np.float64), _spread(gram)
    integers, scales = [], []
    for start in range(0, channels.shape[1], size):
        inside, behind = slice(start, start + size), slice(start + size, None)
        block = rest[:, inside]
        scale = _in_units(_best_scales(block.astype(np.float32)), units)  # (N,)
        rounded, errors = _round_block(block, (scale * units).astype(np.float64), spread[inside, inside])
        rest[:, behind] -= errors @ spread[inside, behind]
        integers.append(rounded)
        scales.append(scale)
    return Int4Blocks(np.stack(integers, axis=1), np.stack(scales, axis=1), units)


def _round_block(
    block: NDArray[np.float64], scale: NDArray[np.float64], spread: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The integers of a block (N, size), and the errors in the unit in which they spread; the block is used up."""
    integers, errors = np.empty(block.shape, np.uint8), np.empty(block.shape)
    for place in range(block.shape[1]):
        integers[:, place] = _integers(block[:, place], scale)
        kept = (integers[:, place].astype(np.float64) - ZERO) * scale
        errors[:, place] = (block[:, place] - kept) / spread[place, place]
        block[:, place:] -= errors[:, place, None] * spread[place, place:]
    return integers, errors


def _spread(gram: Gram) -> NDArray[np.float64]:
    """The upper Cholesky factor of the inverse of the Gram matrix: row k says what an error at k does behind it."""
    damped = gram + DAMPING * max(gram.trace() / len(gram), 1e-12) * np.eye(len(gram))
    factor: NDArray[np.float64] = np.linalg.cholesky(np.linalg.inv(damped)).T
    return factor


def _best_scales(blocks: Floats) -> Floats:  # (..., size) -> (...)
    """The scale of each block that gives the least squared error; 0 for a block of zeros."""
    places = np.abs(blocks).argmax(axis=-1)[..., None]
    largest = np.take_along_axis(blocks, places, axis=-1)  # (..., 1), with its sign
    best, least = np.zeros_like(largest), np.full_like(largest, np.inf)
    for divisor in DIVISORS:
        scale = np.where(largest == 0, 1, -largest / divisor)
        kept = (_integers(blocks, scale).astype(np.float32) - ZERO) * scale
        error = np.square(kept - blocks).sum(axis=-1, keepdims=True)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    scales: Floats = np.where(largest == 0, 0, best)[..., 0]
    return scales


def _in_units(scales: Floats, units: Floats) -> NDArray[np.int8]:
    """Scales as integers, never 0."""
    steps = np.clip(np.rint(scales / units), -LONGEST, LONGEST)
    return np.where(steps == 0, 1, steps).astype(np.int8)


def _integers(numbers: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.uint8]:
    integers: NDArray[np.uint8] = np.clip(np.rint(numbers / scale) + ZERO, 0, 15).astype(np.uint8)
    return integers
