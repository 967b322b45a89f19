"""The two graphs of a shortlist, made of a decoder: one given its words, one that gathers them.

1. In the short decoder, the output matrix is an input (K, U), and so are its scales (U,) if it is of integers. A bias
   for each row is added at the end: that of the output layer, and minus infinity for what a sentence may not say. All
   else is as it was, so the logits of a word are what they were.
2. The words graph takes ids (U,) and gives the matrix, the scales and the bias of these words. It gathers from what is
   stored, before anything is widened or transposed.

Both find their constants in the file of weights that the decoder has.

Find what makes logits of the last states in a decoder graph.

1. It is a product whose right side is the output matrix: MatMul, Gemm, or MatMulIntegerToFloat of 8-bit integers.
2. Behind it there may be a bias, an Add, and what gives the rows their shape, a Reshape to sizes that are put together
   there. Then come the logits.
3. The matrix, its scales and the bias are constants, or are made of one by Cast and Transpose.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from seq2edge.bundle import tensor_names
from seq2edge.errors import UsageError
from seq2edge_graphs.passes.graph_edit import MICROSOFT, constant, drop_inferred_types, replace_node

PRODUCTS = ("MatMul", "Gemm", "MatMulIntegerToFloat")
MADE_OF_ONE = ("Cast", "Transpose")


@dataclass(frozen=True)
class OutputProjection:
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


def find_output_projection(graph: ir.Graph) -> OutputProjection:
    """The output layer of a decoder; one that a shortlist cannot shorten is an error."""
    logits = next(value for value in graph.outputs if value.name == tensor_names.LOGITS)
    node = logits.producer()
    reshape = node if _is(node, "Reshape") and _is(_giver(node, 1), "Concat") else None
    node = _giver(reshape, 0) if reshape is not None else node
    adding = node if _is(node, "Add") and _is_constant(_input_of(node, 1)) else None
    node, bias = (_giver(adding, 0), _input_of(adding, 1)) if adding is not None else (node, None)
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
    return OutputProjection(node, matrix, scales, bias, reshape, logits)


def _is(node: ir.Node | None, kind: str) -> bool:
    return node is not None and not node.domain and node.op_type == kind


def _input_of(node: ir.Node | None, place: int) -> ir.Value | None:
    return None if node is None else node.inputs[place]


def _giver(node: ir.Node | None, place: int) -> ir.Node | None:
    value = _input_of(node, place)
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


WORD_COUNT = "word_count"  # the axis


def short_decoder(decoder: ir.Model) -> ir.Model:
    """The decoder with the words of its output layer as inputs."""
    model = decoder.clone()
    graph, found = model.graph, find_output_projection(model.graph)
    is_integer, rows = found.scales is not None, found.logits.shape
    assert rows is not None
    width = _width(found)
    kind = ir.DataType.INT8 if is_integer else ir.DataType.FLOAT
    matrix = _input(graph, tensor_names.WORD_MATRIX, kind, [width, WORD_COUNT])
    scales = _input(graph, tensor_names.WORD_SCALES, ir.DataType.FLOAT, [WORD_COUNT]) if is_integer else None
    # The rows of a sentence have one bias where the graph knows which they are.
    several = [rows[0], 1, WORD_COUNT] if found.reshape is not None else [rows[0], WORD_COUNT]
    bias = _input(graph, tensor_names.WORD_BIAS, ir.DataType.FLOAT, several)
    _replace_layer(graph, found, matrix, scales, bias)
    RemoveUnusedNodesPass()(model)
    _drop_unused_constants(graph)
    drop_inferred_types(graph)
    return model


def words_graph(decoder: ir.Model) -> ir.Model:
    """The graph that gathers what the short decoder is given."""
    found, tape = find_output_projection(decoder.graph), ir.tape.Tape()
    ids = ir.Value(name=tensor_names.WORDS, shape=ir.Shape([WORD_COUNT]), type=ir.TensorType(ir.DataType.INT64))
    gatherer = _Gatherer(tape, ids)
    matrix = gatherer(found.matrix, 0 if found.is_transposed else 1)
    outputs = {
        tensor_names.WORD_MATRIX: tape.op("Transpose", [matrix], {"perm": [1, 0]}) if found.is_transposed else matrix
    }
    if found.scales is not None:
        outputs[tensor_names.WORD_SCALES] = gatherer(found.scales, 0)
    if found.bias is not None:
        outputs[tensor_names.WORD_BIAS] = gatherer(found.bias, 0)
    for name, value in outputs.items():
        is_integer = name == tensor_names.WORD_MATRIX and found.scales is not None
        value.name = name
        value.type = ir.TensorType(ir.DataType.INT8 if is_integer else ir.DataType.FLOAT)
        value.shape = ir.Shape([_width(found), WORD_COUNT] if name == tensor_names.WORD_MATRIX else [WORD_COUNT])
    graph = ir.Graph(
        [ids],
        [*outputs.values()],
        nodes=tape.nodes,
        initializers=[*gatherer.constants.values()],
        opset_imports={"": decoder.graph.opset_imports[""]},
        name=tensor_names.WORDS,
    )
    return ir.Model(graph, ir_version=decoder.ir_version)


class _Gatherer:
    """Takes some places along an axis of what is made of a constant, as early as it can."""

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


def _width(found: OutputProjection) -> int:
    """Numbers of a state; the other axis of the matrix is the vocabulary."""
    value, axis = found.matrix, 1 if found.is_transposed else 0
    while (node := value.producer()) is not None:
        if node.op_type == "Transpose":
            axis = node.attributes.get_ints("perm", (1, 0))[axis]
        assert node.inputs[0] is not None
        value = node.inputs[0]
    assert value.const_value is not None
    return int(value.const_value.shape.numpy()[axis])


def _replace_layer(
    graph: ir.Graph, found: OutputProjection, matrix: ir.Value, scales: ir.Value | None, bias: ir.Value
) -> None:
    """Compute with the words, and add the bias last; the last node gives the logits."""
    tape, product = ir.tape.Tape(), found.product
    left = product.inputs[0]
    if scales is None:
        made = tape.op("MatMul", [left, matrix])
    else:
        inputs = [left, matrix, product.inputs[2], scales, product.inputs[4]]
        made = tape.op(product.op_type, inputs, domain=product.domain)
    if found.reshape is not None:
        made = tape.op("Reshape", [made, _open_shape(graph, tape, found.sizes)])
    tape.op("Add", [made, bias])
    last = found.logits.producer()
    assert last is not None
    assert found.logits.shape is not None
    shape = ir.Shape([*list(found.logits.shape)[:-1], WORD_COUNT])
    replace_node(graph, last, tape)
    logits = tape.nodes[-1].outputs[0]
    logits.shape, logits.type = shape, ir.TensorType(ir.DataType.FLOAT)


def _open_shape(graph: ir.Graph, tape: ir.tape.Tape, sizes: Sequence[ir.Value | None]) -> ir.Value:
    """The shape that the logits had, but with as many words as there are."""
    rest = constant(graph, "words.rest", np.array([-1]))
    return tape.op("Concat", [*sizes[:-1], rest], {"axis": 0})


def _input(graph: ir.Graph, name: str, kind: ir.DataType, shape: Iterable[int | str | ir.SymbolicDim]) -> ir.Value:
    value = ir.Value(name=name, shape=ir.Shape([*shape]), type=ir.TensorType(kind))
    graph.inputs.append(value)
    return value


def _drop_unused_constants(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
