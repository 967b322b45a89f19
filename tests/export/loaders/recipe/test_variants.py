"""Export variants of the tutorial's model with a recipe, and compare logits."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tolerances import network_rounding
from torch import Tensor, nn
from tutorial_model import TEXTS, Seq2SeqTransformer, save_with_recipe, seeded_model

from seq2edge import Translator
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint

SOURCE, TARGET = torch.tensor([[2, 5, 9, 4, 7, 3]]), torch.tensor([[2, 5, 9, 4]])
Changes = dict[str, str]


class LearnedPositions(nn.Module):
    """Return a model whose position table has unused first rows, as in BART."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(34, 16)

    def forward(self, states: Tensor) -> Tensor:
        return states + self.table.weight[2 : 2 + len(states), None]


def without_bias() -> tuple[Seq2SeqTransformer, Changes]:
    return seeded_model(bias=False), {"bias = false": "bias = false"}


def with_learned_positions() -> tuple[Seq2SeqTransformer, Changes]:
    model = seeded_model()
    model.positional_encoding = LearnedPositions()
    return model, {"offset = 0": "offset = 2", "max_positions = 34": "max_positions = 32"}


def without_positions() -> tuple[Seq2SeqTransformer, Changes]:
    model = seeded_model()
    model.positional_encoding = nn.Identity()
    return model, {'[positions]\nkind = "?"': '[positions]\nkind = "none"', "max_positions = 512": "max_positions = 60"}


def with_computed_positions() -> tuple[Seq2SeqTransformer, Changes]:
    model = seeded_model()
    table = model.positional_encoding.pos_embedding
    model.positional_encoding.register_buffer("pos_embedding", table, persistent=False)
    changes = {'[positions]\nkind = "?"': '[positions]\nkind = "sinusoidal"'}
    return model, changes | {"max_positions = 512": "max_positions = 60"}


def with_another_scale_epsilon_and_activation() -> tuple[Seq2SeqTransformer, Changes]:
    model = seeded_model()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-2
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.activation = nn.functional.gelu
            module.activation_relu_or_gelu = 0  # the fast path would not look at the new activation
    model.src_tok_emb.width = model.tgt_tok_emb.width = 1  # its root is the factor
    changes = {'embedding_scale = "sqrt"': "embedding_scale = 1", "norm_epsilon = 1e-05": "norm_epsilon = 1e-2"}
    return model, changes | {'activation = "relu"': 'activation = "gelu"'}


def with_tied_output() -> tuple[Seq2SeqTransformer, Changes]:
    model = seeded_model()
    model.generator.weight = model.tgt_tok_emb.embedding.weight
    return model, {}


MAKERS = [
    without_bias,
    with_learned_positions,
    without_positions,
    with_computed_positions,
    with_another_scale_epsilon_and_activation,
    with_tied_output,
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@torch.inference_mode()
def test_a_variant_keeps_its_logits(make: Callable[[], tuple[Seq2SeqTransformer, Changes]], tmp_path: Path) -> None:
    model, changes = make()
    loaded = load_checkpoint(save_with_recipe(tmp_path, model, changes).recipe).model
    limit = network_rounding(loaded.architecture, size=10)
    torch.testing.assert_close(loaded(SOURCE, SOURCE > -1, TARGET), model.logits(SOURCE, TARGET), atol=limit, rtol=0)


def test_a_tied_output_is_stored_once(tmp_path: Path) -> None:
    shape = load_checkpoint(save_with_recipe(tmp_path, with_tied_output()[0]).recipe).config.architecture
    assert shape.tied_output
    assert not shape.joint_vocabulary
    assert shape.output_bias


@torch.inference_mode()
def test_a_model_without_positions_exports(tmp_path: Path) -> None:
    model, changes = without_positions()
    export_bundle(save_with_recipe(tmp_path, model, changes).recipe, tmp_path / "bundle", compare=False)
    translator = Translator(tmp_path / "bundle", threads=1)
    expected = [model.greedy(source, max_len=20) for source in translator.tokenizer.encode(TEXTS)]
    assert [list(result.tokens) for result in translator.translate(TEXTS)] == expected
