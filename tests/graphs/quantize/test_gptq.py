import numpy as np
import pytest

from seq2edge_graphs.quantize.gptq import DIVISORS, int4_block_size, round_int4_blocks

RANDOM = np.random.default_rng(0)
CHANNELS = RANDOM.normal(size=(40, 128)).astype(np.float32)


def test_blocks_are_as_long_as_the_channel_allows() -> None:
    assert [int4_block_size(inner) for inner in (64, 48, 40)] == [32, 16, None]


@pytest.mark.parametrize("width", [32, 48, 128])
def test_every_weight_is_near_or_clipped(width: int) -> None:
    channels = CHANNELS[:, :width]
    blocks = round_int4_blocks(channels)
    assert blocks.integers.max() <= 15
    size = blocks.integers.shape[2]
    largest = np.abs(channels.reshape(40, -1, size)).max(axis=2)
    steps = np.repeat(largest / DIVISORS[0], size, axis=1)  # the longest that a step can be
    clipped = np.abs(channels) > 7 * np.repeat(np.abs(blocks.scales * blocks.units[:, None]), size, axis=1)
    assert (np.abs(blocks.numbers() - channels) <= 0.52 * steps)[~clipped].all()
    assert clipped.mean() < 0.1


def test_rounding_with_the_best_scales_beats_keeping_the_largest() -> None:
    blocks = CHANNELS.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 7
    plain = np.square(np.rint(blocks / scale) * scale - blocks).mean()
    assert np.square(round_int4_blocks(CHANNELS).numbers() - CHANNELS).mean() < 0.8 * plain


def test_blocks_of_zeros_stay_zeros() -> None:
    channels = CHANNELS.copy()
    channels[:, 32:64] = 0
    channels[5] = 0
    numbers = round_int4_blocks(channels).numbers()
    assert not numbers[:, 32:64].any()
    assert not numbers[5].any()


def test_two_integers_are_in_a_byte_the_earlier_one_below() -> None:
    blocks = round_int4_blocks(CHANNELS)
    packed = blocks.packed()
    assert packed.shape == (40, 4, 16)
    np.testing.assert_array_equal(packed & 15, blocks.integers[..., 0::2])
    np.testing.assert_array_equal(packed >> 4, blocks.integers[..., 1::2])


def test_knowing_the_rows_makes_the_products_better() -> None:
    """Rows that vary in few directions, as activations do."""
    rows = RANDOM.normal(size=(1000, 20)) @ RANDOM.normal(size=(20, 128)) + 0.1 * RANDOM.normal(size=(1000, 128))
    blind, seeing = (round_int4_blocks(CHANNELS, gram).numbers() for gram in (None, rows.T @ rows / len(rows)))
    errors = [np.square(rows @ (numbers - CHANNELS).T).mean() for numbers in (blind, seeing)]
    assert errors[1] < 0.5 * errors[0]


def test_rows_that_say_nothing_change_nothing() -> None:
    blind, seeing = (round_int4_blocks(CHANNELS, gram) for gram in (None, np.eye(128)))
    np.testing.assert_array_equal(blind.integers, seeing.integers)
    for gram in (np.zeros((128, 128)), np.diag(RANDOM.random(128) < 0.5).astype(np.float64)):  # places never used
        assert np.isfinite(round_int4_blocks(CHANNELS, gram).numbers()).all()
