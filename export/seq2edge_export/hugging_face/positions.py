"""The position tables of BART and its descendants; needs torch.

``learned``: stored, from row 2 on (BART, mBART). ``halves``: the formula of the paper, all sines before all cosines,
which some files store all the same (Marian, Pegasus). ``stretched``: the formula of tensor2tensor, whose longest wave
is a little longer, counted from the padding id on (M2M100).
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from seq2edge.architecture import Architecture
from seq2edge_export.embedding import sinusoids
from seq2edge_export.hugging_face.config import Config
from seq2edge_export.hugging_face.places import POSITIONS
from seq2edge_export.hugging_face.traits import Table
from seq2edge_export.model import Transformer
from seq2edge_export.placing import put
from seq2edge_export.recipe.positions import is_sinusoidal
from seq2edge_export.state_dict import Tensors

FIRST_ROW = 2  # of BART's tables; the rows before are left from fairseq
Tables = dict[str, Tensor]  # by side; none where the formula of the shape is meant


def find_tables(table: Table, config: Config, state: Tensors, problems: list[str]) -> Tables:
    """The rows that are used, as far as they are stored or are no formula of ours."""
    if table == "stretched":
        rows = stretched(config.d_model, first=config.pad_token_id + 1, count=config.max_position_embeddings)
        return dict.fromkeys(POSITIONS, rows)
    first = FIRST_ROW if table == "learned" else 0
    wanted = (first + config.max_position_embeddings, config.d_model)
    found: Tables = {}
    for side, name in POSITIONS.items():
        if name not in state:
            problems += [f"{name} is missing"] if table == "learned" else []
        elif tuple(state[name].shape) != wanted or not torch.isfinite(state[name]).all():
            problems.append(f"{name} has the shape {tuple(state[name].shape)} instead of {wanted}, or no numbers")
        else:
            found[side] = state[name][first:].clone()
    return found


def with_positions(shape: Architecture, tables: Tables) -> Architecture:
    """The shape with the kind of positions that the tables are."""
    if shape.width % 2 == 0:
        formula = replace(shape, positions="sinusoidal_halves")
        if all(is_sinusoidal(table, formula) for table in tables.values()):
            return formula
    return replace(shape, positions="learned")


def fill_positions(model: Transformer, tables: Tables) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    for side, embedding in (("encoder", model.source_embedding), ("decoder", model.target_embedding)):
        positions = embedding.positions
        if positions is None:
            continue
        if side in tables:
            put(positions, tables[side])
        elif positions.is_meta:  # the other side is stored, and is not what the formula gives
            put(positions, sinusoids(replace(model.shape, positions="sinusoidal_halves")))


def stretched(width: int, *, first: int, count: int) -> Tensor:
    """So many rows from a first one on, in float32 as fairseq and transformers compute them."""
    waves = width // 2
    lengths = torch.exp(torch.arange(waves, dtype=torch.float32) * -(math.log(10000) / max(1, waves - 1)))
    places = torch.arange(first, first + count, dtype=torch.float32)
    angles = places[:, None] * lengths
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.nn.functional.pad(table, (0, width - 2 * waves))
