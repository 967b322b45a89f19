"""Recognize and fill position tables, which most checkpoints store even if a formula computes them."""

import math
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture, Positions
from seq2edge_export.loaders.weight_map import assign
from seq2edge_export.model.embedding import sinusoids
from seq2edge_export.model.transformer import Transformer

# Tables are often computed in float32, whose angles are off by 6e-8 of the position: 3e-4 at position 5000.
TOLERANCE = 1e-3
Tables = dict[str, Tensor]  # "encoder" and "decoder" -> (positions, D); a side without a table uses the formula


def with_positions(
    architecture: Architecture, tables: Collection[Tensor], formulas: tuple[Positions, ...]
) -> Architecture:
    """Return the architecture with the first formula that computes the tables, or with learned positions."""
    for formula in formulas if architecture.width % 2 == 0 else ():
        candidate = replace(architecture, positions=formula)
        if all(is_sinusoidal(table, candidate) for table in tables):
            return candidate
    return replace(architecture, positions="learned")


def fill_positions(model: Transformer, tables: Tables) -> None:
    """Copy the stored tables even where a formula computes them, so that not even their rounding differs."""
    for side, embedding in (("encoder", model.source_embedding), ("decoder", model.target_embedding)):
        positions = embedding.positions
        if positions is None:
            continue
        if side in tables:
            assign(positions, tables[side])
        elif positions.is_meta:  # only the other side is stored, and differs from the formula
            assign(positions, sinusoids(replace(model.architecture, positions="sinusoidal_halves")))


def is_sinusoidal(table: Tensor, architecture: Architecture) -> bool:
    """Return whether the formula of an architecture computes a table (positions, D)."""
    computed = sinusoids(replace(architecture, max_positions=len(table)))
    return bool((table.float() - computed).abs().max() < TOLERANCE)


def as_table(tensor: Tensor) -> Tensor:
    """Return a table without the batch axis of length one."""
    return tensor.squeeze(0).squeeze(1) if tensor.dim() == 3 and 1 in tensor.shape[:2] else tensor


def stretched_sinusoids(width: int, *, first: int, count: int) -> Tensor:
    """Compute rows of the tensor2tensor formula in float32, with the rounding of fairseq and transformers."""
    waves = width // 2
    frequencies = torch.exp(torch.arange(waves, dtype=torch.float32) * -(math.log(10000) / max(1, waves - 1)))
    positions = torch.arange(first, first + count, dtype=torch.float32)
    angles = positions[:, None] * frequencies
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.nn.functional.pad(table, (0, width - 2 * waves))
