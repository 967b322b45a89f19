"""Let a whole graph compute in float16, as GPUs want it: weights, states and cache.

1. Every float32 value becomes float16. Constants beyond its range become its largest numbers, such as what hides places
   from attention: minus infinity there would make NaN of a row that sees nothing.
2. Operators whose squares leave the range of float16, or that add up many numbers, stay in float32 (``WIDE``), and so
   does what stands between two of them. A normalisation that is one operator need not: ONNX has it compute in float32
   inside (``stash_type``).
3. States between the graphs and from one call to the next are float16. What else a graph gives, such as its logits, is
   widened at its end.
4. Where float16 and float32 meet there is one Cast for all that read a value.

onnxruntime's own ``float16`` module rounds between any two operators that stay in float32, where the squares of an RMS
norm are infinite already, and casts a value again for each that reads it, under one name.
"""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from seq2edge.bundle import tensor_names
from seq2edge_graphs.passes.graph_edit import constant, insert_after, set_content

WIDE = {"Softmax", "LogSoftmax", "Pow", "Sqrt", "Exp", "Log", "Softplus", "CumSum", "ReduceMean", "ReduceSum"}
FLOAT, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16
LARGEST = np.finfo(np.float16).max


def convert_to_fp16(model: ir.Model) -> None:
    """Rewrite a graph that computes in float32."""
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    graph, nodes, wide = model.graph, [*model.graph], _wide_nodes(model.graph)
    for value in [*graph.initializers.values()]:
        if value.dtype == FLOAT:
            _narrow_constant(graph, value, wide)
    for value in graph.inputs:
        if value.dtype == FLOAT:
            _narrow(graph, value, wide)
    for node in nodes:  # without the casts that are put between them
        for value in node.outputs:
            if value.dtype == FLOAT and node in wide:
                _let_read_as(graph, value, HALF, [reader for reader in _readers(value) if reader not in wide])
            elif value.dtype == FLOAT:
                _narrow_attributes(node)
                _narrow(graph, value, wide)
    _settle_outputs(graph)


def _wide_nodes(graph: ir.Graph) -> set[ir.Node]:
    """Those that stay in float32: by their operator, or because they stand between such."""
    wide: set[ir.Node] = set()
    for node in graph:  # in the order of computing
        if node.op_type in WIDE or _reads_only(node, wide):
            wide.add(node)
    for node in reversed(graph):
        if node.op_type not in WIDE and not _is_read_only_by(node, wide):
            wide.discard(node)
    return wide


def _reads_only(node: ir.Node, wide: set[ir.Node]) -> bool:
    """Whether all floats that a node reads are given by wide ones, but for constants."""
    floats = [value for value in node.inputs if value is not None and value.dtype == FLOAT]
    computed = [value for value in floats if value.const_value is None]
    return bool(computed) and all(value.producer() in wide for value in computed)


def _is_read_only_by(node: ir.Node, wide: set[ir.Node]) -> bool:
    given = [value for value in node.outputs if value.is_graph_output()]
    return not given and all(reader in wide for value in node.outputs for reader in _readers(value))


def _narrow(graph: ir.Graph, value: ir.Value, wide: set[ir.Node]) -> None:
    value.type = ir.TensorType(HALF)
    _let_read_as(graph, value, FLOAT, [reader for reader in _readers(value) if reader in wide])


def _narrow_constant(graph: ir.Graph, value: ir.Value, wide: set[ir.Node]) -> None:
    """Those that float32 is computed with keep their digits; there are few of them, and they are small."""
    readers = _readers(value)
    exact = [reader for reader in readers if reader in wide]
    if readers and len(exact) == len(readers):
        return
    assert value.const_value is not None
    numbers = value.const_value.numpy()
    if exact:
        _let_read(exact, value, constant(graph, f"{value.name}.fp32", numbers))
    set_content(value, _rounded(numbers))


def _narrow_attributes(node: ir.Node) -> None:
    """The type that a Cast is told, and the number that an operator repeats."""
    if node.op_type == "Cast":
        node.attributes["to"] = ir.AttrInt64("to", HALF.value)
    elif node.op_type == "ConstantOfShape":
        told = node.attributes.get("value")
        number = np.zeros(1, np.float32) if told is None else told.as_tensor().numpy()
        node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(_rounded(number)))


def _settle_outputs(graph: ir.Graph) -> None:
    """States leave the graph in float16, all others in float32."""
    for place, value in enumerate(graph.outputs):
        kind = HALF if tensor_names.is_state(str(value.name)) else FLOAT
        if value.dtype in (FLOAT, HALF) and value.dtype != kind:
            name, value.name = value.name, f"{value.name}.{value.dtype}"
            graph.outputs[place] = _cast(graph, value, kind)
            graph.outputs[place].name = name


def _let_read_as(graph: ir.Graph, value: ir.Value, kind: ir.DataType, readers: list[ir.Node]) -> None:
    if readers:
        _let_read(readers, value, _cast(graph, value, kind))


def _cast(graph: ir.Graph, value: ir.Value, kind: ir.DataType) -> ir.Value:
    """The value in another type."""
    tape = ir.tape.Tape()
    made = tape.op("Cast", [value], {"to": kind.value})
    made.type, made.shape = ir.TensorType(kind), value.shape
    insert_after(graph, value, tape)
    return made


def _let_read(readers: list[ir.Node], before: ir.Value, after: ir.Value) -> None:
    for node in readers:
        for place, value in enumerate(node.inputs):
            if value is before:
                node.replace_input_with(place, after)


def _readers(value: ir.Value) -> list[ir.Node]:
    return list(dict.fromkeys(node for node, _ in value.uses()))


def _rounded(numbers: NDArray[Any]) -> NDArray[np.float16]:
    halves: NDArray[np.float16] = np.clip(numbers, -LARGEST, LARGEST).astype(np.float16)
    return halves
