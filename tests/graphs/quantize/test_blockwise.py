from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import FORMS, constant, finish, given, linear, load, operators, run, tied
from tolerances import sum_rounding

from seq2edge.bundle import tensor_names
from seq2edge.errors import UsageError
from seq2edge_graphs.bundle_writer import save_sharing_weights
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.blockwise import int8_block_size, round_int8_blocks

RANDOM = np.random.default_rng(0)
CHANNELS = RANDOM.normal(size=(32, 512)).astype(np.float32)  # (N, K)
BIAS = RANDOM.normal(size=32).astype(np.float32)
ROWS = (RANDOM.normal(size=(9, 512)) * 10.0 ** RANDOM.uniform(-4, 4, size=(9, 1))).astype(np.float32)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)
# Error of a product with 8-bit activations, relative to the largest of its row: a step is 1/40 of a standard deviation,
# so 0.7 % of a typical product and 0.3 % of the largest of 32; the worst of 9 x 32 is about 5 times as much.
ACTIVATIONS = 0.015


def to_int8_blocks(model: ir.Model) -> ir.Model:
    quantize([model], plan_precision([model], "int8-blocks"), dialect="ort")
    return model


def relative_error(actual: np.ndarray, exact: np.ndarray) -> float:
    return float((np.abs(actual - exact).max(axis=-1) / np.abs(exact).max(axis=-1)).max())


def dequantized(channels: np.ndarray) -> np.ndarray:
    packed, scales = round_int8_blocks(channels)
    return ((packed.astype(np.float32) - 128) * scales[..., None]).reshape(channels.shape)


@pytest.mark.parametrize(("inner", "size"), [(256, 256), (768, 256), (384, 128), (96, 32), (48, 16), (40, None)])
def test_the_block_size_is_the_largest_that_divides_the_channel(inner: int, size: int | None) -> None:
    assert int8_block_size(inner) == size


def test_every_weight_is_at_most_half_a_step_from_its_byte() -> None:
    _, scales = round_int8_blocks(CHANNELS)
    steps = np.repeat(scales, 256, axis=1)
    assert (np.abs(dequantized(CHANNELS) - CHANNELS) <= 0.5001 * steps).all()


def test_a_block_of_zeros_stays_zero() -> None:
    assert not dequantized(np.zeros((3, 256), np.float32)).any()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_product_computes_with_blocks(tmp_path: Path, form: str) -> None:
    model = to_int8_blocks(linear(form, CHANNELS, BIAS))
    assert operators(model).count("MatMulNBits") == 1
    assert not {"MatMul", "Gemm"} & set(operators(model))
    (output,) = run(model, tmp_path, {"x": ROWS})
    assert relative_error(output - BIAS, ROWS @ dequantized(CHANNELS).T) < ACTIVATIONS
    assert 0 < relative_error(output - BIAS, ROWS @ CHANNELS.T) < 0.02


def test_the_largest_weights_and_activations_do_not_saturate(tmp_path: Path) -> None:
    """Every product of two bytes is at its maximum, and all have the same sign."""
    channels = np.ones((32, 512), np.float32) * np.where(np.arange(32) % 2, 1, -1)[:, None].astype(np.float32)
    (output,) = run(to_int8_blocks(linear("MatMul", channels, BIAS)), tmp_path, {"x": np.ones((4, 512), np.float32)})
    exact = np.ones((4, 512)) @ dequantized(channels).astype(np.float64).T
    np.testing.assert_allclose(output - BIAS, exact, rtol=sum_rounding(512, 1.0))  # of terms with the same sign


def test_a_row_does_not_depend_on_the_others(tmp_path: Path) -> None:
    session = load(to_int8_blocks(linear("MatMul", CHANNELS, BIAS)), tmp_path)
    (together,) = session.run(None, {"x": ROWS})
    for number, row in enumerate(ROWS):
        (alone,) = session.run(None, {"x": row[None]})
        limit = sum_rounding(CHANNELS.shape[1] + 1, np.abs(row).max() * np.abs(CHANNELS).sum(axis=1).max())
        np.testing.assert_allclose(alone[0], together[number], rtol=0, atol=limit)


def test_a_tied_embedding_has_the_same_values_in_lookup_and_output(tmp_path: Path) -> None:
    rows, scores = run(to_int8_blocks(tied(TABLE)), tmp_path, {"ids": np.arange(100)})
    np.testing.assert_allclose(rows, dequantized(TABLE), rtol=sum_rounding(2, 1.0))  # a product of two factors
    assert relative_error(scores, dequantized(TABLE) @ dequantized(TABLE).T) < ACTIVATIONS


def test_products_of_the_encoder_have_no_blocks_and_shared_weights_are_stored_once(tmp_path: Path) -> None:
    """The encoder looks up the embedding that the decoder both looks up and multiplies with."""
    tape, source = ir.tape.Tape(), given(tensor_names.SOURCE, ["n"], ir.DataType.INT64)
    rows = tape.op("Gather", [constant(tape, "tokens.weight", TABLE), source])
    product = tape.op("MatMul", [rows, constant(tape, "inner.weight", TABLE[:64])])
    graphs = [finish(tape, [source], {"product": product}), tied(TABLE)]
    plan = plan_precision(graphs, "int8-blocks")
    assert plan == {"tokens.weight": "int8-blocks", "inner.weight": "int8"}
    quantize(graphs, plan, dialect="ort")
    assert {"GatherBlockQuantized", "MatMulIntegerToFloat"} <= set(operators(graphs[0]))
    assert {"GatherBlockQuantized", "MatMulNBits"} <= set(operators(graphs[1]))
    paths = (tmp_path / "a.onnx", tmp_path / "b.onnx")
    save_sharing_weights(dict(zip(paths, graphs, strict=True)), tmp_path / "weights.bin")
    scales = 2 * (len(TABLE) + 64)
    assert (tmp_path / "weights.bin").stat().st_size <= TABLE.size + 64 * 64 + scales + 4 * 64  # alignment


def test_channels_that_no_block_size_divides_have_no_blocks(tmp_path: Path) -> None:
    model = to_int8_blocks(linear("MatMul", CHANNELS[:, :40], BIAS))
    assert "MatMulIntegerToFloat" in operators(model)
    (output,) = run(model, tmp_path, {"x": ROWS[:, :40]})
    assert relative_error(output - BIAS, ROWS[:, :40] @ CHANNELS[:, :40].T) < 0.02


def test_the_portable_dialect_does_not_support_blocks() -> None:
    model = linear("MatMul", CHANNELS, BIAS)
    with pytest.raises(UsageError, match="--dialect ort"):
        quantize([model], plan_precision([model], "int8-blocks"), dialect="portable")
    assert operators(model) == ["MatMul", "Add"]
