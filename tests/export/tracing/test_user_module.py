"""Export of user modules: a recurrent one, and the model of the PyTorch tutorial without a cache."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_checkpoint import TINY, write_checkpoint
from tolerances import log_probability_rounding, network_rounding, score_rounding
from torch import Tensor, nn
from user_modules import WIDTH, Recurrent, WithoutCache

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.errors import CheckpointError
from seq2edge.explain.explanation import explain
from seq2edge.scoring.scorer import forced_log_probabilities, open_scorer
from seq2edge_export import export_module
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.tracing.user_module import module_graphs

LOGITS = network_rounding(TINY, size=10)  # the modules have fewer layers


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
