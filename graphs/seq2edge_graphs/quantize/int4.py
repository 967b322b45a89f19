"""Quantization to 4 bits in blocks: each block of a channel has its own scale, see ``gptq.py`` for the rounding.

A product becomes ``MatMulNBits``, which onnxruntime has for CPUs, CUDA and WebGPU. At accuracy level 4 it rounds the
left side to 8-bit integers, block by block in each row, so no row depends on another. A bias remains an addition, which
onnxruntime fuses into the operator where the kernel supports it. A lookup becomes ``GatherBlockQuantized``, which reads
the same bytes, so that a tied embedding is stored once. No CPU saturates 16 bits with them: 2 * 15 * 127 = 3,810.
"""

import onnx_ir as ir

from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, insert_after, replace_node, set_content
from seq2edge_graphs.quantize.gptq import Int4Blocks
from seq2edge_graphs.quantize.storage import scale_constant
from seq2edge_graphs.quantize.weights import QuantizableWeight

BITS = 4
INT8_ACTIVATIONS = 4  # accuracy_level


def quantize_int4(graph: ir.Graph, weight: QuantizableWeight, blocks: Int4Blocks) -> None:
    """Replace a weight, which keeps its name, by its blocks, and rewrite the products and lookups that read it."""
    packed, scales = blocks.packed(), _scales(graph, weight.name, blocks)  # (N, B, bytes per block), (N, B)
    channels, count, size = packed.shape[0], packed.shape[1], packed.shape[2] * 8 // BITS
    rows = packed.reshape(channels, -1)
    set_content(weight.value, packed if weight.products else rows)
    for product in weight.products:
        sizes = {"K": count * size, "N": channels, "block_size": size, "bits": BITS}
        _replace_product(graph, product, [weight.value, scales], sizes)
    for lookup in weight.lookups:
        # the same bytes in another shape, which the weights file stores once
        table = constant(graph, f"{weight.name}.rows", rows) if weight.products else weight.value
        _replace_lookup(graph, lookup, table, scales, size)


def _scales(graph: ir.Graph, name: str, blocks: Int4Blocks) -> ir.Value:  # (N, B)
    units = scale_constant(graph, f"{name}.unit", blocks.units[:, None])
    tape = ir.tape.Tape()
    integers = tape.op("Cast", [constant(graph, f"{name}.scale", blocks.scales)], {"to": ir.DataType.FLOAT.value})
    scales = tape.op("Mul", [integers, units])
    insert_after(graph, units, tape)
    return scales


def _replace_product(graph: ir.Graph, product: ir.Node, right: list[ir.Value], sizes: dict[str, int]) -> None:
    left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
    tape = ir.tape.Tape()
    attributes = {**sizes, "accuracy_level": INT8_ACTIVATIONS}
    output = tape.op("MatMulNBits", [left, *right], attributes, domain=MICROSOFT)
    if bias is not None:
        tape.op("Add", [output, bias])
    replace_node(graph, product, tape)


def _replace_lookup(graph: ir.Graph, lookup: ir.Node, table: ir.Value, scales: ir.Value, size: int) -> None:
    tape = ir.tape.Tape()
    attributes = {"gather_axis": 0, "quantize_axis": 1, "bits": BITS, "block_size": size}
    tape.op("GatherBlockQuantized", [table, lookup.inputs[1], scales], attributes, domain=MICROSOFT)
    replace_node(graph, lookup, tape)
