"""Build the two graphs of a shortlist from a decoder.

1. The short decoder takes the columns of its output matrix as an input (K, U), with their scales (U,) if the matrix is
   quantized. A bias for each row is added last: that of the output layer, and minus infinity for target tokens that the
   sentence may not use. Everything else is unchanged, so a target token has the logit that it had before.
2. The words graph takes target tokens (U,) and returns their columns of the matrix, scales and bias. It gathers from
   the stored constants, before these are cast or transposed.

Both graphs read their constants from the weights file of the decoder.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from seq2edge.bundle import tensor_names
from seq2edge.errors import UsageError
from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, drop_inferred_types, replace_node

WORD_COUNT = "word_count"  # name of the axis
PRODUCTS = ("MatMul", "Gemm", "MatMulIntegerToFloat")
FOLDED = ("Cast", "Transpose")  # operators that onnxruntime folds into a constant


@dataclass(frozen=True)
class OutputProjection:
    """The nodes and constants that compute the logits from the last states.

    1. The product's right side is the output matrix: MatMul, Gemm, or MatMulIntegerToFloat of 8-bit integers.
    2. It may be followed by the addition of a bias, and by a Reshape of the rows to sizes that are concatenated there.
    3. The matrix, its scales and the bias are constants, or computed from one by Cast and Transpose.
    """

    product: ir.Node
    matrix: ir.Value  # (K, V), or (V, K) if the product transposes it
    row_scale: ir.Value | None  # of the left side
    scales: ir.Value | None  # (V,)
    bias: ir.Value | None  # (V,)
    reshape: ir.Node | None
    logits: ir.Value

    @property
    def sizes(self) -> Sequence[ir.Value | None]:
        """Return the sizes of the axes of the logits that the Reshape reads."""
        node = _producer(self.reshape, 1)
        return () if node is None else node.inputs

    @property
    def is_transposed(self) -> bool:
        return self.product.op_type == "Gemm" and bool(self.product.attributes.get_int("transB", 0))

    @property
    def width(self) -> int:
        """Return the width of the states; the other axis of the matrix is the vocabulary."""
        value, axis = self.matrix, 1 if self.is_transposed else 0
        while (node := value.producer()) is not None:
            if node.op_type == "Transpose":
                axis = node.attributes.get_ints("perm", (1, 0))[axis]
            assert node.inputs[0] is not None
            value = node.inputs[0]
        assert value.const_value is not None
        return int(value.const_value.shape.numpy()[axis])


def short_decoder(decoder: ir.Model) -> ir.Model:
    """Return the decoder with the columns of its output layer as inputs."""
    model = decoder.clone()
    graph, projection = model.graph, find_output_projection(model.graph)
    is_integer, rows = projection.scales is not None, projection.logits.shape
    assert rows is not None
    dtype = ir.DataType.INT8 if is_integer else ir.DataType.FLOAT
    matrix = _add_input(graph, tensor_names.WORD_MATRIX, dtype, [projection.width, WORD_COUNT])
    scales = _add_input(graph, tensor_names.WORD_SCALES, ir.DataType.FLOAT, [WORD_COUNT]) if is_integer else None
    # The rows of a sentence share a bias where the graph separates sentences from rows.
    bias_shape = [rows[0], 1, WORD_COUNT] if projection.reshape is not None else [rows[0], WORD_COUNT]
    bias = _add_input(graph, tensor_names.WORD_BIAS, ir.DataType.FLOAT, bias_shape)
    _replace_projection(graph, projection, matrix, scales, bias)
    RemoveUnusedNodesPass()(model)
    _drop_unused_constants(graph)
    drop_inferred_types(graph)
    return model


def words_graph(decoder: ir.Model) -> ir.Model:
    """Return the graph that gathers the inputs of the short decoder."""
    projection, tape = find_output_projection(decoder.graph), ir.tape.Tape()
    ids = ir.Value(name=tensor_names.WORDS, shape=ir.Shape([WORD_COUNT]), type=ir.TensorType(ir.DataType.INT64))
    gather = _Gatherer(tape, ids)
    matrix = gather(projection.matrix, 0 if projection.is_transposed else 1)
    if projection.is_transposed:
        matrix = tape.op("Transpose", [matrix], {"perm": [1, 0]})
    outputs = {tensor_names.WORD_MATRIX: matrix}
    if projection.scales is not None:
        outputs[tensor_names.WORD_SCALES] = gather(projection.scales, 0)
    if projection.bias is not None:
        outputs[tensor_names.WORD_BIAS] = gather(projection.bias, 0)
    for name, value in outputs.items():
        is_integer = name == tensor_names.WORD_MATRIX and projection.scales is not None
        value.name = name
        value.type = ir.TensorType(ir.DataType.INT8 if is_integer else ir.DataType.FLOAT)
        value.shape = ir.Shape([projection.width, WORD_COUNT] if name == tensor_names.WORD_MATRIX else [WORD_COUNT])
    graph = ir.Graph(
        [ids],
        [*outputs.values()],
        nodes=tape.nodes,
        initializers=[*gather.constants.values()],
        opset_imports={"": decoder.graph.opset_imports[""]},
        name=tensor_names.WORDS,
    )
    return ir.Model(graph, ir_version=decoder.ir_version)


def find_output_projection(graph: ir.Graph) -> OutputProjection:
    """Return the output projection of a decoder; raise an error if a shortlist does not support it."""
    logits = next(value for value in graph.outputs if value.name == tensor_names.LOGITS)
    node = logits.producer()
    reshape = node if _is(node, "Reshape") and _is(_producer(node, 1), "Concat") else None
    node = _producer(reshape, 0) if reshape is not None else node
    addition = node if _is(node, "Add") and _is_constant(_input_of(node, 1)) else None
    node, bias = (_producer(addition, 0), _input_of(addition, 1)) if addition is not None else (node, None)
    if node is None or node.op_type not in PRODUCTS or not _is_constant(node.inputs[1]) or not _is_plain(node):
        layer = "not a single product" if node is None else node.op_type
        raise UsageError(
            f"the output layer of this decoder is {layer}, which does not support a shortlist: "
            "it needs a bundle in the dialect ort, in fp32, fp16 or int8"
        )
    if node.op_type == "Gemm" and len(node.inputs) > 2:
        bias = node.inputs[2]
    matrix, (row_scale, scales) = node.inputs[1], _scales(node) if node.domain == MICROSOFT else (None, None)
    assert matrix is not None
    return OutputProjection(node, matrix, row_scale, scales, bias, reshape, logits)


def _scales(product: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the scales on the left and on the right; ``int8.py`` multiplies those that are constants."""
    unsqueeze = _producer(product, 3)
    if not _is(unsqueeze, "Unsqueeze"):
        return product.inputs[2], product.inputs[3]
    both = _producer(unsqueeze, 0)
    return _input_of(both, 1), _input_of(_producer(both, 0), 0)


