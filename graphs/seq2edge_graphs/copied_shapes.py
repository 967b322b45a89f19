"""Let a graph reshape without computing shapes: some devices would do that themselves, and copy; needs onnx-ir.

1. A Reshape whose output has the sizes of its input at the same places, and at most one other that changes from call to
   call, is told so with constants: 0 copies a size, -1 is what is left.
2. Any other takes the shape of a value that has it already.

The exporter writes down the sizes of all values by name; what cannot be done so is an error.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from seq2edge_graphs.quantize.edit import constant


def copy_shapes(model: ir.Model) -> None:
    """Rewrite every Reshape whose shape is computed, and drop what computed it."""
    graph = model.graph
    known = {_sizes(value): value for value in reversed(graph.inputs)}
    for node in [*graph]:
        if node.op_type == "Reshape" and node.inputs[1] is not None and node.inputs[1].const_value is None:
            node.replace_input_with(1, _copied(graph, node, known))
            node.attributes.pop("allowzero", None)  # 0 is to mean the size of the input
        for value in node.outputs:
            known.setdefault(_sizes(value), value)
    RemoveUnusedNodesPass()(model)


def _copied(graph: ir.Graph, node: ir.Node, known: dict[tuple[str, ...], ir.Value]) -> ir.Value:
    before, after = _sizes(node.inputs[0]), _sizes(node.outputs[0])
    told = [
        int(size) if size.isdecimal() else 0 if place < len(before) and before[place] == size else -1
        for place, size in enumerate(after)
    ]
    if told.count(-1) <= 1:
        return constant(graph, f"shape.{'.'.join(map(str, told))}", np.array(told, np.int64))
    if after not in known:
        raise ValueError(f"nothing has the shape {after} before {node.outputs[0].name}")
    tape = ir.tape.Tape()
    shape = tape.op("Shape", [known[after]])
    graph.insert_before(node, tape.nodes)
    return shape


def _sizes(value: ir.Value | None) -> tuple[str, ...]:
    if value is None or value.shape is None:
        raise ValueError(f"the graph does not say how large {value and value.name} is")
    return tuple(map(str, value.shape))
