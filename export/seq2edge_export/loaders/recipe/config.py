"""The content of a recipe file.

``docs/recipe.md`` explains every field; a test holds the two together.

The shape of the model that a state dict holds.

Position tables: find the rows that are used, and tell sinusoidal ones.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

import torch
from torch import Tensor

from seq2edge.config.architecture import Activation, Architecture, Positions
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.model.embedding import sinusoids
from seq2edge_export.model.transformer import Transformer

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TensorNames:
    """Where the parts of the model are in the state dict."""

    encoder: str  # prefixes, without the last dot
    decoder: str
    source_embedding: str  # tensors
    target_embedding: str
    output: str
    output_bias: str = ""
    ignore: tuple[str, ...] = ()  # tensors that are not needed


@dataclass(frozen=True, kw_only=True)
class PositionSettings:
    """What tells the model where a token stands."""

    kind: Positions
    source: str = ""  # tensors with a row a position; left out, a sinusoidal table is computed
    target: str = ""
    offset: int = 0  # the row of the first token
    max_positions: int

    def __post_init__(self) -> None:
        if self.max_positions < 1 or self.offset < 0:
            raise ValueError("max_positions must be at least 1 and offset at least 0")
        if bool(self.source) != bool(self.target):
            raise ValueError("source and target tables go together; name one tensor twice if both use it")
        if self.kind == "learned" and not self.source:
            raise ValueError("learned positions need the names of their tables, source and target")
        if self.kind == "none" and self.source:
            raise ValueError("there is a table, but kind is 'none'")


@dataclass(frozen=True, kw_only=True)
class RecipeModelSettings:
    """What the model does and its weights do not show."""

    heads: int
    norm_first: bool
    activation: Activation
    norm_epsilon: float = 1e-5
    embedding_scale: Literal["sqrt"] | float = "sqrt"  # the root of the width, or a number
    bias: bool = True  # of the layers of encoder and decoder

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads is {self.heads}, but must be at least 1")
        if self.embedding_scale != "sqrt" and not isfinite(self.embedding_scale):
            raise ValueError(f"embedding_scale is {self.embedding_scale}, but must be a number")
        if not 0 < self.norm_epsilon < 1:
            raise ValueError(f"norm_epsilon is {self.norm_epsilon}, but must be between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole recipe; the paths in it are relative to its folder."""

    format_version: int
    weights: str
    tensors: TensorNames
    positions: PositionSettings
    model: RecipeModelSettings
    tokens: SpecialTokens
    tokenizer: Tokenization
    generation: GenerationOptions
    source_language: str = ""
    target_language: str = ""
    license: str = ""
    attribution: str = ""

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, but this seq2edge reads {FORMAT_VERSION}")


def shape_of(recipe: Recipe, state: StateDict, problems: list[str]) -> Architecture:
    """What tensors and recipe say together; a setting that cannot be is a problem, and another stands in for it."""
    sizes = _sizes(recipe, state)
    try:
        return Architecture(**sizes, **_settings(recipe))
    except ValueError as error:
        problems.append(str(error))
        return Architecture(**sizes, heads=1, positions="none")


def count_layers(state: StateDict, prefix: str) -> int:
    start = f"{prefix}.layers."
    return len({name.removeprefix(start).split(".")[0] for name in state if name.startswith(start)})


def same(state: StateDict, first: str, second: str) -> bool:
    """Whether two names mean one tensor, be it saved twice."""
    one, other = state[first], state[second]
    return first == second or (one.dtype == other.dtype and torch.equal(one, other))


def _sizes(recipe: Recipe, state: StateDict) -> dict[str, Any]:
    names = recipe.tensors
    inner = f"{names.encoder}.layers.0.linear1.weight"
    _check_tables(state, [inner, names.source_embedding, names.target_embedding, names.output], recipe.weights)
    feed_forward, width = state[inner].shape
    return {
        "source_vocabulary": len(state[names.source_embedding]),
        "target_vocabulary": len(state[names.target_embedding]),
        "width": width,
        "feed_forward": feed_forward,
        "encoder_layers": count_layers(state, names.encoder),
        "decoder_layers": max(1, count_layers(state, names.decoder)),
        "final_norm": any(f"{stack}.norm.weight" in state for stack in (names.encoder, names.decoder)),
        "joint_vocabulary": same(state, names.source_embedding, names.target_embedding),
        "tied_output": same(state, names.target_embedding, names.output),
        "output_bias": bool(names.output_bias),
        "max_positions": recipe.positions.max_positions,
    }


def _settings(recipe: Recipe) -> dict[str, Any]:
    model, positions = recipe.model, recipe.positions
    return {
        "heads": model.heads,
        "norm_first": model.norm_first,
        "activation": model.activation,
        "norm_epsilon": model.norm_epsilon,
        "embedding_scale": None if model.embedding_scale == "sqrt" else model.embedding_scale,
        "positions": positions.kind,
        "position_offset": positions.offset if positions.kind.startswith("sinusoidal") else 0,
    }


def _check_tables(state: StateDict, names: list[str], weights: str) -> None:
    """Without these, nothing can be said of the others."""
    wrong = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if wrong:
        raise CheckpointError(f"{weights} has no table named {' nor '.join(wrong)}; it has {_some(list(state))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


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
