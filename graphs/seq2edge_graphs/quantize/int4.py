"""Compute with 4-bit weights in blocks; needs numpy and onnx-ir.

A product becomes ``MatMulNBits``, which onnxruntime has for CPUs, CUDA and WebGPU. At accuracy level 4 it rounds the
left side to 8-bit integers, block by block in each row, so no row depends on another; 4-bit weights times these cannot
saturate 16 bits: 2 * 15 * 127 = 3,810. A bias stays the addition it is: onnxruntime pulls it into the operator where
its kernel takes one. A lookup becomes ``GatherBlockQuantized``, which reads the same bytes: a tied embedding is in the
file once.
"""

import onnx_ir as ir

from seq2edge_graphs.quantize.blocks import Blocks, Gram, round_blocks
from seq2edge_graphs.quantize.edit import MICROSOFT, constant, insert_behind, replace, set_content
from seq2edge_graphs.quantize.parts import Part
from seq2edge_graphs.quantize.scales import scale_constant

BITS = 4
INTEGER_ACTIVATIONS = 4  # accuracy_level


class Int4:
    """Rewrites the matrices of one graph."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph

    def __call__(self, part: Part, gram: Gram | None) -> None:
        """Round a weight, which keeps its name, and let its products and lookups compute with the blocks."""
        blocks = round_blocks(part.channels(), gram)
        scales, packed = self._scales(part.name, blocks), blocks.packed()
        set_content(part.weight, packed if part.products else packed.reshape(len(packed), -1))
        for product in part.products:
            self._multiply(product, part.weight, scales, blocks)
        for lookup in part.lookups:
            rows = part.weight
            if part.products:  # the same bytes in another shape: in the file of the weights they are there once
                rows = constant(self.graph, f"{part.name}.rows", packed.reshape(len(packed), -1))
            self._look_up(lookup, rows, scales, blocks)

    def _scales(self, name: str, blocks: Blocks) -> ir.Value:  # (N, B)
        units = scale_constant(self.graph, f"{name}.unit", blocks.units[:, None])
        tape = ir.tape.Tape()
        steps = tape.op("Cast", [constant(self.graph, f"{name}.scale", blocks.scales)], {"to": ir.DataType.FLOAT.value})
        scales = tape.op("Mul", [steps, units])
        insert_behind(self.graph, units, tape)
        return scales

    def _multiply(self, product: ir.Node, weight: ir.Value, scales: ir.Value, blocks: Blocks) -> None:
        channels, count, size = blocks.integers.shape
        left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
        sizes = {"K": count * size, "N": channels, "block_size": size}
        tape = ir.tape.Tape()
        attributes = {**sizes, "bits": BITS, "accuracy_level": INTEGER_ACTIVATIONS}
        made = tape.op("MatMulNBits", [left, weight, scales], attributes, domain=MICROSOFT)
        if bias is not None:
            tape.op("Add", [made, bias])
        replace(self.graph, product, tape)

    def _look_up(self, lookup: ir.Node, rows: ir.Value, scales: ir.Value, blocks: Blocks) -> None:
        tape = ir.tape.Tape()
        axes = {"gather_axis": 0, "quantize_axis": 1}
        attributes = {**axes, "bits": BITS, "block_size": blocks.integers.shape[2]}
        tape.op("GatherBlockQuantized", [rows, lookup.inputs[1], scales], attributes, domain=MICROSOFT)
        replace(self.graph, lookup, tape)
