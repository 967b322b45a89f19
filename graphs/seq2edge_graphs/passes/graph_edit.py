"""Edit a graph: add constants, insert nodes, and replace nodes or constants by the nodes of a tape."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

MICROSOFT = "com.microsoft"  # operators that only onnxruntime has


def constant(graph: ir.Graph, name: str, content: NDArray[Any] | np.generic) -> ir.Value:
    """Return the constant with this name, after adding it if the graph does not have it yet."""
    if name in graph.initializers:
        return graph.initializers[name]
    value = ir.Value(name=name)
    set_content(value, np.asarray(content))
    graph.register_initializer(value)
    return value


def replace_node(graph: ir.Graph, node: ir.Node, tape: ir.tape.Tape) -> None:
    """Replace a node by the nodes of a tape; the outputs of the last one take over the names of the node's outputs."""
    ir.convenience.replace_nodes_and_values(graph, node, [node], tape.nodes, node.outputs, tape.nodes[-1].outputs)
    _import_domains(graph, tape.nodes)


def insert_first(graph: ir.Graph, tape: ir.tape.Tape) -> None:
    """Insert the nodes of a tape before all others; they may only read constants."""
    graph.insert_before(graph[0], tape.nodes)


def insert_after(graph: ir.Graph, value: ir.Value, tape: ir.tape.Tape) -> None:
    """Insert the nodes of a tape right after the producer of a value, or first if it is an input or a constant."""
    producer = value.producer()
    if producer is None:
        insert_first(graph, tape)
    else:
        graph.insert_after(producer, tape.nodes)
    _import_domains(graph, tape.nodes)


def replace_constant(graph: ir.Graph, value: ir.Value, tape: ir.tape.Tape) -> None:
    """Replace a constant by the output of a tape, which takes over its name."""
    output = tape.nodes[-1].outputs[0]
    output.shape, output.type = value.shape, value.type
    ir.convenience.replace_all_uses_with(value, output, replace_graph_outputs=True)
    del graph.initializers[str(value.name)]
    output.name = value.name
    insert_first(graph, tape)


def set_content(value: ir.Value, content: NDArray[Any]) -> None:
    """Change the content of a constant, which keeps its name."""
    tensor = ir.Tensor(content if content.flags.c_contiguous else content.copy(), name=value.name)
    value.const_value, value.type, value.shape = tensor, ir.TensorType(tensor.dtype), tensor.shape


def drop_inferred_types(graph: ir.Graph) -> None:
    """Drop the types and shapes of internal values and the names of nodes, a third of a graph's bytes.

    onnxruntime infers the types and shapes again when it loads the graph; nothing reads the names.
    """
    declared = {*graph.inputs, *graph.outputs}
    for node in graph.all_nodes():
        node.name = None
        for value in (*node.inputs, *node.outputs):
            if value is not None and value not in declared:
                value.type = value.shape = None


def _import_domains(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    if any(node.domain == MICROSOFT for node in nodes):
        graph.opset_imports.setdefault(MICROSOFT, 1)
