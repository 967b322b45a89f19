"""The position tables of OpenNMT-py and eole, computed or learned; both are stored; needs torch."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from seq2edge.architecture import Architecture, Positions
from seq2edge_export.model import Transformer
from seq2edge_export.opennmt.given import Given
from seq2edge_export.opennmt.shape import LONGEST
from seq2edge_export.recipe.positions import as_table, is_sinusoidal

FORMULAS: tuple[Positions, ...] = ("sinusoidal", "sinusoidal_halves")
Tables = tuple[Tensor, ...]  # of source and target; none where the model has no positions


def find_tables(given: Given, width: int, problems: list[str]) -> Tables:
    """The rows of source and target that can be used, with the numbers that are added to the vectors of tokens."""
    if not given.settings.positions:
        return ()
    sides = (given.layout.source_positions, given.layout.target_positions)
    found = [_find(given, names, width, problems) for names in sides]
    rows = min(LONGEST, *(len(table) for table in found))
    return tuple(table[:rows] for table in found)


def with_positions(shape: Architecture, tables: Tables) -> Architecture:
    """The same with the positions that the tables are: those of a formula, if there is one."""
    if not tables:
        return shape
    shape = replace(shape, positions="learned", max_positions=len(tables[0]))
    for kind in FORMULAS if shape.width % 2 == 0 else ():
        like = replace(shape, positions=kind)
        if all(is_sinusoidal(table, like) for table in tables):
            return like
    return shape


def fill_positions(model: Transformer, tables: Tables) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    embeddings = (model.source_embedding, model.target_embedding)
    for embedding, table in zip(embeddings, tables, strict=bool(tables)):
        assert embedding.positions is not None
        with torch.no_grad():
            embedding.positions.copy_(table)


def _find(given: Given, names: tuple[str, ...], width: int, problems: list[str]) -> Tensor:
    name = next((name for name in names if name in given.state), names[0])
    if name not in given.state:
        problems.append(f"{name} is missing")
        return torch.zeros(1, width)
    table = as_table(given.state[name])[given.settings.first_position :]
    if table.dim() != 2 or table.shape[1] != width or not len(table) or not torch.isfinite(table).all():
        problems.append(
            f"{name} has the shape {tuple(given.state[name].shape)} instead of (positions, {width}), or NaN"
        )
        return torch.zeros(1, width)
    return table * math.sqrt(width) if given.settings.scaled_positions else table
