"""Let products and lookups compute with weights in blocks, each of which has a scale; needs numpy and onnx-ir.

A product becomes ``MatMulNBits``, which onnxruntime has for CPUs, CUDA and WebGPU. At accuracy level 4 it rounds the
left side to 8-bit integers, block by block in each row, so no row depends on another. A bias stays the addition it is:
onnxruntime pulls it into the operator where its kernel takes one. A lookup becomes ``GatherBlockQuantized``, which
reads the same bytes: a tied embedding is in the file once.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.quantize.edit import MICROSOFT, constant, replace, set_content
from seq2edge_graphs.quantize.parts import Part

INTEGER_ACTIVATIONS = 4  # accuracy_level


@dataclass(frozen=True, kw_only=True)
class Layout:
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


def compute_in_blocks(graph: ir.Graph, part: Part, layout: Layout) -> None:
    """Let a weight, which keeps its name, be its blocks, and whoever reads it compute with them."""
    set_content(part.weight, layout.packed if part.products else layout.rows)
    for product in part.products:
        _multiply(graph, product, part.weight, layout)
    for lookup in part.lookups:
        rows = part.weight
        if part.products:  # the same bytes in another shape: in the file of the weights they are there once
            rows = constant(graph, f"{part.name}.rows", layout.rows)
        _look_up(graph, lookup, rows, layout)


def _multiply(graph: ir.Graph, product: ir.Node, weight: ir.Value, layout: Layout) -> None:
    channels, count, _ = layout.packed.shape
    left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
    tape = ir.tape.Tape()
    sizes = {"K": count * layout.size, "N": channels, "block_size": layout.size, "bits": layout.bits}
    attributes = {**sizes, "accuracy_level": INTEGER_ACTIVATIONS}
    made = tape.op("MatMulNBits", [left, weight, layout.scales], attributes, domain=MICROSOFT)
    if bias is not None:
        tape.op("Add", [made, bias])
    replace(graph, product, tape)


def _look_up(graph: ir.Graph, lookup: ir.Node, rows: ir.Value, layout: Layout) -> None:
    tape = ir.tape.Tape()
    attributes = {"gather_axis": 0, "quantize_axis": 1, "bits": layout.bits, "block_size": layout.size}
    tape.op("GatherBlockQuantized", [rows, lookup.inputs[1], layout.scales], attributes, domain=MICROSOFT)
    replace(graph, lookup, tape)
