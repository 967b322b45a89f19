"""Folded weights give the same results."""

from dataclasses import replace

import pytest
import torch
from tiny_checkpoint import TINY
from tolerances import FLOAT64, network_rounding
from torch import nn

from seq2edge_export.model.layers import MultiHeadAttention
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.model.weight_folding import fold_weights

LOGITS = network_rounding(TINY, size=10, epsilon=FLOAT64)


def seeded(**changes: object) -> Transformer:
    """Return a model whose biases are not zero."""
    model = Transformer(replace(TINY, **changes), seed=1).double().eval()
    random = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, generator=random)
    return model


@pytest.mark.parametrize("changes", [{}, {"norm_first": False}, {"bias": False}, {"attention_scale": 0.3}])
@torch.no_grad()
def test_a_folded_model_gives_the_same_logits(changes: dict[str, object]) -> None:
    model = seeded(**changes)
    source, target = torch.randint(4, 300, (2, 7)), torch.randint(4, 300, (2, 5))
    mask = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    torch.testing.assert_close(
        fold_weights(model)(source, mask, target), model(source, mask, target), rtol=0, atol=LOGITS
    )


def test_the_source_model_keeps_its_weights_and_shares_unchanged_ones() -> None:
    model = seeded()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    copy = fold_weights(model)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, before[name])
    assert copy.output.weight is model.output.weight
    assert copy.get_parameter("encoder.0.attention.key.weight") is model.get_parameter("encoder.0.attention.key.weight")
    attentions = [module for module in copy.modules() if isinstance(module, MultiHeadAttention)]
    assert all(one.key.bias is None and one.value.bias is None and one.scale == 1 for one in attentions)


@torch.no_grad()
def test_the_packed_projection_concatenates_queries_keys_and_values() -> None:
    attention = fold_weights(seeded()).decoder[0].attention
    states = torch.randn(2, 3, TINY.width, dtype=torch.float64)
    apart = torch.cat([part(states) for part in (attention.query, attention.key, attention.value)], dim=2)
    torch.testing.assert_close(attention.packed(states), apart, rtol=0, atol=LOGITS)
    assert attention.query.weight.untyped_storage().data_ptr() == attention.packed.weight.untyped_storage().data_ptr()
