"""Find what makes logits of the last states in a decoder graph; needs onnx-ir.

1. It is a product whose right side is the output matrix: MatMul, Gemm, or MatMulIntegerToFloat of 8-bit integers.
2. Behind it there may be a bias, an Add, and what gives the rows their shape, a Reshape to sizes that are put together
   there. Then come the logits.
3. The matrix, its scales and the bias are constants, or are made of one by Cast and Transpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from seq2edge import names
from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.edit import MICROSOFT

PRODUCTS = ("MatMul", "Gemm", "MatMulIntegerToFloat")
MADE_OF_ONE = ("Cast", "Transpose")


@dataclass(frozen=True)
class Projection:
    """The output layer: its product, what it is multiplied with, and what follows."""

    product: ir.Node
    matrix: ir.Value  # (K, V), or (V, K) if it is transposed by the product
    scales: ir.Value | None  # (V,)
    bias: ir.Value | None  # (V,)
    reshape: ir.Node | None
    logits: ir.Value

    @property
    def sizes(self) -> Sequence[ir.Value | None]:
        """Those of the axes of the logits, where there is a reshape."""
        node = _giver(self.reshape, 1)
        return () if node is None else node.inputs

    @property
    def is_transposed(self) -> bool:
        return self.product.op_type == "Gemm" and bool(self.product.attributes.get_int("transB", 0))


def find_projection(graph: ir.Graph) -> Projection:
    """The output layer of a decoder; one that a shortlist cannot shorten is an error."""
    logits = next(value for value in graph.outputs if value.name == names.LOGITS)
    node = logits.producer()
    reshape = node if _is(node, "Reshape") and _is(_giver(node, 1), "Concat") else None
    node = _giver(reshape, 0) if reshape is not None else node
    adding = node if _is(node, "Add") and _is_constant(_input(node, 1)) else None
    node, bias = (_giver(adding, 0), _input(adding, 1)) if adding is not None else (node, None)
    if node is None or node.op_type not in PRODUCTS or not _is_constant(node.inputs[1]) or not _is_plain(node):
        found = "a computation of its own" if node is None else node.op_type
        raise UsageError(
            f"the output layer of this decoder is {found}, which takes no shortlist: "
            "it needs a bundle in the dialect ort, in fp32, fp16 or int8"
        )
    if node.op_type == "Gemm" and len(node.inputs) > 2:
        bias = node.inputs[2]
    matrix, scales = node.inputs[1], node.inputs[3] if node.domain == MICROSOFT else None
    assert matrix is not None
    return Projection(node, matrix, scales, bias, reshape, logits)


def _is(node: ir.Node | None, kind: str) -> bool:
    return node is not None and not node.domain and node.op_type == kind


def _input(node: ir.Node | None, place: int) -> ir.Value | None:
    return None if node is None else node.inputs[place]


def _giver(node: ir.Node | None, place: int) -> ir.Node | None:
    value = _input(node, place)
    return None if value is None else value.producer()


def _is_plain(product: ir.Node) -> bool:
    if product.op_type == "Gemm":
        factors = (product.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
        return all(factor == 1.0 for factor in factors) and not product.attributes.get_int("transA", 0)
    return product.op_type == "MatMul" or len(product.inputs) == 5  # of integers: without zero points on the right


def _is_constant(value: ir.Value | None) -> bool:
    if value is None or value.is_initializer():
        return value is not None
    node = value.producer()
    return node is not None and node.op_type in MADE_OF_ONE and _is_constant(node.inputs[0])
