"""Split a traced graph by its outputs, and strip what the exporter leaves in it."""

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass


def extract_outputs(model: ir.Model, outputs: Iterable[str]) -> ir.Model:
    """Return a new model that computes only some of the outputs; the whole model is not changed.

    1. It has all inputs of the whole model, also those that it does not read: both can be fed the same way.
    2. It has only the nodes and constants that its outputs depend on. Optional outputs of a node that nothing reads are
       dropped where the operator allows it.
    3. Nodes and constants keep their names and their order; constants share their content with the whole model.
    """
    part = model.clone()
    by_name = {value.name: value for value in part.graph.outputs}
    part.graph.outputs[:] = [by_name[name] for name in outputs]
    RemoveUnusedNodesPass()(part)
    return part


def strip(model: ir.Model) -> None:
    """Remove names of nodes, descriptions, stack traces and module paths.

    Nothing reads them, they take ten times the size of the graph itself, and they contain paths of the machine.
    """
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
