"""Compute with 8-bit weights in long blocks, which is faster than without for a single row; needs numpy and onnx-ir.

One operator (``in_blocks.py``) rounds a row, multiplies and scales, where rounding a whole row (``int8.py``) takes four
nodes before the product and the product itself was made for many rows. From some 16 rows on it is the slower one, and
the encoder has that many in every call, so its products are left to ``int8.py``.
"""

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.quantize.in_blocks import Layout, compute_in_blocks
from seq2edge_graphs.quantize.parts import Floats, Part
from seq2edge_graphs.quantize.scales import rounded_up, scale_constant

BITS = 8
SIZES = (256, 128, 64, 32, 16)  # of a block, the first that divides the channel: the longer, the faster
ZERO, LARGEST = 128, 127  # the byte that stands for 0, and how far others are from it


def byte_block_size(inner: int) -> int | None:
    """The length of the blocks of a channel, or nothing where none divides it."""
    return next((size for size in SIZES if inner % size == 0), None)


def compute_in_byte_blocks(graph: ir.Graph, part: Part) -> None:
    """Round a weight, and let its products and lookups compute with the blocks."""
    packed, scale = round_bytes(part.channels())
    scales = scale_constant(graph, f"{part.name}.scales", scale)
    compute_in_blocks(graph, part, Layout(packed=packed, scales=scales, bits=BITS))


def round_bytes(channels: Floats) -> tuple[NDArray[np.uint8], Floats]:  # (N, K)
    """Bytes (N, B, size) and scales (N, B): a weight is about its byte less 128, times the scale."""
    size = byte_block_size(channels.shape[1])
    assert size is not None
    blocks = channels.reshape(len(channels), -1, size)
    magnitude = np.abs(blocks).max(axis=2)  # (N, B)
    scale = rounded_up((np.where(magnitude > 0, magnitude, 1) / LARGEST).astype(np.float32))
    return (np.rint(blocks / scale[..., None]) + ZERO).astype(np.uint8), scale
