"""Round activations to bytes row by row while the graph runs; needs numpy and onnx-ir.

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

from seq2edge_graphs.quantize.edit import constant, insert_behind

SIGNED, UNSIGNED = 127, 255  # steps from 0 to the largest magnitude


@dataclass(frozen=True)
class RoundedRows:
    """What a product needs of its left side."""

    integers: ir.Value
    zero_point: ir.Value
    largest: ir.Value


@dataclass
class RowRounder:
    """Adds to a graph what rounds a value's rows, once for each value."""

    graph: ir.Graph
    made: dict[tuple[ir.Value, int], RoundedRows] = field(default_factory=dict)

    def __call__(self, value: ir.Value, steps: int) -> RoundedRows:
        if (value, steps) not in self.made:
            self.made[value, steps] = self._round(value, steps)
        return self.made[value, steps]

    def _round(self, value: ir.Value, steps: int) -> RoundedRows:
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
        insert_behind(self.graph, value, tape)
        return RoundedRows(integers, zero_point, largest)


def steps_of(products: tuple[ir.Node, ...]) -> int:
    """With how many steps the left sides of a weight's products are rounded."""
    sources = [product.inputs[0].producer() for product in products if product.inputs[0] is not None]
    unsigned = bool(sources) and all(node is not None and node.op_type == "Relu" for node in sources)
    return UNSIGNED if unsigned else SIGNED


def _before_relu(value: ir.Value) -> ir.Value:
    relu = value.producer()
    assert relu is not None
    assert relu.inputs[0] is not None
    return relu.inputs[0]
