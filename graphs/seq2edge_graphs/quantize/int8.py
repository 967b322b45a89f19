"""Compute with 8-bit weights and 8-bit activations; needs numpy and onnx-ir.

A product becomes ``MatMulIntegerToFloat``, which takes one scale a row on the left and one a channel on the right, or
in the portable dialect ``MatMulInteger`` and two multiplications. Its bias stays outside: the operator would add it
before it multiplies with the scales of the rows.

A lookup takes the integers of a token and its scale. A tied embedding is one constant for both: the product reads it
through a Transpose, which onnxruntime carries out when it loads the graph, and of which it keeps only what its kernel
wants packed. (Gathering columns of a transposed table instead is slower; the operator that transposes by itself,
``QGemm``, keeps a second copy.)
"""

import numpy as np
import onnx_ir as ir

from seq2edge.bundle import Dialect
from seq2edge_graphs.quantize.edit import MICROSOFT, constant, replace, set_content
from seq2edge_graphs.quantize.integers import round_channels
from seq2edge_graphs.quantize.parts import Part, is_transposed
from seq2edge_graphs.quantize.rows import RoundedRows, RowRounder, steps_of
from seq2edge_graphs.quantize.scales import scale_constant


class Int8:
    """Rewrites the matrices of one graph."""

    def __init__(self, graph: ir.Graph, dialect: Dialect) -> None:
        self.graph, self.dialect = graph, dialect
        self.rounder = RowRounder(graph)

    def __call__(self, part: Part) -> None:
        """Round a weight, which keeps its name, and let its products and lookups compute with the integers."""
        steps = steps_of(part.products)
        integers, scale = round_channels(part.channels(), steps=steps)
        set_content(part.weight, integers if part.rows_are_channels else integers.T)
        if part.products:
            each_column = scale_constant(self.graph, f"{part.name}.scale", scale)
            for product in part.products:
                self._multiply(product, part.weight, each_column, steps)
        if part.lookups:  # the same numbers: in the file of the weights they are there once
            each_row = scale_constant(self.graph, f"{part.name}.scales", scale[:, None])
            for lookup in part.lookups:
                self._look_up(lookup, part.weight, each_row, steps)

    def _multiply(self, product: ir.Node, weight: ir.Value, scale: ir.Value, steps: int) -> None:
        left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
        assert left is not None
        tape = ir.tape.Tape()
        matrix = tape.op("Transpose", [weight], {"perm": [1, 0]}) if is_transposed(product) else weight
        made = self._product(tape, self.rounder(left, steps), matrix, scale)
        if bias is not None:
            tape.op("Add", [made, bias])
        replace(self.graph, product, tape)

    def _product(self, tape: ir.tape.Tape, rows: RoundedRows, matrix: ir.Value, scale: ir.Value) -> ir.Value:
        if self.dialect == "ort":
            inputs = [rows.integers, matrix, rows.largest, scale, rows.zero_point]
            return tape.op("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
        sums = tape.op("MatMulInteger", [rows.integers, matrix, rows.zero_point])
        scaled = tape.op("Mul", [tape.op("Cast", [sums], {"to": ir.DataType.FLOAT.value}), rows.largest])
        return tape.op("Mul", [scaled, scale])

    def _look_up(self, lookup: ir.Node, table: ir.Value, scales: ir.Value, steps: int) -> None:
        ids, tape = lookup.inputs[1], ir.tape.Tape()
        factor = constant(self.graph, f"rows.steps.{steps}", np.float32(steps))
        integers = tape.op("DequantizeLinear", [tape.op("Gather", [table, ids]), factor])
        tape.op("Mul", [integers, tape.op("Gather", [scales, ids])])
        replace(self.graph, lookup, tape)
