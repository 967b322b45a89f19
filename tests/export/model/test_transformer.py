"""The Transformer compared with torch.nn.Transformer, with step-by-step decoding, and with its formulas."""

import dataclasses
import itertools
import math
from collections.abc import Callable

import pytest
import torch
from tolerances import FLOAT32, chain_rounding, network_rounding, sum_rounding
from torch import nn
from transformers.models.t5.modeling_t5 import T5Attention

from seq2edge.config.architecture import Architecture, count_parameters
from seq2edge_export.model.embedding import distance_buckets, sinusoids
from seq2edge_export.model.layers import ACTIVATIONS, KeysValues, MultiHeadAttention, Ssru
from seq2edge_export.model.transformer import Transformer, positions_of

TINY = Architecture(
    source_vocabulary=40,
    target_vocabulary=40,
    width=16,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
    feed_forward=24,
    max_positions=32,
)
ROUNDING = {"atol": network_rounding(TINY, size=4), "rtol": 0}  # the largest logits are about 4
SHAPES = [
    dataclasses.replace(
        TINY, norm_first=norm_first, final_norm=norm_first, positions=positions, activation=activation, gated=gated
    )
    for norm_first, (positions, activation, gated) in itertools.product(
        (True, False),
        (("sinusoidal", "relu", False), ("learned", "gelu", True), ("sinusoidal_halves", "silu", True)),
    )
]
SHAPES.append(
    dataclasses.replace(
        TINY, positions="none", tied_output=False, output_bias=True, embedding_scale=1.0, norm_epsilon=0.1
    )
)
SHAPES += [
    dataclasses.replace(TINY, norm_first=False, embedding_norm=True, zero_start=True, activation=activation)
    for activation in ("gelu_tanh", "gelu_sigmoid")
]
T5 = dataclasses.replace(  # few buckets, so that short sentences reach the last
    TINY, positions="relative", relative_buckets=8, relative_distance=6, norm="rms", norm_epsilon=1e-6, bias=False
)
T5 = dataclasses.replace(T5, attention_width=24, attention_scale=1.0, embedding_scale=1.0)
SHAPES += [
    dataclasses.replace(T5, output_scale=16**-0.5, decoder_layers=3),
    dataclasses.replace(T5, activation="gelu_tanh", gated=True, tied_output=False),
]
SSRU = dataclasses.replace(  # as Marian's students are
    TINY, decoder_cell="ssru", norm_first=False, final_norm=False, zero_start=True, positions="sinusoidal_stretched"
)
SHAPES += [
    SSRU,
    dataclasses.replace(TINY, decoder_cell="ssru", bias=False, positions="learned", decoder_layers=3, norm="rms"),
    dataclasses.replace(TINY, decoder_cell="ssru", positions="none", attention_width=24, activation="silu"),
]


def model_of(shape: Architecture, seed: int = 3) -> Transformer:
    """Return a model whose biases and norms are not the identity, so that a missing one is noticed."""
    model = Transformer(shape, seed=seed).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=random) * 0.1)
    return model


def sentences(count: int, length: int, *, seed: int = 5) -> torch.Tensor:
    return torch.randint(4, 40, (count, length), generator=torch.Generator().manual_seed(seed))


def padded_source() -> tuple[torch.Tensor, torch.Tensor]:
    source = sentences(3, 7)
    mask = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    return source * mask, mask


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.positions}-{s.activation}-first={s.norm_first}")
@pytest.mark.parametrize("prefix", [1, 2, 5])
def test_decoding_step_by_step_gives_the_logits_of_the_whole_prefix(shape: Architecture, prefix: int) -> None:
    model = model_of(shape)
    source, mask = padded_source()
    target = sentences(3, 8, seed=6)
    whole = model(source, mask, target)
    cross = model.encode(source, mask)
    first = model.decode(target[:, :prefix], cross, mask)
    logits, past = [model.output(first.states)], first.present
    for position in range(prefix, 8):
        step = model.decode(target[:, position : position + 1], cross, mask, past)
        logits.append(model.output(step.states))
        past = step.present
    torch.testing.assert_close(torch.cat(logits, dim=1), whole, **ROUNDING)


