"""Keep weights in fewer bits that are widened again when the graph is loaded; needs numpy and onnx-ir.

The graph computes in float32 all the same: onnxruntime folds the widening into a constant. It is how float16 runs where
the provider has no float16 arithmetic, as on CPUs, and how tables are kept that nothing multiplies with.
"""

import numpy as np
import onnx_ir as ir

from seq2edge_graphs.quantize.edit import constant, exchange
from seq2edge_graphs.quantize.integers import round_rows
from seq2edge_graphs.quantize.parts import Part


def store_half(graph: ir.Graph, part: Part) -> None:
    """Keep it as float16."""
    tape = ir.tape.Tape()
    narrow = constant(graph, f"{part.name}.fp16", part.numbers().astype(np.float16))
    tape.op("Cast", [narrow], {"to": ir.DataType.FLOAT.value})
    exchange(graph, part.weight, tape)


def store_bytes(graph: ir.Graph, part: Part) -> None:
    """Keep it as 8-bit integers with one scale a row."""
    integers, scale = round_rows(part.numbers())
    tape = ir.tape.Tape()
    wide = tape.op("Cast", [constant(graph, f"{part.name}.int8", integers)], {"to": ir.DataType.FLOAT.value})
    tape.op("Mul", [wide, constant(graph, f"{part.name}.scale", scale)])
    exchange(graph, part.weight, tape)
