"""The content of a recipe file; needs nothing.

``docs/recipe.md`` explains every field; a test holds the two together.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from seq2edge.architecture import Activation, Positions
from seq2edge.generation import GenerationOptions
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens

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
class ModelSettings:
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
    model: ModelSettings
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