@pytest.mark.parametrize("shape", SHAPES[::2], ids=lambda s: f"{s.positions}-first={s.norm_first}")
def test_a_padded_sentence_gets_the_logits_it_gets_alone(shape: Architecture) -> None:
    model = model_of(shape)
    source, mask = padded_source()
    target = sentences(3, 6, seed=7)
    together = model(source, mask, target)
    for row, length in enumerate((7, 4, 1)):
        alone = model(source[row : row + 1, :length], mask[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, **ROUNDING)


def test_the_content_of_the_padding_does_not_matter() -> None:
    model = model_of(TINY)
    source, mask = padded_source()
    other = torch.where(mask, source, 39)
    target = sentences(3, 6)
    torch.testing.assert_close(model(source, mask, target), model(other, mask, target), rtol=0, atol=0)


def test_a_later_target_token_does_not_change_earlier_logits() -> None:
    model = model_of(TINY)
    source, mask = padded_source()
    target = sentences(3, 6)
    changed = target.clone()
    changed[:, 4:] = 4
    before = model(source, mask, target)[:, :4]
    torch.testing.assert_close(before, model(source, mask, changed)[:, :4], **ROUNDING)


def test_zero_start_ignores_the_first_target_token_only() -> None:
    source, mask = padded_source()
    target = sentences(3, 6)
    other_start = torch.cat([torch.full((3, 1), 5), target[:, 1:]], dim=1)
    other_second = torch.cat([target[:, :1], torch.full((3, 1), 5), target[:, 2:]], dim=1)
    zero, plain = (model_of(dataclasses.replace(TINY, zero_start=on)) for on in (True, False))
    assert torch.equal(zero(source, mask, target), zero(source, mask, other_start))
    assert not torch.equal(plain(source, mask, target), plain(source, mask, other_start))
    assert not torch.equal(zero(source, mask, target), zero(source, mask, other_second))
    with torch.no_grad():
        plain.target_embedding.tokens.weight[5].zero_()  # joint: also in the source, which has no 5
    assert not (source == 5).any()
    assert not (target[:, 1:] == 5).any()
    torch.testing.assert_close(
        zero(source, mask, target)[..., 6:], plain(source, mask, other_start)[..., 6:], **ROUNDING
    )


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        ("gelu_tanh", lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        ("gelu_sigmoid", lambda x: x / (1 + math.exp(-1.702 * x))),
        ("silu", lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_activations_are_their_formulas(name: str, formula: Callable[[float], float]) -> None:
    points = torch.linspace(-6, 6, 49)
    expected = torch.tensor([formula(float(point)) for point in points])
    # at most four roundings of values up to 6
    torch.testing.assert_close(ACTIVATIONS[name](points), expected, atol=sum_rounding(4, 6.0), rtol=0)


def test_the_beams_of_a_sentence_share_its_keys_and_values() -> None:
    model = model_of(TINY)
    source, mask = padded_source()
    target = sentences(6, 5)  # two rows a sentence
    cross = model.encode(source, mask)
    shared = model.decode(target, cross, mask)
    twice = [KeysValues(*(tensor.repeat_interleave(2, 0) for tensor in layer)) for layer in cross]
    repeated = model.decode(target, twice, mask.repeat_interleave(2, 0))
    torch.testing.assert_close(shared.states, repeated.states, **ROUNDING)


def test_attention_weights_are_a_distribution_over_the_unpadded_tokens() -> None:
    model = model_of(TINY)
    source, mask = padded_source()
    collected: list[torch.Tensor] = []
    model.decode(sentences(3, 5), model.encode(source, mask), mask, collected_weights=collected)
    assert len(collected) == TINY.decoder_layers
    for weights in collected:
        assert weights.shape == (3, 4, 5, 7)
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 4, 5))
        assert not weights.masked_select(~mask[:, None, None, :]).any()


def test_log_probabilities_agree_with_the_loss() -> None:
    model = model_of(TINY)
    source, mask = padded_source()
    target = sentences(3, 6)
    found = model.log_probabilities(source, mask, target)
    torch.testing.assert_close(found.exp().sum(dim=-1), torch.ones(3, 6))
    chosen = found.gather(2, target[:, :, None]).mean()
    loss = nn.functional.cross_entropy(model(source, mask, target).flatten(0, 1), target.flatten())
    torch.testing.assert_close(-chosen, loss, **ROUNDING)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(("activation", "final_norm"), [("relu", True), ("gelu", False)])
def test_it_matches_torch_nn_transformer(norm_first: bool, activation: str, final_norm: bool) -> None:
    options = {"norm_first": norm_first, "activation": activation, "final_norm": final_norm}
    model = model_of(dataclasses.replace(TINY, norm_epsilon=1e-5 if final_norm else 1e-2, **options))
    source, mask = padded_source()
    target = sentences(3, 6)
    peer = torch_transformer(model)
    states = peer(
        model.source_embedding(source, positions_of(source)),
        model.target_embedding(target, positions_of(target)),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(6).isinf(),
        src_key_padding_mask=~mask,
        memory_key_padding_mask=~mask,
    )
    torch.testing.assert_close(model(source, mask, target), model.output(states), **ROUNDING)


def torch_transformer(model: Transformer) -> nn.Module:
    """PyTorch's own Transformer with the same weights."""
    shape = model.architecture
    common = {"activation": shape.activation, "batch_first": True, "norm_first": shape.norm_first, "dropout": 0.0}
    common["layer_norm_eps"] = shape.norm_epsilon
    sizes = (shape.width, shape.heads, shape.feed_forward)
    norms = (nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)) if shape.final_norm else (None, None)
    encoder_layer, decoder_layer = (
        kind(*sizes, **common) for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    )
    encoder = nn.TransformerEncoder(encoder_layer, shape.encoder_layers, norms[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, shape.decoder_layers, norms[1])
    peer = nn.Transformer(*sizes[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for theirs, ours in zip(peer.encoder.layers, model.encoder, strict=True):
        copy_attention(theirs.self_attn, ours.attention)
        copy_pairs((theirs.norm1, ours.attention_residual.norm), (theirs.norm2, ours.feed_forward_residual.norm))
        copy_pairs((theirs.linear1, ours.feed_forward.inner), (theirs.linear2, ours.feed_forward.output))
    for theirs, ours in zip(peer.decoder.layers, model.decoder, strict=True):
        copy_attention(theirs.self_attn, ours.attention)
        copy_attention(theirs.multihead_attn, ours.cross)
        copy_pairs((theirs.norm1, ours.attention_residual.norm), (theirs.norm2, ours.cross_residual.norm))
        copy_pairs((theirs.norm3, ours.feed_forward_residual.norm))
        copy_pairs((theirs.linear1, ours.feed_forward.inner), (theirs.linear2, ours.feed_forward.output))
    if shape.final_norm:
        copy_pairs((peer.encoder.norm, model.encoder_norm), (peer.decoder.norm, model.decoder_norm))
    return peer.eval()


def copy_pairs(*pairs: tuple[nn.Module, nn.Module]) -> None:
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    copy_pairs((theirs.out_proj, ours.output))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.positions}-{s.activation}-first={s.norm_first}")
def test_count_parameters_matches_the_tensors(shape: Architecture, joint: bool, tied: bool) -> None:
    shape = dataclasses.replace(shape, joint_vocabulary=joint, tied_output=tied, source_vocabulary=40 if joint else 50)
    counted = sum(parameter.numel() for parameter in Transformer(shape).parameters())
    assert count_parameters(shape) == counted


def test_the_textbook_base_model_has_its_textbook_size() -> None:
    base = Architecture(
        source_vocabulary=37000,
        target_vocabulary=37000,
        width=512,
        heads=8,
        encoder_layers=6,
        decoder_layers=6,
        feed_forward=2048,
        norm_first=False,
        final_norm=False,
    )
    assert round(count_parameters(base) / 1e6) == 63  # "65 million" in the paper, which rounds generously


def test_the_same_seed_gives_the_same_model_and_another_seed_another() -> None:
    first, same, other = Transformer(TINY, seed=1), Transformer(TINY, seed=1), Transformer(TINY, seed=2)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, same.get_parameter(name))
    assert not torch.equal(first.output.weight, other.output.weight)


def test_positions_follow_the_paper() -> None:
    table = sinusoids(TINY).double()
    halves = sinusoids(dataclasses.replace(TINY, positions="sinusoidal_halves")).double()
    for position, wave in ((0, 0), (1, 0), (7, 3), (31, 7)):
        angle = torch.tensor(position / 10_000 ** (2 * wave / TINY.width), dtype=torch.float64)
        assert table[position, 2 * wave] == pytest.approx(float(angle.sin()), abs=FLOAT32)
        assert table[position, 2 * wave + 1] == pytest.approx(float(angle.cos()), abs=FLOAT32)
        assert halves[position, wave] == table[position, 2 * wave]
        assert halves[position, 8 + wave] == table[position, 2 * wave + 1]


@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 6), (4, 3), (33, 1000)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_distances_have_the_buckets_of_t5(buckets: int, farthest: int, bidirectional: bool) -> None:
    shape = dataclasses.replace(T5, relative_buckets=buckets, relative_distance=farthest)
    theirs = T5Attention._relative_position_bucket(torch.arange(-2000, 2001), bidirectional, buckets, farthest)
    table = distance_buckets(shape, bidirectional=bidirectional)
    ours = table[torch.arange(-2000, 2001).clamp(-farthest, farthest) + farthest]
    assert torch.equal(ours, theirs)


