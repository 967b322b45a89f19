"""Compute with 8-bit weights and 8-bit activations.

A product becomes ``MatMulIntegerToFloat``, which takes one scale a row on the left and one a channel on the right, or
in the portable dialect ``MatMulInteger`` and two multiplications. Its bias stays outside: the operator would add it
before it multiplies with the scales of the rows.

A lookup takes the integers of a token and its scale. A tied embedding is one constant for both: the product reads it
through a Transpose, which onnxruntime carries out when it loads the graph, and of which it keeps only what its kernel
wants packed. (Gathering columns of a transposed table instead is slower; the operator that transposes by itself,
``QGemm``, keeps a second copy.)

Round activations to bytes row by row while the graph runs.

Each token's vector has a scale of its own: what a sentence becomes does not depend on its batch mates, and an outlier
hurts only its own token. ONNX has an operator that finds one scale for a whole batch, and none for this, so:

    largest  = ReduceMax(Abs(x))                          (..., 1)
    integers = QuantizeLinear(x / largest, 1 / 127, 128)  (..., K), from 1 to 255, where 128 means 0

A product with these integers is multiplied with ``largest`` and 1 / 127 again. What comes from a ReLU is nowhere below
0: it uses all of 0 to 255, where 0 means 0, which halves its rounding. The ReLU itself is then left out, since rounding
makes 0 of what is below 0:

    largest  = Max(ReduceMax(x), 0)                       (..., 1)
    integers = QuantizeLinear(x / largest, 1 / 255, 0)    (..., K), from 0 to 255

A row of zeros gives 0 / 0, of which onnxruntime makes some integers, and they count for nothing: the product is
multiplied with ``largest``, which is 0.

Rows are rounded once, however many products read them: query, key and value share theirs.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from seq2edge.bundle.bundle import Dialect
from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, insert_after, replace_node, set_content
from seq2edge_graphs.quantize.storage import round_channels, scale_constant
from seq2edge_graphs.quantize.weights import QuantizableWeight, is_transposed

SIGNED, UNSIGNED = 127, 255  # steps from 0 to the largest magnitude


@dataclass(frozen=True)
class QuantizedRows:
    """What a product needs of its left side."""

    integers: ir.Value
    zero_point: ir.Value
    largest: ir.Value


@dataclass
class RowQuantizer:
    """Adds to a graph what rounds a value's rows, once for each value."""

    graph: ir.Graph
    made: dict[tuple[ir.Value, int], QuantizedRows] = field(default_factory=dict)

    def __call__(self, value: ir.Value, steps: int) -> QuantizedRows:
        if (value, steps) not in self.made:
            self.made[value, steps] = self._round(value, steps)
        return self.made[value, steps]

    def _round(self, value: ir.Value, steps: int) -> QuantizedRows:
        tape, signed = ir.tape.Tape(), steps == SIGNED
        last_axis = constant(self.graph, "rows.axis", np.array([-1]))
        step = constant(self.graph, f"rows.step.{steps}", np.float32(1 / steps))
        zero_point = constant(self.graph, f"rows.zero.{steps}", np.uint8(128 if signed else 0))
        if signed:
            largest = tape.op("ReduceMax", [tape.op("Abs", [value]), last_axis])
        else:
            value = _before_relu(value)
            nothing = constant(self.graph, "rows.nothing", np.float32(0))
            largest = tape.op("Max", [tape.op("ReduceMax", [value, last_axis]), nothing])
        integers = tape.op("QuantizeLinear", [tape.op("Div", [value, largest]), step, zero_point])
        insert_after(self.graph, value, tape)
        return QuantizedRows(integers, zero_point, largest)


def activation_steps(products: tuple[ir.Node, ...]) -> int:
    """With how many steps the left sides of a weight's products are rounded."""
    sources = [product.inputs[0].producer() for product in products if product.inputs[0] is not None]
    unsigned = bool(sources) and all(node is not None and node.op_type == "Relu" for node in sources)
    return UNSIGNED if unsigned else SIGNED


def _before_relu(value: ir.Value) -> ir.Value:
    relu = value.producer()
    assert relu is not None
    assert relu.inputs[0] is not None
    return relu.inputs[0]


class Int8Quantizer:
    """Rewrites the matrices of one graph."""

    def __init__(self, graph: ir.Graph, dialect: Dialect) -> None:
        self.graph, self.dialect = graph, dialect
        self.rounder = RowQuantizer(graph)

    def __call__(self, part: QuantizableWeight) -> None:
        """Round a weight, which keeps its name, and let its products and lookups compute with the integers."""
        steps = activation_steps(part.products)
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
        replace_node(self.graph, product, tape)

    def _product(self, tape: ir.tape.Tape, rows: QuantizedRows, matrix: ir.Value, scale: ir.Value) -> ir.Value:
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
        replace_node(self.graph, lookup, tape)
