"""Block-wise quantization: each block of a channel has its own scale.

A product becomes ``MatMulNBits``, which onnxruntime has for CPUs, CUDA and WebGPU. At accuracy level 4 it rounds the
left side to 8-bit integers, block by block in each row, so no row depends on another. A bias remains an addition, which
onnxruntime fuses into the operator where the kernel supports it. A lookup becomes ``GatherBlockQuantized``, which reads
the same bytes, so that a tied embedding is stored once.

8-bit weights have long blocks. They are faster than without blocks for a single row: one operator quantizes the row,
multiplies and scales, where ``int8.py`` needs four nodes before a product that is made for many rows. From about 16
rows on they are slower, and the encoder always has that many, so ``plan_precision`` leaves its products to ``int8.py``.

4-bit weights have short blocks, rounded by ``gptq.py``. They cannot saturate 16 bits on any CPU:
2 * 15 * 127 = 3,810.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, insert_after, replace_node, set_content
from seq2edge_graphs.quantize.gptq import Int4Blocks
from seq2edge_graphs.quantize.storage import round_up_to_bfloat16, scale_constant
from seq2edge_graphs.quantize.weights import Floats, QuantizableWeight

INT8_ACTIVATIONS = 4  # accuracy_level
INT8_BLOCK_SIZES = (256, 128, 64, 32, 16)  # the first that divides the channel: longer blocks are faster
INT8_ZERO, INT8_LARGEST = 128, 127  # the byte that represents 0, and the largest distance from it


@dataclass(frozen=True, kw_only=True)
class BlockLayout:
    """N channels of B blocks."""

    packed: NDArray[np.uint8]  # (N, B, bytes per block)
    scales: ir.Value  # (N, B)
    bits: int

    @property
    def size(self) -> int:
        """Return the number of weights per block."""
        return int(self.packed.shape[2]) * 8 // self.bits

    @property
    def rows(self) -> NDArray[np.uint8]:  # (N, bytes per channel)
        return self.packed.reshape(len(self.packed), -1)


def quantize_int8_blocks(graph: ir.Graph, weight: QuantizableWeight) -> None:
    packed, scale = round_int8_blocks(weight.channels())
    scales = scale_constant(graph, f"{weight.name}.scales", scale)
    apply_blocks(graph, weight, BlockLayout(packed=packed, scales=scales, bits=8))


def quantize_int4(graph: ir.Graph, weight: QuantizableWeight, blocks: Int4Blocks) -> None:
    layout = BlockLayout(packed=blocks.packed(), scales=_int4_scales(graph, weight.name, blocks), bits=4)
    apply_blocks(graph, weight, layout)


def int8_block_size(inner: int) -> int | None:
    """Return the size of the blocks of a channel, or None if no size divides it."""
    return next((size for size in INT8_BLOCK_SIZES if inner % size == 0), None)


def round_int8_blocks(channels: Floats) -> tuple[NDArray[np.uint8], Floats]:  # (N, K)
    """Return bytes (N, B, size) and scales (N, B): a weight is about its byte minus 128, times the scale."""
    size = int8_block_size(channels.shape[1])
    assert size is not None
    blocks = channels.reshape(len(channels), -1, size)
    magnitude = np.abs(blocks).max(axis=2)  # (N, B)
    scale = round_up_to_bfloat16((np.where(magnitude > 0, magnitude, 1) / INT8_LARGEST).astype(np.float32))
    return (np.rint(blocks / scale[..., None]) + INT8_ZERO).astype(np.uint8), scale


def _int4_scales(graph: ir.Graph, name: str, blocks: Int4Blocks) -> ir.Value:  # (N, B)
    units = scale_constant(graph, f"{name}.unit", blocks.units[:, None])
    tape = ir.tape.Tape()
    integers = tape.op("Cast", [constant(graph, f"{name}.scale", blocks.scales)], {"to": ir.DataType.FLOAT.value})
    scales = tape.op("Mul", [integers, units])
    insert_after(graph, units, tape)
    return scales


def apply_blocks(graph: ir.Graph, weight: QuantizableWeight, layout: BlockLayout) -> None:
    """Replace a weight, which keeps its name, by its blocks, and rewrite the products and lookups that read it."""
    set_content(weight.value, layout.packed if weight.products else layout.rows)
    for product in weight.products:
        _replace_product(graph, product, weight.value, layout)
    for lookup in weight.lookups:
        rows = weight.value
        if weight.products:  # the same bytes in another shape, which the weights file stores once
            rows = constant(graph, f"{weight.name}.rows", layout.rows)
        _replace_lookup(graph, lookup, rows, layout)


def _replace_product(graph: ir.Graph, product: ir.Node, packed: ir.Value, layout: BlockLayout) -> None:
    channels, count, _ = layout.packed.shape
    left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
    tape = ir.tape.Tape()
    sizes = {"K": count * layout.size, "N": channels, "block_size": layout.size, "bits": layout.bits}
    attributes = {**sizes, "accuracy_level": INT8_ACTIVATIONS}
    output = tape.op("MatMulNBits", [left, packed, layout.scales], attributes, domain=MICROSOFT)
    if bias is not None:
        tape.op("Add", [output, bias])
    replace_node(graph, product, tape)


def _replace_lookup(graph: ir.Graph, lookup: ir.Node, rows: ir.Value, layout: BlockLayout) -> None:
    tape = ir.tape.Tape()
    attributes = {"gather_axis": 0, "quantize_axis": 1, "bits": layout.bits, "block_size": layout.size}
    tape.op("GatherBlockQuantized", [rows, lookup.inputs[1], layout.scales], attributes, domain=MICROSOFT)
    replace_node(graph, lookup, tape)
