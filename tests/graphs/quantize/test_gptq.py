import numpy as np
import pytest

from seq2edge_graphs.quantize.gptq import DIVISORS, int4_block_size, round_int4_blocks

RANDOM = np.random.default_rng(0)
CHANNELS = RANDOM.normal(size=(40, 128)).astype(np.float32)


def test_the_block_size_divides_the_channel() -> None:
    assert [int4_block_size(inner) for inner in (64, 48, 40)] == [32, 16, None]


@pytest.mark.parametrize("width", [32, 48, 128])
def test_every_weight_is_close_or_clipped(width: int) -> None:
    channels = CHANNELS[:, :width]
    blocks = round_int4_blocks(channels)
    assert blocks.integers.max() <= 15
    size = blocks.integers.shape[2]
    largest = np.abs(channels.reshape(40, -1, size)).max(axis=2)
    steps = np.repeat(largest / DIVISORS[0], size, axis=1)  # the largest possible step
    clipped = np.abs(channels) > 7 * np.repeat(np.abs(blocks.scales * blocks.units[:, None]), size, axis=1)
    assert (np.abs(blocks.dequantized() - channels) <= 0.52 * steps)[~clipped].all()
    assert clipped.mean() < 0.1


def test_the_best_scales_beat_representing_the_largest_weight_exactly() -> None:
    blocks = CHANNELS.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 7
    plain = np.square(np.rint(blocks / scale) * scale - blocks).mean()
    assert np.square(round_int4_blocks(CHANNELS).dequantized() - CHANNELS).mean() < 0.8 * plain


def test_blocks_of_zeros_stay_zeros() -> None:
    channels = CHANNELS.copy()
    channels[:, 32:64] = 0
    channels[5] = 0
    rounded = round_int4_blocks(channels).dequantized()
    assert not rounded[:, 32:64].any()
    assert not rounded[5].any()


def test_a_byte_holds_two_integers_the_first_in_the_lower_half() -> None:
    blocks = round_int4_blocks(CHANNELS)
    packed = blocks.packed()
    assert packed.shape == (40, 4, 16)
    np.testing.assert_array_equal(packed & 15, blocks.integers[..., 0::2])
    np.testing.assert_array_equal(packed >> 4, blocks.integers[..., 1::2])


def test_a_gram_matrix_improves_the_products() -> None:
    """Rows that vary in few directions, as activations do."""
    rows = RANDOM.normal(size=(1000, 20)) @ RANDOM.normal(size=(20, 128)) + 0.1 * RANDOM.normal(size=(1000, 128))
    without, with_gram = (round_int4_blocks(CHANNELS, gram).dequantized() for gram in (None, rows.T @ rows / len(rows)))
    errors = [np.square(rows @ (rounded - CHANNELS).T).mean() for rounded in (without, with_gram)]
    assert errors[1] < 0.5 * errors[0]


def test_a_gram_matrix_without_correlations_changes_nothing() -> None:
    without, with_gram = (round_int4_blocks(CHANNELS, gram) for gram in (None, np.eye(128)))
    np.testing.assert_array_equal(without.integers, with_gram.integers)
    for gram in (
        np.zeros((128, 128)),
        np.diag(RANDOM.random(128) < 0.5).astype(np.float64),
    ):  # some columns are never used
        assert np.isfinite(round_int4_blocks(CHANNELS, gram).dequantized()).all()
