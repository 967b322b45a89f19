"""Take from a graph the part that gives some of its outputs; needs onnx-ir.

1. The part has the inputs of the whole, also those that it does not read: who feeds one can feed the other.
2. It has only the nodes and constants that lead to its outputs. An output of a node that the part does not use, such as
   one that an operator gives on demand, is left out where the operator allows it.
3. Nodes and constants keep their names and their order; constants share their content with the whole.
"""

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass


def part_giving(model: ir.Model, outputs: Iterable[str]) -> ir.Model:
    """A new model whose outputs are the given ones alone; the whole stays as it is."""
    part = model.clone()
    by_name = {value.name: value for value in part.graph.outputs}
    part.graph.outputs[:] = [by_name[name] for name in outputs]
    RemoveUnusedNodesPass()(part)
    return part
