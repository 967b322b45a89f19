"""Decide in which precision each part of some graphs is kept, and rewrite them so.

    plan = plan_precision(graphs, "int4", keep=["decoder.0.*"])
    quantize(graphs, plan, dialect="ort", grams=collect_grams(bundle, sources))

A plan is a dictionary from the name of a part to its precision. The same name in several graphs is the same weight, so
one plan serves all graphs of a bundle. Gram matrices make 4 bits better, see ``blocks.py``; it works without them.

What a precision does not fit gets another one that does: a matrix whose channels no block divides is kept in 8 bits
without blocks, and so is a table, unless it consists of waves, which are computed. ``plan_precision`` leaves what the
encoder multiplies without blocks of bytes, which are for few rows.
"""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Dialect, Precision
from seq2edge.errors import UsageError
from seq2edge_graphs.passes.graph_edit import drop_inferred_types
from seq2edge_graphs.quantize.blockwise import int8_block_size, quantize_int4, quantize_int8_blocks
from seq2edge_graphs.quantize.fp16 import convert_to_fp16
from seq2edge_graphs.quantize.gptq import Gram, int4_block_size
from seq2edge_graphs.quantize.int8 import Int8Quantizer
from seq2edge_graphs.quantize.storage import compute_sinusoidal_table, find_sinusoidal_table, store_fp16, store_int8
from seq2edge_graphs.quantize.weights import QuantizableWeight, quantizable_weights

Plan = Mapping[str, Precision]
Grams = Mapping[str, Gram]  # by the name of the weight

HALF: Precision = "fp16-compute"  # of a whole bundle: what computes in it, and not only what is kept in it
BYTE_BLOCKS: Precision = "int8-blocks"
HIGHER: dict[Precision, Precision] = {
    "int4": "int8",
    "int8": "fp16",
    "int8-blocks": "fp16",
    "fp16": "fp32",
    "fp32": "fp32",
}
BLOCK_SIZE = {"int4": int4_block_size, BYTE_BLOCKS: int8_block_size}  # of a channel, where a precision has blocks


def weight_names(graphs: Collection[ir.Model]) -> list[str]:
    """The parts whose precision can be chosen, each once."""
    return list(dict.fromkeys(part.name for model in graphs for part in quantizable_weights(model.graph)))


def plan_precision(graphs: Collection[ir.Model], precision: Precision, *, keep: Sequence[str] = ()) -> Plan:
    """All parts in one precision, but those that match a pattern in the next higher one."""
    parts = weight_names(graphs)
    if precision == HALF:
        return dict.fromkeys(parts, precision)
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in parts):
            raise UsageError(f"no weight matches {pattern!r}; there are {', '.join(parts[:3])} and {len(parts)} in all")
    plan = dict.fromkeys(parts, precision)
    if precision == BYTE_BLOCKS:
        plan |= dict.fromkeys(_multiplied_by_encoder(graphs), "int8")
    kept = {name for name in parts if any(fnmatchcase(name, pattern) for pattern in keep)}
    return {name: HIGHER[one] if name in kept else one for name, one in plan.items()}


def _multiplied_by_encoder(graphs: Collection[ir.Model]) -> list[str]:
    encoders = [model.graph for model in graphs if tensor_names.SOURCE in {value.name for value in model.graph.inputs}]
    return [part.name for graph in encoders for part in quantizable_weights(graph) if part.products]


def quantize(graphs: Collection[ir.Model], plan: Plan, *, dialect: Dialect, grams: Grams | None = None) -> None:
    """Rewrite the graphs; a part that the plan does not name stays as it is."""
    if dialect == "portable" and BLOCK_SIZE.keys() & set(plan.values()):
        raise UsageError("blocks need operators that only onnxruntime has: export with --dialect ort, or in int8")
    if HALF in plan.values():
        _compute_in_half(graphs, dialect)
        return
    grams = _with_lookups(grams or {}, graphs)
    for model in graphs:
        int8 = Int8Quantizer(model.graph, dialect)
        for part in quantizable_weights(model.graph):
            match _fitting(part, plan.get(part.name, "fp32")):
                case "fp16":
                    store_fp16(model.graph, part)
                case "int8" if part.is_matrix:
                    int8(part)
                case "int4" if part.is_matrix:
                    quantize_int4(model.graph, part, grams.get(part.name))
                case "int8-blocks" if part.is_matrix:
                    quantize_int8_blocks(model.graph, part)
                case "int8" | "int4" | "int8-blocks":
                    _shrink_table(model.graph, part)
        RemoveUnusedNodesPass()(model)  # such as a ReLU that rounding does on the way
        drop_inferred_types(model.graph)


def _compute_in_half(graphs: Collection[ir.Model], dialect: Dialect) -> None:
    if dialect != "portable":
        raise UsageError("computing in float16 is for other devices than the CPU: export with --dialect portable")
    for model in graphs:
        convert_to_fp16(model)
        drop_inferred_types(model.graph)


def _with_lookups(grams: Grams, graphs: Collection[ir.Model]) -> Grams:
    """Gram matrices that count lookups as much as products; a lookup reads all places of a row alike."""
    looked_up = {part.name for model in graphs for part in quantizable_weights(model.graph) if part.lookups}
    return {
        name: gram + np.eye(len(gram)) * gram.trace() / len(gram) if name in looked_up else gram
        for name, gram in grams.items()
    }


def _fitting(part: QuantizableWeight, precision: Precision) -> Precision:
    size_of = BLOCK_SIZE.get(precision)
    no_blocks = size_of is not None and part.is_matrix and size_of(part.channels().shape[1]) is None
    return "int8" if no_blocks else precision


def _shrink_table(graph: ir.Graph, part: QuantizableWeight) -> None:
    waves = find_sinusoidal_table(part.numbers())
    if waves is None:
        store_int8(graph, part)
    else:
        compute_sinusoidal_table(graph, part, waves)
