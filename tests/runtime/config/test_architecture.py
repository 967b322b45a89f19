"""Invalid architectures are refused, and costs match multiplications counted by hand."""

import dataclasses

import pytest

from seq2edge.config.architecture import Architecture, cache_bytes, cost_per_source_token, cost_per_target_token

SHAPE = Architecture(
    source_vocabulary=11,
    target_vocabulary=11,
    width=8,
    heads=2,
    encoder_layers=3,
    decoder_layers=2,
    feed_forward=20,
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "is not divisible by 3 heads"),
        ({"width": 0}, "width is 0"),
        ({"encoder_layers": 0}, "must be at least 1"),
        ({"source_vocabulary": 12}, "joint vocabulary"),
        ({"width": 7, "heads": 7}, "even width"),
        ({"positions": "learned", "position_offset": 2}, "position_offset is for sinusoidal positions"),
        ({"position_offset": -1}, "position_offset is -1"),
        ({"norm_epsilon": 0.0}, "norm_epsilon is 0.0"),
        ({"attention_width": 9}, "attention_width 9 is not divisible by 2 heads"),
        ({"attention_width": 0}, "attention_width is 0"),
        ({"positions": "relative", "relative_buckets": 3}, "at least 4 buckets"),
        ({"positions": "relative", "relative_distance": 16}, "distance above half their number"),
        ({"positions": "relative", "decoder_cell": "ssru"}, "decoder_cell is an SSRU"),
        ({"positions": "sinusoidal_stretched", "width": 2}, "width of at least 4"),
    ],
)
def test_an_invalid_architecture_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SHAPE, **change)


def test_a_multiplication_counts_as_two_operations() -> None:
    # per encoder layer: four 8x8 products, two 8x20 ones, and scores and mixing over 5 keys of width 8
    encoder = 3 * (4 * 64 + 2 * 160 + 2 * 5 * 8)
    assert cost_per_source_token(SHAPE, source_length=5) == 2 * (encoder + 2 * 2 * 64)
    # per decoder layer: self-attention as above over 7 keys, two products for cross-attention, feed-forward
    decoder = 2 * (4 * 64 + 2 * 7 * 8 + 2 * 64 + 2 * 5 * 8 + 2 * 160)
    assert cost_per_target_token(SHAPE, source_length=5, target_length=7) == 2 * (decoder + 8 * 11)


def test_a_gated_layer_costs_one_more_product() -> None:
    gated = dataclasses.replace(SHAPE, gated=True)
    more = cost_per_source_token(gated, source_length=5) - cost_per_source_token(SHAPE, source_length=5)
    assert more == 2 * 3 * 160


def test_the_cost_of_attention_depends_on_the_attention_width() -> None:
    wide = dataclasses.replace(SHAPE, attention_width=12)
    encoder = 3 * (4 * 8 * 12 + 2 * 160 + 2 * 5 * 12)
    assert cost_per_source_token(wide, source_length=5) == 2 * (encoder + 2 * 2 * 8 * 12)
    decoder = 2 * (4 * 8 * 12 + 2 * 7 * 12 + 2 * 8 * 12 + 2 * 5 * 12 + 2 * 160)
    assert cost_per_target_token(wide, source_length=5, target_length=7) == 2 * (decoder + 8 * 11)
    assert cache_bytes(wide, source_length=5, target_length=7) == 2 * 2 * (5 + 7) * 12 * 4


def test_the_cache_holds_keys_and_values_of_both_attentions() -> None:
    assert cache_bytes(SHAPE, source_length=5, target_length=7) == 2 * 2 * (5 + 7) * 8 * 4


def test_cost_and_cache_of_a_recurrent_decoder_do_not_depend_on_the_length() -> None:
    recurrent = dataclasses.replace(SHAPE, decoder_cell="ssru")
    # per decoder layer: input and gate of the cell, two products for cross-attention, feed-forward
    decoder = 2 * (2 * 64 + 2 * 64 + 2 * 5 * 8 + 2 * 160)
    for length in (7, 70):
        cost = cost_per_target_token(recurrent, source_length=5, target_length=length)
        assert cost == 2 * (decoder + 8 * 11)
        # keys and values of the source, a cell of width 8 per layer, and one count of 8 bytes
        assert cache_bytes(recurrent, source_length=5, target_length=length) == 2 * (2 * 5 * 8 + 8) * 4 + 8
