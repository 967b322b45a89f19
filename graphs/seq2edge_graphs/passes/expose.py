"""Let a graph also give values from its inside, for looking at."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import onnx_ir as ir


def inner_values(path: Path, wanted: Collection[str]) -> list[str]:
    """Those of the wanted names that a graph has inside, in the order in which they are computed."""
    graph = ir.load(path).graph
    named = [str(value.name) for node in graph for value in node.outputs]
    return [name for name in named if name in wanted]


def expose(path: Path, values: list[str], folder: Path, *, weights: str, alone: bool = True) -> Path:
    """Write a copy of a graph into ``folder`` whose outputs are the given values, alone or behind its own."""
    model = ir.load(path)
    by_name = {value.name: value for node in model.graph for value in node.outputs}
    if alone:
        model.graph.outputs.clear()
    model.graph.outputs.extend(by_name[name] for name in values)
    _place(path.parent / weights, folder / weights)
    copy = folder / path.name
    ir.save(model, copy)
    return copy


def _place(source: Path, target: Path) -> None:
    """A second name for the weights, which a graph wants beside it; a copy where there can be none."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
