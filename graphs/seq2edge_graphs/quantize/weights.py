"""The parts of a graph that can be kept in fewer bits, and what reads each.

1. A product is a MatMul whose right side is a constant, or a Gemm whose B is one: what linear layers are traced to.
2. A lookup is a Gather of rows: what an embedding is traced to.
3. A weight that only products and lookups read, whose output channels lie along the same axis for all of them, is a
   matrix. Its rows are the channels if it is looked up or multiplied transposed, else its columns.
4. Any other large constant of floats with two axes or more is a table, such as that of the positions.

Biases, norms and whatever else is small are no parts: they stay as they are.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SMALLEST = 1024  # elements; less is not worth the trouble


@dataclass(frozen=True, eq=False)
class QuantizableWeight:
    """A weight and the nodes that read it."""

    weight: ir.Value
    products: tuple[ir.Node, ...]
    lookups: tuple[ir.Node, ...]

    @property
    def name(self) -> str:
        return str(self.weight.name)

    @property
    def is_matrix(self) -> bool:
        return bool(self.products or self.lookups)

    @property
    def rows_are_channels(self) -> bool:
        return not self.products or bool(self.lookups) or is_transposed(self.products[0])

    def numbers(self) -> Floats:
        assert self.weight.const_value is not None
        return self.weight.const_value.numpy()

    def channels(self) -> Floats:  # (N, K): one row an output channel, or a token
        return self.numbers() if self.rows_are_channels else self.numbers().T


def quantizable_weights(graph: ir.Graph) -> list[QuantizableWeight]:
    """Every part of a graph, in the order of its constants."""
    return [_part(value) for value in graph.initializers.values() if _is_large(value)]


def is_transposed(product: ir.Node) -> bool:
    """Whether a product's weight has one output channel a row."""
    return product.op_type == "Gemm" and bool(product.attributes.get_int("transB", 0))


def _part(weight: ir.Value) -> QuantizableWeight:
    users = [user for user, _ in weight.uses()]
    products = tuple(user for user in users if _is_product(user, weight))
    lookups = tuple(user for user in users if _is_lookup(user, weight))
    places = {bool(node in lookups or is_transposed(node)) for node in (*products, *lookups)}
    if len(products) + len(lookups) < len(users) or len(places) != 1 or weight.is_graph_output():
        return QuantizableWeight(weight, (), ())
    return QuantizableWeight(weight, products, lookups)


def _is_large(value: ir.Value) -> bool:
    content = value.const_value
    if content is None or content.dtype != ir.DataType.FLOAT or value.is_graph_input():
        return False
    return len(content.shape) >= 2 and content.size >= SMALLEST


def _is_product(node: ir.Node, weight: ir.Value) -> bool:
    assert weight.const_value is not None
    if node.domain or len(weight.const_value.shape) != 2 or [*node.inputs].count(weight) != 1:
        return False
    if node.op_type == "MatMul":
        return node.inputs[1] is weight
    plain = all(node.attributes.get_float(factor, 1.0) == 1.0 for factor in ("alpha", "beta"))
    return node.op_type == "Gemm" and node.inputs[1] is weight and plain and not node.attributes.get_int("transA", 0)


def _is_lookup(node: ir.Node, table: ir.Value) -> bool:
    assert table.const_value is not None
    is_gather = node.op_type == "Gather" and not node.domain and node.attributes.get_int("axis", 0) == 0
    return is_gather and node.inputs[0] is table and len(table.const_value.shape) == 2
