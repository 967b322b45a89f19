"""Decide in which precision each part of some graphs is kept, and rewrite them so; needs onnx-ir.

    plan = plan_precision(graphs, "int4", keep=["decoder.0.*"])
    quantize(graphs, plan, dialect="ort")

A plan is a dictionary from the name of a part to its precision. The same name in several graphs is the same weight, so
one plan serves all graphs of a bundle.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import onnx_ir as ir

from seq2edge.bundle import Dialect, Precision
from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.edit import forget_what_is_inferred
from seq2edge_graphs.quantize.int8 import Int8
from seq2edge_graphs.quantize.parts import Part, parts_of
from seq2edge_graphs.quantize.stored import store_bytes, store_half
from seq2edge_graphs.quantize.waves import compute_waves, find_waves

Plan = Mapping[str, Precision]

HIGHER: dict[Precision, Precision] = {"int4": "int8", "int8": "fp16", "fp16": "fp32"}


def part_names(graphs: Iterable[ir.Model]) -> list[str]:
    """The parts whose precision can be chosen, each once."""
    return list(dict.fromkeys(part.name for model in graphs for part in parts_of(model.graph)))


def plan_precision(graphs: Iterable[ir.Model], precision: Precision, *, keep: Sequence[str] = ()) -> Plan:
    """All parts in one precision, but those that match a pattern in the next higher one."""
    names = part_names(graphs)
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"no weight matches {pattern!r}; there are {', '.join(names[:3])} and {len(names)} in all")
    kept = {name for name in names if any(fnmatchcase(name, pattern) for pattern in keep)}
    return {name: HIGHER[precision] if name in kept else precision for name in names}


def quantize(graphs: Iterable[ir.Model], plan: Plan, *, dialect: Dialect) -> None:
    """Rewrite the graphs; a part that the plan does not name stays as it is."""
    for model in graphs:
        int8 = Int8(model.graph, dialect)
        for part in parts_of(model.graph):
            precision = plan.get(part.name, "fp32")
            if precision == "fp16":
                store_half(model.graph, part)
            elif precision == "int8" and part.is_matrix:
                int8(part)
            elif precision != "fp32":
                _shrink_table(model.graph, part)
        forget_what_is_inferred(model.graph)


def _shrink_table(graph: ir.Graph, part: Part) -> None:
    waves = find_waves(part.numbers())
    if waves is None:
        store_bytes(graph, part)
    else:
        compute_waves(graph, part, waves)
