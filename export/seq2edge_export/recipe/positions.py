"""Position tables: find the rows that are used, and tell sinusoidal ones; needs torch."""

from dataclasses import replace

import torch
from torch import Tensor

from seq2edge.architecture import Architecture
from seq2edge_export.embedding import sinusoids
from seq2edge_export.model import Transformer
from seq2edge_export.recipe.settings import PositionSettings
from seq2edge_export.state_dict import StateDict

# Tables are often computed in float32, whose angles are off by 6e-8 of the position: 3e-4 at position 5000.
LIKE_THE_FORMULA = 1e-3


def position_problems(settings: PositionSettings, state: StateDict, shape: Architecture) -> list[str]:
    found = [_problem(name, settings, state, shape) for name in dict.fromkeys((settings.source, settings.target))]
    return [problem for problem in found if problem]


def fill_positions(model: Transformer, settings: PositionSettings, state: StateDict) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    sides = ((settings.source, model.source_embedding), (settings.target, model.target_embedding))
    for name, embedding in sides:
        if name and embedding.positions is not None:
            with torch.no_grad():
                embedding.positions.copy_(_used(as_table(state[name]), settings))


def as_table(tensor: Tensor) -> Tensor:
    """A table without the axis of length one that stands for the batch."""
    return tensor.squeeze(0).squeeze(1) if tensor.dim() == 3 and 1 in tensor.shape[:2] else tensor


def is_sinusoidal(table: Tensor, shape: Architecture) -> bool:
    """Whether the rows of a table (positions, D) are those that the shape's formula gives."""
    computed = sinusoids(replace(shape, max_positions=len(table)))
    return bool((table.float() - computed).abs().max() < LIKE_THE_FORMULA)


def _problem(name: str, settings: PositionSettings, state: StateDict, shape: Architecture) -> str:
    if not name:
        return ""
    if name not in state:
        return f"{name} is missing"
    table, wanted = as_table(state[name]), settings.offset + settings.max_positions
    if table.dim() != 2 or table.shape[1] != shape.width or len(table) < wanted:
        return f"{name} has the shape {tuple(state[name].shape)} instead of ({wanted} or more, {shape.width})"
    if not torch.isfinite(table).all():
        return f"{name} holds NaN or infinity"
    if shape.positions.startswith("sinusoidal") and not is_sinusoidal(_used(table, settings), shape):
        return f"{name} is not the table of {shape.positions} positions (kind = 'learned' takes any table)"
    return ""


def _used(table: Tensor, settings: PositionSettings) -> Tensor:
    return table[settings.offset : settings.offset + settings.max_positions]