def test_relative_positions_depend_on_the_order_but_not_on_an_offset() -> None:
    model = model_of(T5)
    source, target = sentences(1, 7), sentences(1, 5)
    there = source > -1
    before = model(source, there, target)
    assert not torch.allclose(before, model(source.flip(1), there, target), atol=10 * ROUNDING["atol"])
    shifted = torch.cat([torch.zeros(1, 3, dtype=torch.long), source], dim=1)
    behind_padding = model(shifted, torch.arange(10)[None] > 2, target)
    torch.testing.assert_close(before, behind_padding, **ROUNDING)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_recurrent_cell_follows_its_definition_token_by_token(scale: float) -> None:
    random = torch.Generator().manual_seed(2)
    module = Ssru(SSRU).eval()
    states, cell = (torch.randn(*sizes, generator=random) * scale for sizes in ((3, 90, 16), (3, 16)))
    together, last = module(states, cell)
    limit = chain_rounding(16 + 90, 4 * scale)  # an inner product of 16, and a sum that 90 tokens add to
    for position in range(states.shape[1]):
        keep = torch.sigmoid(module.gate(states[:, position]))
        cell = keep * cell + (1 - keep) * module.input(states[:, position])
        torch.testing.assert_close(together[:, position], cell.clamp(min=0), rtol=0, atol=limit)
    torch.testing.assert_close(last, cell, rtol=0, atol=limit)


