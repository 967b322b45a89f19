from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import FORMS, finish, given, linear, load, operators, run, tied
from tolerances import sum_rounding

from seq2edge.errors import UsageError
from seq2edge_graphs.bundle_writer import save_sharing_weights
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.gptq import Grams, round_int4_blocks

RANDOM = np.random.default_rng(0)
CHANNELS = RANDOM.normal(size=(32, 96)).astype(np.float32)  # (N, K)
BIAS = RANDOM.normal(size=32).astype(np.float32)
ROWS = (RANDOM.normal(size=(9, 96)) * 10.0 ** RANDOM.uniform(-4, 4, size=(9, 1))).astype(np.float32)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)
ACTIVATIONS = 0.01  # error of a product of 96 terms with 8-bit activations, relative to the largest of its row


def to_int4(model: ir.Model) -> ir.Model:
    quantize([model], plan_precision([model], "int4"), dialect="ort")
    return model


def relative_error(actual: np.ndarray, exact: np.ndarray) -> float:
    return float((np.abs(actual - exact).max(axis=-1) / np.abs(exact).max(axis=-1)).max())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_product_computes_with_blocks(tmp_path: Path, form: str) -> None:
    model = to_int4(linear(form, CHANNELS, BIAS))
    assert operators(model).count("MatMulNBits") == 1
    assert not {"MatMul", "Gemm"} & set(operators(model))
    (output,) = run(model, tmp_path, {"x": ROWS})
    kept = round_int4_blocks(CHANNELS).dequantized()
    assert relative_error(output - BIAS, ROWS @ kept.T) < ACTIVATIONS
    assert 0 < relative_error(output - BIAS, ROWS @ CHANNELS.T) < 0.2


def test_a_row_does_not_depend_on_the_others(tmp_path: Path) -> None:
    session = load(to_int4(linear("MatMul", CHANNELS, BIAS)), tmp_path)
    (together,) = session.run(None, {"x": ROWS})
    for number, row in enumerate(ROWS):
        (alone,) = session.run(None, {"x": row[None]})
        limit = sum_rounding(CHANNELS.shape[1] + 1, np.abs(row).max() * np.abs(CHANNELS).sum(axis=1).max())
        np.testing.assert_allclose(alone[0], together[number], rtol=0, atol=limit)


def test_a_row_of_zeros_gives_the_bias(tmp_path: Path) -> None:
    (output,) = run(to_int4(linear("MatMul", CHANNELS, BIAS)), tmp_path, {"x": np.zeros((2, 96), np.float32)})
    np.testing.assert_array_equal(output, [BIAS, BIAS])


def test_a_tied_embedding_is_stored_once(tmp_path: Path) -> None:
    tape, ids = ir.tape.Tape(), given("ids", ["n"], ir.DataType.INT64)
    rows = tape.op("Gather", [tape.initializer(ir.tensor(TABLE, name="tokens.weight")), ids])
    graphs = [tied(TABLE), finish(tape, [ids], {"rows": rows})]
    quantize(
        graphs,
        plan_precision(graphs, "int4"),
        dialect="ort",
        grams=Grams({"tokens.weight": np.eye(64, dtype=np.float32)}),
    )
    paths = (tmp_path / "a.onnx", tmp_path / "b.onnx")
    save_sharing_weights(dict(zip(paths, graphs, strict=True)), tmp_path / "weights.bin")
    blocks, units = 2 * len(TABLE), 2 * len(TABLE)
    assert (tmp_path / "weights.bin").stat().st_size <= TABLE.size / 2 + blocks + units + 3 * 64  # alignment


def test_a_tied_embedding_has_the_same_values_in_lookup_and_output(tmp_path: Path) -> None:
    rows, scores = run(to_int4(tied(TABLE)), tmp_path, {"ids": np.arange(100)})
    kept = round_int4_blocks(TABLE).dequantized()
    np.testing.assert_allclose(rows, kept, rtol=sum_rounding(2, 1.0))  # a product of two factors
    assert relative_error(scores, kept @ kept.T) < ACTIVATIONS


def test_channels_that_no_block_size_divides_are_kept_in_8_bits(tmp_path: Path) -> None:
    model = to_int4(linear("MatMul", CHANNELS[:, :40], BIAS))
    assert "MatMulIntegerToFloat" in operators(model)
    (output,) = run(model, tmp_path, {"x": ROWS[:, :40]})
    assert relative_error(output - BIAS, ROWS[:, :40] @ CHANNELS[:, :40].T) < 0.02


def test_the_portable_dialect_does_not_support_4_bits() -> None:
    model = linear("MatMul", CHANNELS, BIAS)
    with pytest.raises(UsageError, match="--dialect ort"):
        quantize([model], plan_precision([model], "int4"), dialect="portable")
    assert operators(model) == ["MatMul", "Add"]
