"""The PyTorch model that is exported, with everything that its bundle contains."""

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
    """The model that a bundle is made from and compared with, whatever family it was loaded from."""

    family: str
    graphs: GraphModules
    architecture: Architecture | None  # None: a user's own module
    parameters: int
    max_positions: int
    tokens: SpecialTokens
    tokenization: Tokenization
    tokenizer_files: dict[str, Path]  # by their names in the bundle
    generation: GenerationOptions
    languages: Languages
    rights: Rights

    def tokenizer(self) -> Tokenizer:
        tokenizer = load_tokenizer(self.tokenization, self.tokens, self.tokenizer_files)
        return tokenizer.with_tags(default_tags(self.languages))

    def check(self) -> None:
        """Check that vocabulary, generation options and model match, and name all problems in one error."""
        problems = self._vocabulary_problems()
        max_tokens = self.generation.longest(1) - 1
        if max_tokens > self.max_positions:
            problems.append(
                f"the generation options allow {max_tokens} tokens, but the model has {self.max_positions} positions"
            )
        if problems:
            raise CheckpointError("; ".join(problems))

    def _vocabulary_problems(self) -> list[str]:
        tokenizer, architecture = self.tokenizer(), self.architecture
        if architecture is None:
            return []
        sides = {
            "source": (tokenizer.source.get_piece_size(), architecture.source_vocabulary),
            "target": (tokenizer.target.get_piece_size(), architecture.target_vocabulary),
        }
        return [
            f"the {side} vocabulary has {tokens} tokens, but the model has {size}"
            for side, (tokens, size) in sides.items()
            if tokens > size
        ]
