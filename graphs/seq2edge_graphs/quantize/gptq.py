"""Round weights to 4-bit integers in short blocks, each with its own scale.

A weight is (q - 8) * scale, with q from 0 to 15. The scale of a block is an integer from -127 to 127 times a unit of
the channel: one byte per block, so that blocks can be short. Its sign puts the weight of the largest magnitude on the
side that reaches -8. Its magnitude is the candidate with the least squared error: clipping the largest weight a little
makes the others more exact.

With the mean outer product of the rows that the weights are multiplied with (their Gram matrix), the error of the
products is minimized instead, and the weights that are not rounded yet compensate the error of each rounded one (GPTQ,
arXiv 2210.17323): the inverse of the Gram matrix tells how. Scales are then chosen block by block on the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2edge_graphs.quantize.storage import round_up_to_bfloat16
from seq2edge_graphs.quantize.weights import Floats

Gram = NDArray[np.float32]  # (K, K); those of all weights take about as much memory as the model in float32

BLOCK_SIZES = (32, 16)  # the first that divides the channel
ZERO = 8  # the integer that represents 0
MAX_UNITS = 127  # of a scale
# Candidates: the largest magnitude of a block divided by these. 8 represents it exactly, more clips it.
DIVISORS = np.arange(7, 10.51, 0.25, dtype=np.float32)
DAMPING = 0.05  # of the mean of the Gram matrix's diagonal, so that it can be inverted


@dataclass(frozen=True)
class Int4Blocks:
    """N channels of B blocks: integers (N, B, size), scales (N, B) in units (N,)."""

    integers: NDArray[np.uint8]
    scales: NDArray[np.int8]
    units: Floats

    def packed(self) -> NDArray[np.uint8]:  # (N, B, size / 2)
        """Pack two integers into a byte, the first one in the lower half."""
        pairs: NDArray[np.uint8] = self.integers[..., 0::2] + self.integers[..., 1::2] * np.uint8(16)
        return pairs

    def dequantized(self) -> Floats:  # (N, K)
        scales = self.scales * self.units[:, None]
        weights: Floats = (self.integers.astype(np.float32) - ZERO) * scales[..., None]
        return weights.reshape(len(weights), -1)


class Grams(dict[str, Gram]):
    """Gram matrices by the name of the weight, and the weights that were rounded with them, so that none is twice."""

    def __init__(self, grams: Mapping[str, Gram] | None = None) -> None:
        super().__init__(grams or {})
        self.rounded: dict[str, Int4Blocks] = {}


def int4_block_size(inner: int) -> int | None:
    """Return the size of the blocks of a channel, or None if no size divides it."""
    return next((size for size in BLOCK_SIZES if inner % size == 0), None)


def round_int4_blocks(channels: Floats, gram: Gram | None = None) -> Int4Blocks:  # (N, K), (K, K)
    """Return the blocks that are closest to the weights or, with a Gram matrix, to their products."""
    size = int4_block_size(channels.shape[1])
    assert size is not None
    blocks = channels.reshape(len(channels), -1, size)  # (N, B, size)
    best = _best_scales(blocks)  # (N, B)
    largest = np.abs(best).max(axis=1)
    units = round_up_to_bfloat16((np.where(largest > 0, largest, 1) / MAX_UNITS).astype(np.float32))
    if gram is not None:
        return _round_compensated(channels, gram, size, units)
    scales = _in_units(best, units[:, None])
    return Int4Blocks(_to_integers(blocks, (scales * units[:, None])[..., None]), scales, units)


def _round_compensated(channels: Floats, gram: Gram, size: int, units: Floats) -> Int4Blocks:
    """Round column by column, and subtract the weighted error of each from the columns after it."""
    remaining, factor = channels.astype(np.float64), _inverse_factor(gram)
    integers, scales = [], []
    for start in range(0, channels.shape[1], size):
        inside, after = slice(start, start + size), slice(start + size, None)
        block = remaining[:, inside]
        scale = _in_units(_best_scales(block.astype(np.float32)), units)  # (N,)
        rounded, errors = _round_block(block, (scale * units).astype(np.float64), factor[inside, inside])
        remaining[:, after] -= errors @ factor[inside, after]
        integers.append(rounded)
        scales.append(scale)
    return Int4Blocks(np.stack(integers, axis=1), np.stack(scales, axis=1), units)


def _round_block(
    block: NDArray[np.float64], scale: NDArray[np.float64], factor: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the integers of a block (N, size), and their errors over the factor's diagonal; overwrite the block."""
    integers, errors = np.empty(block.shape, np.uint8), np.empty(block.shape)
    for column in range(block.shape[1]):
        integers[:, column] = _to_integers(block[:, column], scale)
        kept = (integers[:, column].astype(np.float64) - ZERO) * scale
        errors[:, column] = (block[:, column] - kept) / factor[column, column]
        block[:, column:] -= errors[:, column, None] * factor[column, column:]
    return integers, errors


def _inverse_factor(gram: Gram) -> NDArray[np.float64]:
    """Return the upper Cholesky factor of the inverse Gram matrix: row k is the effect of an error at k on the rest."""
    damped = gram.astype(np.float64) + DAMPING * max(gram.trace() / len(gram), 1e-12) * np.eye(len(gram))
    factor: NDArray[np.float64] = np.linalg.cholesky(np.linalg.inv(damped)).T
    return factor


def _best_scales(blocks: Floats) -> Floats:  # (..., size) -> (...)
    """Return the scale of each block with the least squared error; 0 for a block of zeros."""
    indices = np.abs(blocks).argmax(axis=-1)[..., None]
    largest = np.take_along_axis(blocks, indices, axis=-1)  # (..., 1), with its sign
    best, least = np.zeros_like(largest), np.full_like(largest, np.inf)
    for divisor in DIVISORS:
        scale = np.where(largest == 0, 1, -largest / divisor)
        kept = (_to_integers(blocks, scale).astype(np.float32) - ZERO) * scale
        error = np.square(kept - blocks).sum(axis=-1, keepdims=True)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    scales: Floats = np.where(largest == 0, 0, best)[..., 0]
    return scales


def _in_units(scales: Floats, units: Floats) -> NDArray[np.int8]:
    """Return scales as integers, which are never 0."""
    integers = np.clip(np.rint(scales / units), -MAX_UNITS, MAX_UNITS)
    return np.where(integers == 0, 1, integers).astype(np.int8)


def _to_integers(weights: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.uint8]:
    integers: NDArray[np.uint8] = np.clip(np.rint(weights / scale) + ZERO, 0, 15).astype(np.uint8)
    return integers
