"""Expose internal values of a graph as outputs, to record or compare them."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import onnx_ir as ir


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
