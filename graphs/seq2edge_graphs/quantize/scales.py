"""Keep scales as bfloat16, half their size, without loss; needs numpy and onnx-ir.

A scale only has to be large enough. It is rounded up before the integers are chosen for it, so they make up for the
difference, which is at most 1/128 of a step's length. The graph widens the scales when it is loaded.
"""

import numpy as np
import onnx_ir as ir

from seq2edge_graphs.quantize.edit import insert_first
from seq2edge_graphs.quantize.parts import Floats


def rounded_up(scale: Floats) -> Floats:
    """The smallest bfloat16 that is not below each of some numbers above 0, as float32."""
    bits = np.ascontiguousarray(scale, np.float32).view(np.uint32)
    up: Floats = ((bits + 0xFFFF) & 0xFFFF0000).view(np.float32)
    return up


def scale_constant(graph: ir.Graph, name: str, scale: Floats) -> ir.Value:
    """What gives the scales; they must be bfloat16 already."""
    bits = (np.ascontiguousarray(scale).view(np.uint32) >> 16).astype(np.uint16)
    tensor = ir.Tensor(bits, dtype=ir.DataType.BFLOAT16, name=name)
    tape = ir.tape.Tape(graph_like=None)
    wide = tape.op("Cast", [tape.initializer(tensor)], {"to": ir.DataType.FLOAT.value})
    for value in tape.initializers:
        graph.register_initializer(value)
    insert_first(graph, tape)
    return wide
