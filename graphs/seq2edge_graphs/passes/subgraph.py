"""Extract a part of a graph by its outputs, expose internal values, and strip what the exporter leaves in it."""

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

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


def inner_values(path: Path, names: Collection[str]) -> list[str]:
    """Return those of the names that are internal values of a graph, in the order of computation."""
    graph = ir.load(path).graph
    computed = [str(value.name) for node in graph for value in node.outputs]
    return [name for name in computed if name in names]


def expose(path: Path, values: list[str], folder: Path, *, weights: str, keep_outputs: bool = False) -> Path:
    """Write a copy of a graph to ``folder`` that outputs the named values, after its own outputs if these are kept."""
    model = ir.load(path)
    by_name = {value.name: value for node in model.graph for value in node.outputs}
    if not keep_outputs:
        model.graph.outputs.clear()
    model.graph.outputs.extend(by_name[name] for name in values)
    _link(path.parent / weights, folder / weights)
    copy = folder / path.name
    ir.save(model, copy)
    return copy


def _link(source: Path, target: Path) -> None:
    """Link the weights next to the copy of the graph, or copy them where links are not supported."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
