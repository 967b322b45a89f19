"""A model as it was trained, with all that a bundle says about it; needs torch."""

from dataclasses import dataclass
from pathlib import Path

from seq2edge.architecture import Architecture
from seq2edge.bundle import Languages, Rights
from seq2edge.generation import GenerationOptions
from seq2edge.tokenization import Tokenization
from seq2edge.tokenizer import Tokenizer, load_tokenizer
from seq2edge.tokens import SpecialTokens
from seq2edge_export.graph_modules import GraphModules


@dataclass(frozen=True, kw_only=True)
class Original:
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
        return load_tokenizer(self.tokenization, self.tokens, self.tokenizer_files)
