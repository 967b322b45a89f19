"""The PyTorch model that is exported, with everything that its bundle contains, and an engine to run it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Rights
from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages, default_tags
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.engine.encoder import pad_sources
from seq2edge.errors import CheckpointError, listed
from seq2edge.search import DecoderState, Ids, StepOutput
from seq2edge.search.batch_decode import decode
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
            raise CheckpointError(listed(problems))

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


class TorchEngine:
    """The encoder and decoder modules, on the device of their weights."""

    def __init__(self, graphs: GraphModules, *, pad: int) -> None:
        self.graphs = graphs
        self.pad = pad
        self.device = next(graphs.reference.decoder.parameters()).device

    def start(self, sources: list[list[int]]) -> "TorchState":
        source, mask = (torch.as_tensor(array, device=self.device) for array in pad_sources(sources, self.pad))
        return TorchState(self.graphs, source, mask)


class TorchState(DecoderState):
    """The decoder state of the source model."""

    def __init__(self, graphs: GraphModules, source: Tensor, source_mask: Tensor) -> None:
        self.decoder = graphs.reference.decoder
        self.graphs, self.source = graphs, source
        self.source_mask = source_mask
        with torch.inference_mode():
            self.cross: list[Tensor] = graphs.reference.encoder(source, source_mask)
        sizes = {tensor_names.PAST_ROWS: len(source), tensor_names.PAST_LENGTH: 0}
        self.past: list[Tensor] = [state.zeros(sizes, source.device) for state in graphs.past]
        self.rows_per_sentence = 1

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """Return what the encoder graph should output: the states of the traced model."""
        with torch.inference_mode():
            cross = self.graphs.traced.encoder(self.source, self.source_mask)
        return {state.name: states.cpu().numpy() for state, states in zip(self.graphs.cross, cross, strict=True)}

    @torch.inference_mode()
    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        new, chosen = (torch.as_tensor(array, device=self.source_mask.device) for array in (tokens, rows))
        self._keep_sentences(chosen[:, 0] // self.rows_per_sentence)
        logits, *self.past = self.decoder(new, chosen, self.source_mask, self.cross, self.past)
        self.rows_per_sentence = rows.shape[1]
        return StepOutput(logits.float().cpu().numpy())

    def _keep_sentences(self, kept: Tensor) -> None:
        if len(kept) < len(self.source_mask):
            self.source_mask = self.source_mask[kept]
            self.cross = [states[kept] for states in self.cross]


def translate_with_torch(original: SourceModel, texts: Sequence[str], *, num_beams: int) -> list[str]:
    """Return the best translation of each text."""
    tokenizer = original.tokenizer()
    engine = TorchEngine(original.graphs, pad=original.tokens.pad)
    options = replace(original.generation, num_beams=num_beams)
    found = decode(engine, tokenizer.encode(texts), options)
    return tokenizer.decode([hypotheses[0].tokens for hypotheses in found])
