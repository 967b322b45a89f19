from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import constant, finish, given, run

from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.storage import find_sinusoidal_table


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
    np.testing.assert_allclose(rows, table, atol=1e-5)
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
