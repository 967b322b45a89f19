"""Round weights to 8-bit integers, one scale an output channel, so that no CPU saturates; needs numpy.

Activations are unsigned bytes a from 0 to 255, weights signed bytes w. CPUs without VNNI (SSE 4.1, AVX2, first AVX-512)
multiply them with an instruction, ``pmaddubsw``, that adds two neighbouring products into 16 bits and saturates:
a1 * w1 + a2 * w2 must stay within ±32,767, or such a CPU gives another result than a newer one. It lies between 255
times the sum of the negative weights and 255 times the sum of the positive ones, so its magnitude is at most 255 times
the largest of |w1|, |w2| and |w1 + w2|. Here the scale is chosen so that all three are at most 127 before they are
rounded and 128 afterwards: 255 * 128 = 32,640.

The neighbours are inner places 0 and 1, 2 and 3 and so on: onnxruntime's kernels take the inner axis in its order, four
places at a time. Bounding pairs costs a third of a bit for common weights, where bounding every weight alone (by 64, as
"reduce range" does) costs a whole one.
"""

import numpy as np
from numpy.typing import NDArray

from seq2edge_graphs.quantize.parts import Floats
from seq2edge_graphs.quantize.scales import rounded_up

Integers = NDArray[np.int8]

LARGEST = 127


def round_channels(channels: Floats, *, steps: int = 1) -> tuple[Integers, Floats]:  # (N, K)
    """Integers (N, K) and scales (N,): a channel is about its integers times its scale times ``steps``.

    The scales are those of products with activations that count in so many steps.
    """
    magnitude = np.maximum(np.abs(channels).max(axis=1), np.abs(_neighbours(channels)).max(axis=1))
    scale = _scale(magnitude, steps)
    return np.rint(channels / (scale[:, None] * steps)).astype(np.int8), scale


def round_rows(table: Floats) -> tuple[Integers, Floats]:
    """The same for a table that nothing multiplies with: the full range, and any number of axes; scales (..., 1)."""
    scale = _scale(np.abs(table).max(axis=-1, keepdims=True), 1)
    return np.rint(table / scale).astype(np.int8), scale


def _scale(magnitude: Floats, steps: int) -> Floats:
    return rounded_up((np.where(magnitude > 0, magnitude, 1) / (LARGEST * steps)).astype(np.float32))


def _neighbours(channels: Floats) -> Floats:  # (N, K / 2)
    """Sums of the pairs that an instruction adds before it can saturate."""
    even = channels[:, : channels.shape[1] // 2 * 2]
    sums: Floats = even[:, 0::2] + even[:, 1::2]
    return sums if sums.size else channels
