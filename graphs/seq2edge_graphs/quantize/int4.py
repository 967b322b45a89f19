"""Compute with 4-bit weights in short blocks; needs numpy and onnx-ir.

The products are those of ``in_blocks.py``; 4-bit weights times 8-bit activations cannot saturate 16 bits on any CPU:
2 * 15 * 127 = 3,810.
"""

import onnx_ir as ir

from seq2edge_graphs.quantize.blocks import Blocks, Gram, round_blocks
from seq2edge_graphs.quantize.edit import constant, insert_behind
from seq2edge_graphs.quantize.in_blocks import Layout, compute_in_blocks
from seq2edge_graphs.quantize.parts import Part
from seq2edge_graphs.quantize.scales import scale_constant

BITS = 4


def compute_in_int4(graph: ir.Graph, part: Part, gram: Gram | None) -> None:
    """Round a weight, and let its products and lookups compute with the blocks."""
    blocks = round_blocks(part.channels(), gram)
    layout = Layout(packed=blocks.packed(), scales=_scales(graph, part.name, blocks), bits=BITS)
    compute_in_blocks(graph, part, layout)


def _scales(graph: ir.Graph, name: str, blocks: Blocks) -> ir.Value:  # (N, B)
    units = scale_constant(graph, f"{name}.unit", blocks.units[:, None])
    tape = ir.tape.Tape()
    steps = tape.op("Cast", [constant(graph, f"{name}.scale", blocks.scales)], {"to": ir.DataType.FLOAT.value})
    scales = tape.op("Mul", [steps, units])
    insert_behind(graph, units, tape)
    return scales
