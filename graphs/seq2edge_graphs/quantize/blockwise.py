"""Let products and lookups compute with weights in blocks, each of which has a scale.

A product becomes ``MatMulNBits``, which onnxruntime has for CPUs, CUDA and WebGPU. At accuracy level 4 it rounds the
left side to 8-bit integers, block by block in each row, so no row depends on another. A bias stays the addition it is:
onnxruntime pulls it into the operator where its kernel takes one. A lookup becomes ``GatherBlockQuantized``, which
reads the same bytes: a tied embedding is in the file once.

Compute with 8-bit weights in long blocks, which is faster than without for a single row.

One operator (``in_blocks.py``) rounds a row, multiplies and scales, where rounding a whole row (``int8.py``) takes four
nodes before the product and the product itself was made for many rows. From some 16 rows on it is the slower one, and
the encoder has that many in every call, so its products are left to ``int8.py``.

Compute with 4-bit weights in short blocks.

The products are those of ``in_blocks.py``; 4-bit weights times 8-bit activations cannot saturate 16 bits on any CPU:
2 * 15 * 127 = 3,810.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, insert_after, replace_node, set_content
from seq2edge_graphs.quantize.gptq import Gram, Int4Blocks, round_int4_blocks
from seq2edge_graphs.quantize.storage import round_up_to_bfloat16, scale_constant
from seq2edge_graphs.quantize.weights import Floats, QuantizableWeight

INTEGER_ACTIVATIONS = 4  # accuracy_level


@dataclass(frozen=True, kw_only=True)
class BlockLayout:
    """N channels of B blocks."""

    packed: NDArray[np.uint8]  # (N, B, bytes of a block)
    scales: ir.Value  # (N, B)
    bits: int

    @property
    def size(self) -> int:
        """Weights of a block."""
        return int(self.packed.shape[2]) * 8 // self.bits

    @property
    def rows(self) -> NDArray[np.uint8]:  # (N, bytes of a channel)
        return self.packed.reshape(len(self.packed), -1)


def apply_blocks(graph: ir.Graph, part: QuantizableWeight, layout: BlockLayout) -> None:
    """Let a weight, which keeps its name, be its blocks, and whoever reads it compute with them."""
    set_content(part.weight, layout.packed if part.products else layout.rows)
    for product in part.products:
        _multiply(graph, product, part.weight, layout)
    for lookup in part.lookups:
        rows = part.weight
        if part.products:  # the same bytes in another shape: in the file of the weights they are there once
            rows = constant(graph, f"{part.name}.rows", layout.rows)
        _look_up(graph, lookup, rows, layout)


def _multiply(graph: ir.Graph, product: ir.Node, weight: ir.Value, layout: BlockLayout) -> None:
    channels, count, _ = layout.packed.shape
    left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
    tape = ir.tape.Tape()
    sizes = {"K": count * layout.size, "N": channels, "block_size": layout.size, "bits": layout.bits}
    attributes = {**sizes, "accuracy_level": INTEGER_ACTIVATIONS}
    made = tape.op("MatMulNBits", [left, weight, layout.scales], attributes, domain=MICROSOFT)
    if bias is not None:
        tape.op("Add", [made, bias])
    replace_node(graph, product, tape)


def _look_up(graph: ir.Graph, lookup: ir.Node, rows: ir.Value, layout: BlockLayout) -> None:
    tape = ir.tape.Tape()
    attributes = {"gather_axis": 0, "quantize_axis": 1, "bits": layout.bits, "block_size": layout.size}
    tape.op("GatherBlockQuantized", [rows, lookup.inputs[1], layout.scales], attributes, domain=MICROSOFT)
    replace_node(graph, lookup, tape)


BYTE = 8
SIZES = (256, 128, 64, 32, 16)  # of a block, the first that divides the channel: the longer, the faster
ZERO, LARGEST = 128, 127  # the byte that stands for 0, and how far others are from it


def int8_block_size(inner: int) -> int | None:
    """The length of the blocks of a channel, or nothing where none divides it."""
    return next((size for size in SIZES if inner % size == 0), None)


def quantize_int8_blocks(graph: ir.Graph, part: QuantizableWeight) -> None:
    """Round a weight, and let its products and lookups compute with the blocks."""
    packed, scale = round_int8_blocks(part.channels())
    scales = scale_constant(graph, f"{part.name}.scales", scale)
    apply_blocks(graph, part, BlockLayout(packed=packed, scales=scales, bits=BYTE))


def round_int8_blocks(channels: Floats) -> tuple[NDArray[np.uint8], Floats]:  # (N, K)
    """Bytes (N, B, size) and scales (N, B): a weight is about its byte less 128, times the scale."""
    size = int8_block_size(channels.shape[1])
    assert size is not None
    blocks = channels.reshape(len(channels), -1, size)
    magnitude = np.abs(blocks).max(axis=2)  # (N, B)
    scale = round_up_to_bfloat16((np.where(magnitude > 0, magnitude, 1) / LARGEST).astype(np.float32))
    return (np.rint(blocks / scale[..., None]) + ZERO).astype(np.uint8), scale


NIBBLE = 4


def quantize_int4(graph: ir.Graph, part: QuantizableWeight, gram: Gram | None) -> None:
    """Round a weight, and let its products and lookups compute with the blocks."""
    blocks = round_int4_blocks(part.channels(), gram)
    layout = BlockLayout(packed=blocks.packed(), scales=_scales(graph, part.name, blocks), bits=NIBBLE)
    apply_blocks(graph, part, layout)


def _scales(graph: ir.Graph, name: str, blocks: Int4Blocks) -> ir.Value:  # (N, B)
    units = scale_constant(graph, f"{name}.unit", blocks.units[:, None])
    tape = ir.tape.Tape()
    steps = tape.op("Cast", [constant(graph, f"{name}.scale", blocks.scales)], {"to": ir.DataType.FLOAT.value})
    scales = tape.op("Mul", [steps, units])
    insert_after(graph, units, tape)
    return scales
