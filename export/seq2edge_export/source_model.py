"""A model as it was trained, with all that a bundle says about it."""

from dataclasses import dataclass
from pathlib import Path

from seq2edge.bundle.bundle import Rights
from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages, default_tags
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer
from seq2edge_export.tracing.graph_modules import GraphModules


@dataclass(frozen=True, kw_only=True)
class SourceModel:
    """What is exported, and what a bundle is compared with, wherever it came from."""

    family: str
    graphs: GraphModules
    architecture: Architecture | None  # None: a module of its own kind
    parameters: int
    max_positions: int
    tokens: SpecialTokens
    tokenization: Tokenization
    tokenizer_files: dict[str, Path]  # by the names that they have in a bundle
    generation: GenerationOptions
    languages: Languages
    rights: Rights

    def tokenizer(self) -> Tokenizer:
        tokenizer = load_tokenizer(self.tokenization, self.tokens, self.tokenizer_files)
        return tokenizer.tagged(default_tags(self.languages))

    def check(self) -> None:
        """Name everything in which vocabulary, options and model do not fit together, before anything is written."""
        problems = self._too_many_tokens()
        asked = self.generation.longest(1) - 1
        if asked > self.max_positions:
            problems.append(
                f"the default is output of {asked} tokens, but the model has {self.max_positions} positions"
            )
        if problems:
            raise CheckpointError("; ".join(problems))

    def _too_many_tokens(self) -> list[str]:
        tokenizer, shape = self.tokenizer(), self.architecture
        if shape is None:
            return []
        sides = {
            "source": (tokenizer.source.get_piece_size(), shape.source_vocabulary),
            "target": (tokenizer.target.get_piece_size(), shape.target_vocabulary),
        }
        return [
            f"the {side} vocabulary has {tokens} tokens, but the model has {size}"
            for side, (tokens, size) in sides.items()
            if tokens > size
        ]
