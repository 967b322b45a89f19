"""Small changes to a graph: a constant more, a node in another's place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

MICROSOFT = "com.microsoft"  # operators that only onnxruntime has


def constant(graph: ir.Graph, name: str, content: NDArray[Any] | np.generic) -> ir.Value:
    """A constant of the graph; the same name gives the same one, so that scalars are there once."""
    if name in graph.initializers:
        return graph.initializers[name]
    value = ir.Value(name=name)
    set_content(value, np.asarray(content))
    graph.register_initializer(value)
    return value


def replace_node(graph: ir.Graph, node: ir.Node, tape: ir.tape.Tape) -> None:
    """Put the nodes of a tape where a node was; the last one gives what the node gave, under the same name."""
    ir.convenience.replace_nodes_and_values(graph, node, [node], tape.nodes, node.outputs, tape.nodes[-1].outputs)
    _import_domains(graph, tape.nodes)


def insert_first(graph: ir.Graph, tape: ir.tape.Tape) -> None:
    """Put the nodes of a tape before all others; what they read must be constant."""
    graph.insert_before(graph[0], tape.nodes)


def insert_after(graph: ir.Graph, value: ir.Value, tape: ir.tape.Tape) -> None:
    """Put the nodes of a tape right behind the one that gives a value, or first if it is given to the graph."""
    producer = value.producer()
    if producer is None:
        insert_first(graph, tape)
    else:
        graph.insert_after(producer, tape.nodes)
    _import_domains(graph, tape.nodes)


def replace_constant(graph: ir.Graph, weight: ir.Value, tape: ir.tape.Tape) -> None:
    """Let whoever reads a constant read what a tape gives instead, and drop the constant; the name stays in use."""
    made = tape.nodes[-1].outputs[0]
    made.shape, made.type = weight.shape, weight.type
    ir.convenience.replace_all_uses_with(weight, made, replace_graph_outputs=True)
    del graph.initializers[str(weight.name)]
    made.name = weight.name
    insert_first(graph, tape)


def set_content(weight: ir.Value, content: NDArray[Any]) -> None:
    """Let a constant have another content under the same name."""
    tensor = ir.Tensor(content if content.flags.c_contiguous else content.copy(), name=weight.name)
    weight.const_value, weight.type, weight.shape = tensor, ir.TensorType(tensor.dtype), tensor.shape


def drop_inferred_types(graph: ir.Graph) -> None:
    """Leave out the types and shapes of inner values, a third of a graph's bytes, and the names of nodes.

    The former are inferred again when the graph is loaded; the latter nothing reads.
    """
    given = {*graph.inputs, *graph.outputs}
    for node in graph.all_nodes():
        node.name = None
        for value in (*node.inputs, *node.outputs):
            if value is not None and value not in given:
                value.type = value.shape = None


def _import_domains(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    if any(node.domain == MICROSOFT for node in nodes):
        graph.opset_imports.setdefault(MICROSOFT, 1)
