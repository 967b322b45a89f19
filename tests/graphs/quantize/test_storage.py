from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import constant, finish, given, run

from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.storage import (
    TOLERANCE,
    find_sinusoidal_table,
    round_channels,
    round_rows,
    round_up_to_bfloat16,
)

RANDOM = np.random.default_rng(0)


def sinusoids(positions: int, width: int, *, interleaved: bool, first: int = 0, longest: float = 10_000) -> np.ndarray:
    frequencies = longest ** -(np.arange(0, width, 2) / width)
    angles = (first + np.arange(positions))[:, None] * frequencies
    both = np.stack([np.sin(angles), np.cos(angles)], axis=2 if interleaved else 1)
    return both.reshape(positions, width).astype(np.float32)


def sliced(table: np.ndarray) -> ir.Model:
    """Slice the first rows, as position tables are used: end (1,) -> rows (end, D)."""
    tape, end = ir.tape.Tape(), given("end", [1], ir.DataType.INT64)
    start = constant(tape, "start", np.array([0]))
    rows = tape.op("Slice", [constant(tape, "positions", table), start, end])
    return finish(tape, [end], {"rows": rows})


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("positions", "first", "longest"), [(64, 0, 1e4), (5000, 0, 1e4), (300, 2, 1e4), (128, 1, 1e3)]
)
def test_a_sinusoidal_table_is_computed_instead_of_stored(
    tmp_path: Path, interleaved, positions, first, longest
) -> None:
    table = sinusoids(positions, 48, interleaved=interleaved, first=first, longest=longest)
    model = sliced(table)
    quantize([model], plan_precision([model], "int8"), dialect="portable")
    (rows,) = run(model, tmp_path, {"end": np.array([positions])})
    np.testing.assert_allclose(rows, table, atol=TOLERANCE)  # of what counts as sinusoidal
    assert (tmp_path / "weights.bin").stat().st_size < 1000


@pytest.mark.parametrize("shape", [(64, 48), (64, 47), (2, 640)])
def test_a_learned_table_is_stored_in_8_bits(tmp_path: Path, shape: tuple[int, int]) -> None:
    table = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert find_sinusoidal_table(table) is None
    model = sliced(table)
    quantize([model], plan_precision([model], "int4"), dialect="ort")
    (rows,) = run(model, tmp_path, {"end": np.array([shape[0]])})
    largest = np.abs(table).max(axis=1, keepdims=True)
    assert (np.abs(rows - table) <= largest / 126 / 2).all()
    assert (tmp_path / "weights.bin").stat().st_size < 1.2 * table.size


def test_a_table_with_one_changed_row_is_not_sinusoidal() -> None:
    table = sinusoids(64, 48, interleaved=True)
    table[0] = 0  # as if padding had a position of its own
    assert find_sinusoidal_table(table) is None


@pytest.mark.parametrize("width", [1, 2, 3, 64, 257])
@pytest.mark.parametrize("distribution", ["normal", "uniform", "equal", "outlier", "zeros", "tiny"])
def test_no_pair_of_neighbours_can_saturate_16_bits(width: int, distribution: str) -> None:
    channels = {
        "normal": RANDOM.normal(size=(50, width)),
        "uniform": RANDOM.uniform(0.4, 0.5, size=(50, width)),  # one sign: the worst case for sums
        "equal": np.full((50, width), -3.0),
        "outlier": np.where(RANDOM.random((50, width)) < 0.02, 100.0, 0.1),
        "zeros": np.zeros((50, width)),
        "tiny": RANDOM.normal(size=(50, width)) * 1e-30,
    }[distribution].astype(np.float32)
    integers, _ = round_channels(channels, steps=127)
    wide = np.pad(integers.astype(np.int64), ((0, 0), (0, width % 2)))
    left, right = wide[:, 0::2], wide[:, 1::2]
    for a1, a2 in ((255, 255), (255, 0), (0, 255)):  # the sum is linear in both: its extremes are at the corners
        assert np.abs(a1 * left + a2 * right).max() <= 32767


@pytest.mark.parametrize("steps", [1, 127, 255])
def test_integers_times_scale_are_within_half_a_step_of_the_weights(steps: int) -> None:
    channels = RANDOM.normal(size=(20, 64)).astype(np.float32)
    channels[3] = 0
    integers, scale = round_channels(channels, steps=steps)
    assert integers.dtype == np.int8
    unit = scale[:, None] * steps
    assert (np.abs(integers * unit - channels) <= unit * 0.5001).all()


def test_rows_of_a_table_use_the_full_range() -> None:
    table = RANDOM.normal(size=(3, 5, 16)).astype(np.float32)
    integers, scale = round_rows(table)
    assert scale.shape == (3, 5, 1)
    assert (np.abs(integers).max(axis=-1) >= 126).all()  # 127 minus the rounding of the scale
    assert (np.abs(integers * scale - table) <= scale * 0.5001).all()


def test_scales_are_rounded_up_to_bfloat16() -> None:
    scale = np.float32(10.0) ** RANDOM.uniform(-30, 3, size=1000).astype(np.float32)
    up = round_up_to_bfloat16(scale)
    assert (up >= scale).all()
    assert (up <= scale * np.float32(1 + 1 / 127)).all()
    assert not (up.view(np.uint32) & 0xFFFF).any()
    np.testing.assert_array_equal(round_up_to_bfloat16(up), up)