def test_a_recurrent_decoder_remembers_the_order_and_counts_the_tokens() -> None:
    model = model_of(SSRU)
    source, mask = padded_source()
    target = sentences(3, 6)
    decoded = model.decode(target, model.encode(source, mask), mask)
    assert [tuple(tensor.shape) for tensor in decoded.present] == [(3, 16), (3, 16), (3,)]
    assert decoded.present[-1].tolist() == [6, 6, 6]
    changed = target[:, [0, 2, 1, 3, 4, 5]]
    assert not torch.allclose(
        model(source, mask, target)[:, -1], model(source, mask, changed)[:, -1], atol=10 * ROUNDING["atol"]
    )


def test_stretched_sinusoids_end_with_the_longest_wavelength() -> None:
    table = sinusoids(SSRU).double()
    for position, wave in ((0, 0), (1, 0), (7, 3), (31, 7)):
        angle = torch.tensor(position / 10_000 ** (wave / 7), dtype=torch.float64)
        assert table[position, wave] == pytest.approx(float(angle.sin()), abs=FLOAT32)
        assert table[position, 8 + wave] == pytest.approx(float(angle.cos()), abs=FLOAT32)


def test_an_offset_shifts_the_position_table() -> None:
    later = sinusoids(dataclasses.replace(TINY, position_offset=2, max_positions=30))
    torch.testing.assert_close(later, sinusoids(TINY)[2:], rtol=0, atol=0)


def test_without_positions_the_order_of_the_source_does_not_matter() -> None:
    model = model_of(dataclasses.replace(TINY, positions="none"))
    source, target = sentences(1, 7), sentences(1, 5)
    there = source > -1
    torch.testing.assert_close(model(source, there, target), model(source.flip(1), there, target), **ROUNDING)


def test_embeddings_are_scaled_by_the_root_of_the_width_or_by_the_given_scale() -> None:
    for scale, factor in ((None, 4.0), (1.0, 1.0), (0.5, 0.5)):
        model = model_of(dataclasses.replace(TINY, positions="none", embedding_scale=scale))
        expected = model.source_embedding.tokens(sentences(2, 3)) * factor
        torch.testing.assert_close(model.source_embedding(sentences(2, 3), torch.arange(3)), expected)


def test_the_output_bias_is_added_to_the_logits() -> None:
    model = model_of(dataclasses.replace(TINY, output_bias=True))
    source, mask = padded_source()
    before = model(source, mask, sentences(3, 4))
    bias = model.output.bias.detach().clone()
    with torch.no_grad():
        model.output.bias.zero_()
    assert bias.any()
    torch.testing.assert_close(model(source, mask, sentences(3, 4)) + bias, before, **ROUNDING)


def test_dropout_applies_in_training_mode_only() -> None:
    model = Transformer(TINY, dropout=0.5)
    source, mask = padded_source()
    target = sentences(3, 6)
    model.train()
    assert not torch.equal(model(source, mask, target), model(source, mask, target))
    model.eval()
    assert torch.equal(model(source, mask, target), Transformer(TINY).eval()(source, mask, target))
