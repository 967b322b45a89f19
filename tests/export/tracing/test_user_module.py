"""Export of user modules: a recurrent one, and the model of the PyTorch tutorial without a cache."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_checkpoint import TINY, write_checkpoint
from tolerances import log_probability_rounding, network_rounding, score_rounding
from torch import Tensor, nn

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.errors import CheckpointError
from seq2edge.explain.explanation import explain
from seq2edge.scoring.scorer import forced_log_probabilities, open_scorer
from seq2edge_export import export_module
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.tracing.user_module import module_graphs

WIDTH, VOCABULARY = 24, TINY.target_vocabulary
LOGITS = network_rounding(TINY, size=10)  # the modules have fewer layers


class Recurrent(nn.Module):
    """A GRU with attention: one state that keeps its shape, and one that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.reader = nn.Linear(WIDTH, WIDTH)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return [self.reader(self.tokens(source)).tanh()]

    def empty_past(self, rows: int) -> list[Tensor]:
        return [torch.zeros(rows, WIDTH), torch.zeros(rows, 0, WIDTH)]

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        state, memory = past
        scores = (cross[0] @ state[:, :, None])[:, :, 0].masked_fill(~source_mask, -1e9)
        seen = (scores.softmax(dim=1)[:, :, None] * cross[0]).sum(dim=1)
        state = self.cell(torch.cat([self.tokens(target[:, -1]), seen], dim=1), state)
        memory = torch.cat([memory, state[:, None]], dim=1)
        return self.output(memory.mean(dim=1)), [state, memory]


class WithoutCache(nn.Module):
    """nn.Transformer as tutorials use it; the past is the tokens so far, and all of them run again."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 32, dropout=0.0, batch_first=True)
        self.transformer.encoder.use_nested_tensor = False  # a prototype of PyTorch that warns
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return [self.transformer.encoder(self.tokens(source), src_key_padding_mask=~source_mask)]

    def empty_past(self, rows: int) -> list[Tensor]:
        return [torch.zeros(rows, 0, dtype=torch.int64)]

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        tokens = torch.cat([past[0], target], dim=1)
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer.decoder(
            self.tokens(tokens), cross[0], later, tgt_is_causal=True, memory_key_padding_mask=~source_mask
        )
        return self.output(states), [tokens]


class TwoStates(Recurrent):
    """Declare two states and return three."""

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        logits, states = super().decode(target, source_mask, cross, past)
        return logits, [*states, states[0]]


@pytest.mark.parametrize("kind", [Recurrent, WithoutCache])
def test_a_module_becomes_a_bundle_with_the_same_output(kind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(3)
    folder = write_checkpoint(tmp_path / "checkpoint")
    like = load_checkpoint(folder)
    made = export_module(
        kind(),
        tmp_path / "bundle",
        tokens=like.config.tokens,
        tokenization=like.tokenization,
        tokenizer_folder=folder,
        generation=replace(like.generation, max_new_tokens=12),
        max_positions=64,
        languages=("en", "xx"),
    )
    parity = load_bundle(made.folder).manifest.parity
    assert parity is not None
    assert parity.greedy_equal == parity.beam_equal == 1.0
    assert parity.logit_difference < LOGITS
    assert made.manifest.family == "module"
    translator = Translator(made.folder, threads=1)
    (result,) = translator.translate(["nobody sells bread."], num_beams=1)
    assert open_scorer(made, translator.engine) is None  # such a module outputs no attention weights
    sources = translator.tokenizer.encode(["nobody sells bread."])
    (scores,) = forced_log_probabilities(
        translator.engine, sources, [result.tokens], start=like.generation.decoder_start_token_id
    )
    assert len(scores) == len(result.tokens) > 0
    assert scores.sum() == pytest.approx(result.score, abs=score_rounding(12, log_probability_rounding(LOGITS)))
    assert tensor_names.SCORER not in made.manifest.files
    explained = explain(translator, "nobody sells bread.", num_beams=1)
    assert explained.translation == result
    assert not explained.replay.attention
    assert explained.replay.missing[0].startswith("This bundle is a user module")
    assert explained.replay.cache.kind == "states"


def test_dynamic_axes_are_found_by_calling_the_module() -> None:
    graphs = module_graphs(Recurrent())
    assert [state.axes for state in graphs.cross] == [("batch", "source_length", WIDTH)]
    assert [state.axes for state in graphs.past] == [("past_rows", WIDTH), ("past_rows", "past_length", WIDTH)]


def test_a_module_with_mismatching_states_is_refused() -> None:
    with pytest.raises(CheckpointError, match="empty_past returns 2 states, but decode returns 3"):
        module_graphs(TwoStates())
