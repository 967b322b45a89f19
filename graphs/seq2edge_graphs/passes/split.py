"""Take from a graph the part that gives some of its outputs.

1. The part has the inputs of the whole, also those that it does not read: who feeds one can feed the other.
2. It has only the nodes and constants that lead to its outputs. An output of a node that the part does not use, such as
   one that an operator gives on demand, is left out where the operator allows it.
3. Nodes and constants keep their names and their order; constants share their content with the whole.

Remove what the exporter leaves in a graph for debugging.

1. Stack traces and module paths of nodes and values: ten times the size of the graph itself, with paths of the machine.
2. Names of nodes and descriptions, which nothing reads.
"""

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass


def extract_outputs(model: ir.Model, outputs: Iterable[str]) -> ir.Model:
    """A new model whose outputs are the given ones alone; the whole stays as it is."""
    part = model.clone()
    by_name = {value.name: value for value in part.graph.outputs}
    part.graph.outputs[:] = [by_name[name] for name in outputs]
    RemoveUnusedNodesPass()(part)
    return part


def strip(model: ir.Model) -> None:
    """Leave only what computes."""
    model.metadata_props.clear()
    model.doc_string = None
    model.graph.metadata_props.clear()
    model.graph.doc_string = None
    for value in [*model.graph.inputs, *model.graph.initializers.values()]:
        value.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        node.name = None
        for value in node.outputs:
            value.metadata_props.clear()
