"""Quantization to 8 bits: weights per channel, and activations with one scale for all rows, or one for each row.

Activations whose range is known from calibration have one scale, a constant:

    integers = QuantizeLinear(x, largest / 127, 128)      (..., K), from 0 to 255, where 128 is 0

Others, whose rows differ too much in magnitude, are rounded row by row. Each row, the vector of a token, has its own
scale: results do not depend on the other sentences of a batch, and an outlier affects only its own token. ONNX has an
operator for one scale per tensor, and none for this:

    largest  = ReduceMax(Abs(x))                          (..., 1)
    integers = QuantizeLinear(x / largest, 1 / 127, 128)  (..., K), from 1 to 255, where 128 is 0

A product of these integers is multiplied by ``largest`` and 1 / 127 again. The output of a ReLU is never negative and
uses the range from 0 to 255, where 0 is 0, which halves the rounding error. The ReLU itself is dropped, since rounding
turns negative numbers into 0:

    largest  = Max(ReduceMax(x), 0)                       (..., 1)
    integers = QuantizeLinear(x / largest, 1 / 255, 0)    (..., K), from 0 to 255

A row of zeros is 0 / 0, which onnxruntime rounds to arbitrary integers. They do not matter, because the product is
multiplied by ``largest``, which is 0. Rows are quantized once for all products that read them, such as query, key and
value.

A product becomes ``MatMulIntegerToFloat`` with one scale or one per row on the left and one per channel on the right,
or, in the portable dialect, ``MatMulInteger`` and two multiplications. With one scale per row its bias is added
afterwards: the operator would add it before multiplying by the scales of the rows.

A lookup gathers the integers and the scale of a token. A tied embedding is one constant: the product reads it through a
Transpose, which onnxruntime folds when it loads the graph, keeping only the packed form that its kernel needs.
(Gathering columns of a transposed table is slower, and ``QGemm``, which transposes itself, keeps a second copy.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from seq2edge.bundle.bundle import Dialect
from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, insert_after, replace_node, set_content
from seq2edge_graphs.quantize.storage import round_channels, scale_constant
from seq2edge_graphs.quantize.weights import QuantizableWeight, is_transposed

Ranges = Mapping[str, float]  # the largest magnitude on the left of a weight's products, by its name

SIGNED, UNSIGNED = 127, 255  # steps from 0 to the largest magnitude
FEW_ROWS = 8  # for which multiplying the output with the scales of its columns is faster than preparing them


class Int8Quantizer:
    """Quantizes the matrices of one graph.

    ``ranges`` has the largest magnitude on the left of each weight's products, where one scale is enough.
    """

    def __init__(self, graph: ir.Graph, dialect: Dialect, ranges: Ranges) -> None:
        self.graph, self.dialect, self.ranges = graph, dialect, ranges
        self.quantize_rows = RowQuantizer(graph)

    def __call__(self, weight: QuantizableWeight) -> None:
        """Round a weight, which keeps its name, and rewrite the products and lookups that read it."""
        steps = activation_steps(weight.products)
        integers, scale = round_channels(weight.channels(), steps=steps)
        set_content(weight.value, integers if weight.rows_are_channels else integers.T)
        if weight.products:
            column_scales = scale_constant(self.graph, f"{weight.name}.scale", scale)
            for product in weight.products:
                self._replace_product(product, weight, column_scales, steps)
        if weight.lookups:  # the same bytes in another shape, which the weights file stores once
            row_scales = scale_constant(self.graph, f"{weight.name}.scales", scale[:, None])
            for lookup in weight.lookups:
                self._replace_lookup(lookup, weight.value, row_scales, steps)

    def _replace_product(self, product: ir.Node, weight: QuantizableWeight, scale: ir.Value, steps: int) -> None:
        left, bias = product.inputs[0], product.inputs[2] if len(product.inputs) > 2 else None
        assert left is not None
        tape = ir.tape.Tape()
        matrix = tape.op("Transpose", [weight.value], {"perm": [1, 0]}) if is_transposed(product) else weight.value
        rows = self.quantize_rows(left, steps, self.ranges.get(weight.name))
        if self.dialect == "ort":
            inside: list[ir.Value | None] = []
            last, added = _with_bias(product) if bias is None else (product, bias)
            if rows.is_static and added is not None and not _is_output(last.outputs[0]):
                product, bias, inside = last, None, [None, added]
            scales = [rows.largest, scale]
            if rows.is_static and _is_output(last.outputs[0]):
                scales = self._output_scales(tape, rows, scale)
            inputs = [rows.integers, matrix, *scales, rows.zero_point, *inside]
            output = tape.op("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
        else:
            output = _multiply_portably(tape, rows, matrix, scale)
        if bias is not None:
            tape.op("Add", [output, bias])
        replace_node(self.graph, product, tape)

    def _output_scales(self, tape: ir.tape.Tape, rows: "QuantizedRows", scale: ir.Value) -> list[ir.Value]:
        """Return the scales of a product with many columns, prepared for few rows.

        onnxruntime multiplies both scales in each call, column by column, which takes longer than one row needs for
        them. It does not if the scales have an axis more than the matrix: then the output is multiplied by them
        afterwards. Few rows get that axis. All rows have the same bits, since the scales of rows and columns are
        multiplied here, once, when the graph is loaded.
        """
        zero, one = (constant(self.graph, f"columns.{number}", np.array([number])) for number in (0, 1))
        both = tape.op("Mul", [tape.op("Unsqueeze", [scale, zero]), rows.largest])  # (1, N)
        count = tape.op("Shape", [rows.integers], {"start": 0, "end": 1})
        many = tape.op("Div", [count, constant(self.graph, "columns.many", np.array([FEW_ROWS + 1]))])  # 0 for few
        axes = tape.op("Slice", [zero, many, one])  # the first axis for few rows, none for many
        return [constant(self.graph, "columns.factor", np.float32(1)), tape.op("Unsqueeze", [both, axes])]

    def _replace_lookup(self, lookup: ir.Node, table: ir.Value, scales: ir.Value, steps: int) -> None:
        ids, tape = lookup.inputs[1], ir.tape.Tape()
        factor = constant(self.graph, f"rows.steps.{steps}", np.float32(steps))
        integers = tape.op("DequantizeLinear", [tape.op("Gather", [table, ids]), factor])
        tape.op("Mul", [integers, tape.op("Gather", [scales, ids])])
        replace_node(self.graph, lookup, tape)


def _multiply_portably(tape: ir.tape.Tape, rows: "QuantizedRows", matrix: ir.Value, scale: ir.Value) -> ir.Value:
    sums = tape.op("MatMulInteger", [rows.integers, matrix, rows.zero_point])
    scaled = tape.op("Mul", [tape.op("Cast", [sums], {"to": ir.DataType.FLOAT.value}), rows.largest])
    return tape.op("Mul", [scaled, scale])


def _with_bias(product: ir.Node) -> tuple[ir.Node, ir.Value | None]:
    """Return the addition of a constant vector to a product, if that is all that reads it, and the vector."""
    uses = list(product.outputs[0].uses())
    if len(uses) != 1 or uses[0].node.op_type != "Add" or product.outputs[0].is_graph_output():
        return product, None
    addition, place = uses[0]
    other = addition.inputs[1 - place]
    content = other.const_value if other is not None else None
    return (addition, other) if content is not None and len(content.shape) == 1 else (product, None)


def _is_output(value: ir.Value) -> bool:
    """Whether a value is an output of the graph, perhaps reshaped; a shortlist adds the bias of the logits itself."""
    reshaped = (use.node.outputs[0] for use in value.uses() if use.node.op_type == "Reshape")
    return value.is_graph_output() or any(one.is_graph_output() for one in reshaped)


@dataclass(frozen=True)
class QuantizedRows:
    """The quantized left side of a product."""

    integers: ir.Value
    zero_point: ir.Value
    largest: ir.Value  # of each row, or of all if it is static
    is_static: bool = False


@dataclass
class RowQuantizer:
    """Adds the nodes that quantize the rows of a value, once per value and number of steps."""

    graph: ir.Graph
    quantized: dict[tuple[ir.Value, int], QuantizedRows] = field(default_factory=dict)

    def __call__(self, value: ir.Value, steps: int, largest: float | None) -> QuantizedRows:
        if (value, steps) not in self.quantized:
            zero_point = constant(self.graph, f"rows.zero.{steps}", np.uint8(128 if steps == SIGNED else 0))
            if largest is None:
                rows = self._quantize(value, steps, zero_point)
            else:
                rows = self._quantize_static(value, steps, zero_point, largest)
            self.quantized[value, steps] = rows
        return self.quantized[value, steps]

    def _quantize_static(self, value: ir.Value, steps: int, zero_point: ir.Value, largest: float) -> QuantizedRows:
        tape = ir.tape.Tape()
        if steps == UNSIGNED:
            value = _before_relu(value)
        step = constant(self.graph, f"{value.name}.step", np.float32(largest / steps))
        integers = tape.op("QuantizeLinear", [value, step, zero_point])
        insert_after(self.graph, value, tape)
        return QuantizedRows(
            integers, zero_point, constant(self.graph, f"{value.name}.largest", np.float32(largest)), True
        )

    def _quantize(self, value: ir.Value, steps: int, zero_point: ir.Value) -> QuantizedRows:
        tape, signed = ir.tape.Tape(), steps == SIGNED
        last_axis = constant(self.graph, "rows.axis", np.array([-1]))
        step = constant(self.graph, f"rows.step.{steps}", np.float32(1 / steps))
        if signed:
            largest = tape.op("ReduceMax", [tape.op("Abs", [value]), last_axis])
        else:
            value = _before_relu(value)
            zero = constant(self.graph, "rows.nothing", np.float32(0))
            largest = tape.op("Max", [tape.op("ReduceMax", [value, last_axis]), zero])
        integers = tape.op("QuantizeLinear", [tape.op("Div", [value, largest]), step, zero_point])
        insert_after(self.graph, value, tape)
        return QuantizedRows(integers, zero_point, largest)


def activation_steps(products: tuple[ir.Node, ...]) -> int:
    """Return the number of steps to which the left sides of a weight's products are rounded."""
    producers = [product.inputs[0].producer() for product in products if product.inputs[0] is not None]
    unsigned = bool(producers) and all(node is not None and node.op_type == "Relu" for node in producers)
    return UNSIGNED if unsigned else SIGNED


def _before_relu(value: ir.Value) -> ir.Value:
    relu = value.producer()
    assert relu is not None
    assert relu.inputs[0] is not None
    return relu.inputs[0]
