"""The shape of the model that CTranslate2's variables are; needs torch."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from seq2edge.architecture import Architecture, Positions
from seq2edge.errors import CheckpointError
from seq2edge_export.ctranslate2.binary import Binary
from seq2edge_export.ctranslate2.places import OUTPUT, OUTPUT_BIAS, POSITIONS, TARGET, source_embedding
from seq2edge_export.ctranslate2.settings import ACTIVATIONS, Stack, starts_from_zero
from seq2edge_export.model import Transformer
from seq2edge_export.recipe.positions import is_sinusoidal
from seq2edge_export.state_dict import StateDict

LONGEST = 1024  # CTranslate2 cuts longer sources; tables may have more rows
INNER = "encoder/layer_0/ffn/linear_0/weight"
FORMULAS: tuple[Positions, ...] = ("sinusoidal_halves", "sinusoidal")


def shape_of(binary: Binary, state: StateDict, stack: Stack, epsilon: float) -> Architecture:
    """What tensors and settings say together, but for the positions."""
    source = source_embedding(state)
    _check_tables(state, source, TARGET, OUTPUT, INNER)
    feed_forward, width = state[INNER].shape
    try:
        return Architecture(
            source_vocabulary=len(state[source]),
            target_vocabulary=len(state[TARGET]),
            width=width,
            heads=stack.heads,
            encoder_layers=_count_layers(state, "encoder"),
            decoder_layers=_count_layers(state, "decoder"),
            feed_forward=feed_forward,
            activation=ACTIVATIONS[stack.activation],
            gated=stack.gated,
            norm_first=stack.pre_norm,
            final_norm=stack.final_norm,
            positions="none",
            max_positions=LONGEST,
            joint_vocabulary=_same(state, source, TARGET),
            tied_output=_same(state, TARGET, OUTPUT),
            output_bias=OUTPUT_BIAS in state,
            embedding_scale=stack.embedding_scale,
            embedding_norm=stack.embedding_norm,
            zero_start=starts_from_zero(binary),
            norm_epsilon=epsilon,
        )
    except ValueError as error:
        raise CheckpointError(f"the variables in model.bin do not fit together: {error}") from None


def with_positions(shape: Architecture, state: StateDict) -> Architecture:
    """The same with the positions that the tables are: those of a formula, if there is one."""
    tables = position_tables(state, shape.width)
    shape = replace(shape, positions="learned", max_positions=len(tables[0]))
    for kind in FORMULAS if shape.width % 2 == 0 else ():
        like = replace(shape, positions=kind)
        if all(is_sinusoidal(table, like) for table in tables):
            return like
    return shape


def position_tables(state: StateDict, width: int) -> tuple[Tensor, Tensor]:
    """The rows of source and target that can be used: stored ones, or those that CTranslate2 computes."""
    stored = [state[name] if name in state else computed_positions(width) for name in POSITIONS.values()]
    rows = min(LONGEST, *(len(table) for table in stored))
    for name, table in zip(POSITIONS.values(), stored, strict=True):
        if table.dim() != 2 or table.shape[1] != width or not rows or not torch.isfinite(table[:rows]).all():
            raise CheckpointError(
                f"{name} has the shape {tuple(table.shape)} instead of (positions, {width}), or no numbers"
            )
    source, target = (table[:rows] for table in stored)
    return source, target


def fill_positions(model: Transformer, state: StateDict) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    embeddings = (model.source_embedding, model.target_embedding)
    for embedding, table in zip(embeddings, position_tables(state, model.shape.width), strict=True):
        assert embedding.positions is not None
        with torch.no_grad():
            embedding.positions.copy_(table)


def computed_positions(width: int) -> Tensor:
    """CTranslate2's table for models that bring none: tensor2tensor's formula from position 1, in float32."""
    waves = width // 2
    step = np.log(np.float32(10000)) / np.float32(max(waves - 1, 1))
    lengths = np.exp(-step * np.arange(waves, dtype=np.float32))
    angles = np.arange(1, LONGEST + 1, dtype=np.float32)[:, None] * lengths
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def _count_layers(state: StateDict, side: str) -> int:
    count = 0
    while any(name.startswith(f"{side}/layer_{count}/") for name in state):
        count += 1
    return count


def _same(state: StateDict, first: str, second: str) -> bool:
    return state[first] is state[second] or torch.equal(state[first], state[second])


def _check_tables(state: StateDict, *names: str) -> None:
    """Without these, nothing can be said of the others."""
    wrong = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if wrong:
        raise CheckpointError(f"model.bin has no table named {' nor '.join(wrong)}, which a Transformer needs")
