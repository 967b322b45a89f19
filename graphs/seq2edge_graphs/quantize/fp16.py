"""Convert a whole graph to float16 computation for GPUs: weights, states and KV cache.

1. Every float32 value becomes float16. Constants beyond its range are clipped to it, such as the attention mask: minus
   infinity there would turn a fully masked row into NaN.
2. Operators whose squares exceed the range of float16, or that sum many numbers, stay in float32 (``FP32_OPERATORS``),
   and so do the nodes between two of them. A normalization that is a single operator need not: ONNX lets it compute in
   float32 internally (``stash_type``).
3. States that are passed between the graphs and from one call to the next are float16. Other outputs, such as the
   logits, are cast to float32.
4. Each value is cast at most once in each direction, however many nodes read it.

onnxruntime's own ``float16`` module rounds between any two operators that stay in float32, where the squares of an RMS
norm are already infinite, and casts a value again for each reader, under the same name.
"""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from seq2edge.bundle import tensor_names
from seq2edge_graphs.passes.graph_edit import constant, insert_after, set_content

FP32_OPERATORS = {"Softmax", "LogSoftmax", "Pow", "Sqrt", "Exp", "Log", "Softplus", "CumSum", "ReduceMean", "ReduceSum"}
FP32, FP16 = ir.DataType.FLOAT, ir.DataType.FLOAT16
LARGEST = np.finfo(np.float16).max


def convert_to_fp16(model: ir.Model) -> None:
    """Convert a float32 graph in place."""
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    graph, nodes, fp32_nodes = model.graph, [*model.graph], _fp32_nodes(model.graph)
    for value in [*graph.initializers.values()]:
        if value.dtype == FP32:
            _convert_constant(graph, value, fp32_nodes)
    for value in graph.inputs:
        if value.dtype == FP32:
            _convert(graph, value, fp32_nodes)
    for node in nodes:  # without the casts that are inserted meanwhile
        for value in node.outputs:
            if value.dtype == FP32 and node in fp32_nodes:
                _cast_for(graph, value, FP16, [reader for reader in _readers(value) if reader not in fp32_nodes])
            elif value.dtype == FP32:
                _convert_attributes(node)
                _convert(graph, value, fp32_nodes)
    _cast_outputs(graph)


def _fp32_nodes(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes that stay in float32 because of their operator, or because they are between such nodes."""
    fp32_nodes: set[ir.Node] = set()
    for node in graph:  # in the order of computation
        if node.op_type in FP32_OPERATORS or _reads_only(node, fp32_nodes):
            fp32_nodes.add(node)
    for node in reversed(graph):
        if node.op_type not in FP32_OPERATORS and not _is_read_only_by(node, fp32_nodes):
            fp32_nodes.discard(node)
    return fp32_nodes


def _reads_only(node: ir.Node, producers: set[ir.Node]) -> bool:
    """Return whether all float inputs of a node that are not constants come from these producers."""
    floats = [value for value in node.inputs if value is not None and value.dtype == FP32]
    computed = [value for value in floats if value.const_value is None]
    return bool(computed) and all(value.producer() in producers for value in computed)


def _is_read_only_by(node: ir.Node, readers: set[ir.Node]) -> bool:
    if any(value.is_graph_output() for value in node.outputs):
        return False
    return all(reader in readers for value in node.outputs for reader in _readers(value))


def _convert(graph: ir.Graph, value: ir.Value, fp32_nodes: set[ir.Node]) -> None:
    value.type = ir.TensorType(FP16)
    _cast_for(graph, value, FP32, [reader for reader in _readers(value) if reader in fp32_nodes])


def _convert_constant(graph: ir.Graph, value: ir.Value, fp32_nodes: set[ir.Node]) -> None:
    """Round a constant, but keep it exact for the nodes that stay in float32; these constants are few and small."""
    readers = _readers(value)
    fp32_readers = [reader for reader in readers if reader in fp32_nodes]
    if readers and len(fp32_readers) == len(readers):
        return
    assert value.const_value is not None
    content = value.const_value.numpy()
    if fp32_readers:
        _replace_input(fp32_readers, value, constant(graph, f"{value.name}.fp32", content))
    set_content(value, _to_fp16(content))


def _convert_attributes(node: ir.Node) -> None:
    """Convert the target type of a Cast, and the value of a ConstantOfShape."""
    if node.op_type == "Cast":
        node.attributes["to"] = ir.AttrInt64("to", FP16.value)
    elif node.op_type == "ConstantOfShape":
        attribute = node.attributes.get("value")
        number = np.zeros(1, np.float32) if attribute is None else attribute.as_tensor().numpy()
        node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(_to_fp16(number)))


def _cast_outputs(graph: ir.Graph) -> None:
    """Make states leave the graph in float16, and all other floats in float32."""
    for index, value in enumerate(graph.outputs):
        dtype = FP16 if tensor_names.is_state(str(value.name)) else FP32
        if value.dtype in (FP32, FP16) and value.dtype != dtype:
            name, value.name = value.name, f"{value.name}.{value.dtype}"
            graph.outputs[index] = _cast(graph, value, dtype)
            graph.outputs[index].name = name


def _cast_for(graph: ir.Graph, value: ir.Value, dtype: ir.DataType, readers: list[ir.Node]) -> None:
    if readers:
        _replace_input(readers, value, _cast(graph, value, dtype))


def _cast(graph: ir.Graph, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    tape = ir.tape.Tape()
    output = tape.op("Cast", [value], {"to": dtype.value})
    output.type, output.shape = ir.TensorType(dtype), value.shape
    insert_after(graph, value, tape)
    return output


def _replace_input(readers: list[ir.Node], old: ir.Value, new: ir.Value) -> None:
    for node in readers:
        for index, value in enumerate(node.inputs):
            if value is old:
                node.replace_input_with(index, new)


def _readers(value: ir.Value) -> list[ir.Node]:
    return list(dict.fromkeys(node for node, _ in value.uses()))


def _to_fp16(content: NDArray[Any]) -> NDArray[np.float16]:
    halves: NDArray[np.float16] = np.clip(content, -LARGEST, LARGEST).astype(np.float16)
    return halves
