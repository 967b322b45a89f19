"""Remove what the exporter leaves in a graph for debugging; needs onnx-ir.

1. Stack traces and module paths of nodes and values: ten times the size of the graph itself, with paths of the machine.
2. Names of nodes and descriptions, which nothing reads.
"""

import onnx_ir as ir


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
