"""Define the content of a recipe file, and derive the architecture from it.

``docs/recipe.md`` explains every field; a test compares the two.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import torch

from seq2edge.config.architecture import Activation, Architecture, Positions
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.state_dict import StateDict, count_layers

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TensorNames:
    """The names of the parts of the model in the state dict."""

    encoder: str  # prefixes, without the last dot
    decoder: str
    source_embedding: str  # tensors
    target_embedding: str
    output: str
    output_bias: str = ""
    ignore: tuple[str, ...] = ()  # unused tensors


@dataclass(frozen=True, kw_only=True)
class PositionSettings:
    """The position embeddings."""

    kind: Positions
    source: str = ""  # tensors with one row per position; if left out, a sinusoidal table is computed
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
    """The settings of the model that its weights do not show."""

    heads: int
    norm_first: bool
    activation: Activation
    norm_epsilon: float = 1e-5
    embedding_scale: Literal["sqrt"] | float = "sqrt"  # the square root of the width, or a number
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


def architecture_of(recipe: Recipe, state: StateDict, problems: list[str]) -> Architecture:
    """Return the architecture that tensors and recipe describe; one with defaults if the settings are invalid."""
    sizes = _sizes(recipe, state)
    try:
        return Architecture(**sizes, **_settings(recipe))
    except ValueError as error:
        problems.append(str(error))
        return Architecture(**sizes, heads=1, positions="none")


def length_problems(recipe: Recipe) -> list[str]:
    """List the lengths that are too large for the model."""
    limit = recipe.positions.max_positions
    lengths = {
        "generation.max_new_tokens": recipe.generation.longest(1) - 1,
        "tokenizer.source_length": recipe.tokenizer.source_length,
    }
    return [
        f"{name} is {length}, but positions.max_positions is {limit}"
        for name, length in lengths.items()
        if length > limit
    ]


def _same(state: StateDict, first: str, second: str) -> bool:
    """Return whether two names stand for one tensor, which may be stored twice."""
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
        "encoder_layers": count_layers(state, f"{names.encoder}.layers."),
        "decoder_layers": max(1, count_layers(state, f"{names.decoder}.layers.")),
        "final_norm": any(f"{stack}.norm.weight" in state for stack in (names.encoder, names.decoder)),
        "joint_vocabulary": _same(state, names.source_embedding, names.target_embedding),
        "tied_output": _same(state, names.target_embedding, names.output),
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
    """Check the tensors that the architecture is derived from."""
    missing = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if missing:
        raise CheckpointError(f"{weights} has no matrix named {' nor '.join(missing)}; it has {_some(list(state))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
