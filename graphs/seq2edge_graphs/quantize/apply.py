"""Plan the precision of each weight, and rewrite graphs by such a plan.

    plan = plan_precision(graphs, "int4", keep=["decoder.0.*"])
    quantize(graphs, plan, dialect="ort", grams=collect_grams(bundle, sources))

A plan maps names of weights to precisions. Weights of the same name in several graphs are the same weight, so one plan
serves all graphs of a bundle. Gram matrices are optional; they improve 4-bit weights, see ``gptq.py``.

A weight that a precision cannot represent gets another one: a matrix whose channels no block size divides is kept in
8 bits, and so is a table, unless it is sinusoidal and can be computed instead.
"""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from seq2edge.bundle.bundle import Dialect, Precision
from seq2edge.errors import UsageError
from seq2edge_graphs.passes.graph_edit import drop_inferred_types
from seq2edge_graphs.quantize.fp16 import convert_to_fp16
from seq2edge_graphs.quantize.gptq import Gram, Grams, Int4Blocks, int4_block_size, round_int4_blocks
from seq2edge_graphs.quantize.int4 import quantize_int4
from seq2edge_graphs.quantize.int8 import Int8Quantizer, Ranges
from seq2edge_graphs.quantize.storage import compute_sinusoidal_table, find_sinusoidal_table, store_fp16, store_int8
from seq2edge_graphs.quantize.weights import QuantizableWeight, quantizable_weights

Plan = Mapping[str, Precision]

FP16_COMPUTE: Precision = "fp16-compute"  # of whole graphs, unlike fp16, in which weights are only stored
NEXT_HIGHER: dict[Precision, Precision] = {"int4": "int8", "int8": "fp16", "fp16": "fp32", "fp32": "fp32"}
NO_RANGES: Ranges = {}


def weight_names(graphs: Collection[ir.Model]) -> list[str]:
    """Return the name of each quantizable weight once."""
    return list(dict.fromkeys(weight.name for model in graphs for weight in quantizable_weights(model.graph)))


def embedding_names(graphs: Collection[ir.Model]) -> list[str]:
    """Return the names of the embeddings and of the output projection, the product with the most channels."""
    weights = [weight for model in graphs for weight in quantizable_weights(model.graph)]
    output = max((weight for weight in weights if weight.products), key=lambda weight: len(weight.channels()))
    return list(dict.fromkeys([weight.name for weight in weights if weight.lookups] + [output.name]))


def plan_precision(graphs: Collection[ir.Model], precision: Precision, *, keep: Sequence[str] = ()) -> Plan:
    """Plan one precision for all weights, and the next higher one for those that match a pattern of ``keep``."""
    names = weight_names(graphs)
    if precision == FP16_COMPUTE:
        return dict.fromkeys(names, precision)
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"no weight matches {pattern!r}; there are {', '.join(names[:3])} and {len(names)} in all")
    kept = {name for name in names if any(fnmatchcase(name, pattern) for pattern in keep)}
    return {name: NEXT_HIGHER[precision] if name in kept else precision for name in names}


def quantize(
    graphs: Collection[ir.Model],
    plan: Plan,
    *,
    dialect: Dialect,
    grams: Grams | None = None,
    ranges: Ranges = NO_RANGES,
) -> None:
    """Rewrite the graphs in place; weights that the plan does not name are left alone."""
    if dialect == "portable" and "int4" in plan.values():
        raise UsageError("4 bits need operators that only onnxruntime has: export with --dialect ort, or in int8")
    if FP16_COMPUTE in plan.values():
        _convert_to_fp16(graphs, dialect)
        return
    grams = Grams() if grams is None else grams
    looked_up = {weight.name for model in graphs for weight in quantizable_weights(model.graph) if weight.lookups}
    for model in graphs:
        int8 = Int8Quantizer(model.graph, dialect, ranges)
        for weight in quantizable_weights(model.graph):
            match _supported(weight, plan.get(weight.name, "fp32")):
                case "fp16":
                    store_fp16(model.graph, weight)
                case "int8" if weight.is_matrix:
                    int8(weight)
                case "int4" if weight.is_matrix:
                    quantize_int4(model.graph, weight, _int4_blocks(weight, grams, looked_up))
                case "int8" | "int4":
                    _shrink_table(model.graph, weight)
        RemoveUnusedNodesPass()(model)  # such as a ReLU that quantizing its output made redundant
        drop_inferred_types(model.graph)


def _convert_to_fp16(graphs: Collection[ir.Model], dialect: Dialect) -> None:
    if dialect != "portable":
        raise UsageError("computing in float16 is for other devices than the CPU: export with --dialect portable")
    for model in graphs:
        convert_to_fp16(model)
        drop_inferred_types(model.graph)


def _int4_blocks(weight: QuantizableWeight, grams: Grams, looked_up: Collection[str]) -> Int4Blocks:
    """Round a weight, or return it if it was rounded for another graph or plan already."""
    if weight.name not in grams.rounded:
        gram = grams.get(weight.name)
        if gram is not None and weight.name in looked_up:
            gram = _with_lookups(gram)
        grams.rounded[weight.name] = round_int4_blocks(weight.channels(), gram)
    return grams.rounded[weight.name]


def _with_lookups(gram: Gram) -> Gram:
    """Weight lookups as much as products; a lookup reads all elements of a row alike."""
    weighted: Gram = gram + np.eye(len(gram), dtype=gram.dtype) * (gram.trace() / len(gram))
    return weighted


def _supported(weight: QuantizableWeight, precision: Precision) -> Precision:
    """Return the precision, or int8 instead of int4 if no block size divides the channels."""
    no_blocks = precision == "int4" and weight.is_matrix and int4_block_size(weight.channels().shape[1]) is None
    return "int8" if no_blocks else precision


def _shrink_table(graph: ir.Graph, weight: QuantizableWeight) -> None:
    sinusoids = find_sinusoidal_table(weight.array())
    if sinusoids is None:
        store_int8(graph, weight)
    else:
        compute_sinusoidal_table(graph, weight, sinusoids)