def _is(node: ir.Node | None, operator: str) -> bool:
    return node is not None and not node.domain and node.op_type == operator


def _input_of(node: ir.Node | None, index: int) -> ir.Value | None:
    return None if node is None else node.inputs[index]


def _producer(node: ir.Node | None, index: int) -> ir.Node | None:
    value = _input_of(node, index)
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
    return node is not None and node.op_type in FOLDED and _is_constant(node.inputs[0])


def _replace_projection(
    graph: ir.Graph, projection: OutputProjection, matrix: ir.Value, scales: ir.Value | None, bias: ir.Value
) -> None:
    """Multiply with the given columns, and add the bias in the last node, which computes the logits."""
    tape, product = ir.tape.Tape(), projection.product
    left = product.inputs[0]
    if scales is None:
        output = tape.op("MatMul", [left, matrix])
    else:
        inputs = [left, matrix, projection.row_scale, scales, product.inputs[4]]
        output = tape.op(product.op_type, inputs, domain=product.domain)
    if projection.reshape is not None:
        output = tape.op("Reshape", [output, _logits_shape(graph, tape, projection.sizes)])
    tape.op("Add", [output, bias])
    last = projection.logits.producer()
    assert last is not None
    assert projection.logits.shape is not None
    shape = ir.Shape([*list(projection.logits.shape)[:-1], WORD_COUNT])
    replace_node(graph, last, tape)
    logits = tape.nodes[-1].outputs[0]
    logits.shape, logits.type = shape, ir.TensorType(ir.DataType.FLOAT)


def _logits_shape(graph: ir.Graph, tape: ir.tape.Tape, sizes: Sequence[ir.Value | None]) -> ir.Value:
    """Return the shape of the logits with the last axis left to be inferred."""
    rest = constant(graph, "words.rest", np.array([-1]))
    return tape.op("Concat", [*sizes[:-1], rest], {"axis": 0})


def _add_input(graph: ir.Graph, name: str, dtype: ir.DataType, shape: Iterable[int | str | ir.SymbolicDim]) -> ir.Value:
    value = ir.Value(name=name, shape=ir.Shape([*shape]), type=ir.TensorType(dtype))
    graph.inputs.append(value)
    return value


def _drop_unused_constants(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


class _Gatherer:
    """Gathers along an axis of a value that is computed from a constant, directly from the constant."""

    def __init__(self, tape: ir.tape.Tape, ids: ir.Value) -> None:
        self.tape, self.ids = tape, ids
        self.constants: dict[str, ir.Value] = {}

    def __call__(self, value: ir.Value, axis: int) -> ir.Value:
        node = value.producer()
        if node is None:
            return self.tape.op("Gather", [self._constant(value), self.ids], {"axis": axis})
        [source] = node.inputs
        assert source is not None
        if node.op_type == "Cast":
            return self.tape.op("Cast", [self(source, axis)], {"to": node.attributes.get_int("to")})
        order = node.attributes.get_ints("perm", (1, 0))
        return self.tape.op("Transpose", [self(source, order[axis])], {"perm": order})

    def _constant(self, value: ir.Value) -> ir.Value:
        name, tensor = str(value.name), value.const_value
        assert tensor is not None
        if name not in self.constants:
            self.constants[name] = ir.Value(
                name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
            )
        return self.constants[name]
