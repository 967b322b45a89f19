"""Find the weights of a graph that can be quantized, and the nodes that read them.

1. A product is a MatMul whose right side is a constant, or a Gemm whose B is one: a traced linear layer.
2. A lookup is a Gather of rows: a traced embedding.
3. A weight is a matrix if only products and lookups read it and its output channels lie along the same axis for all of
   them. The channels are its rows if it is looked up or multiplied transposed, otherwise its columns.
4. Any other large float constant with at least two axes is a table, such as that of the positions.

Biases, norms and other small constants are not quantized.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MIN_ELEMENTS = 1024  # quantizing smaller tensors saves nothing that matters


@dataclass(frozen=True, eq=False)
class QuantizableWeight:
    """A constant and the nodes that read it."""

    value: ir.Value
    products: tuple[ir.Node, ...]
    lookups: tuple[ir.Node, ...]

    @property
    def name(self) -> str:
        return str(self.value.name)

    @property
    def is_matrix(self) -> bool:
        return bool(self.products or self.lookups)

    @property
    def rows_are_channels(self) -> bool:
        return not self.products or bool(self.lookups) or is_transposed(self.products[0])

    def array(self) -> Floats:
        assert self.value.const_value is not None
        return self.value.const_value.numpy()

    def channels(self) -> Floats:  # (N, K): one row per output channel or token
        return self.array() if self.rows_are_channels else self.array().T


def quantizable_weights(graph: ir.Graph) -> list[QuantizableWeight]:
    """Return the quantizable weights of a graph in the order of its constants."""
    return [_with_readers(value) for value in graph.initializers.values() if _is_large(value)]


def is_transposed(product: ir.Node) -> bool:
    """Return whether the rows of a product's weight are its output channels."""
    return product.op_type == "Gemm" and bool(product.attributes.get_int("transB", 0))


def _with_readers(value: ir.Value) -> QuantizableWeight:
    readers = [reader for reader, _ in value.uses()]
    products = tuple(reader for reader in readers if _is_product(reader, value))
    lookups = tuple(reader for reader in readers if _is_lookup(reader, value))
    orientations = {bool(node in lookups or is_transposed(node)) for node in (*products, *lookups)}
    if len(products) + len(lookups) < len(readers) or len(orientations) != 1 or value.is_graph_output():
        return QuantizableWeight(value, (), ())
    return QuantizableWeight(value, products, lookups)


def _is_large(value: ir.Value) -> bool:
    content = value.const_value
    if content is None or content.dtype != ir.DataType.FLOAT or value.is_graph_input():
        return False
    return len(content.shape) >= 2 and content.size >= MIN_ELEMENTS


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
