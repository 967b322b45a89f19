from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import FORMS, finish, given, linear, load, operators, run, tied

from seq2edge.bundle.bundle import Dialect
from seq2edge_graphs.bundle_writer import load_with_weights, save_sharing_weights
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.int8 import FEW_ROWS

RANDOM = np.random.default_rng(0)
CHANNELS = RANDOM.normal(size=(32, 64)).astype(np.float32)  # (N, K)
BIAS = RANDOM.normal(size=32).astype(np.float32)
ROWS = (RANDOM.normal(size=(9, 64)) * 10.0 ** RANDOM.uniform(-4, 4, size=(9, 1))).astype(np.float32)
# Weights and activations have an error of at most half of 1/127 of the largest, on average half of that; over 64 terms
# the errors mostly cancel.
ERROR = 0.02


def to_int8(model: ir.Model, dialect: Dialect = "ort", **ranges: float) -> ir.Model:
    quantize([model], plan_precision([model], "int8"), dialect=dialect, ranges=ranges)
    return model


EVEN = RANDOM.normal(size=(9, 64)).astype(np.float32)  # rows of the same magnitude


def even_range() -> dict[str, float]:
    return {"linear.weight": float(np.abs(EVEN).max())}


def relative_error(actual: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error of a row, relative to its largest element."""
    return float((np.abs(actual - exact).max(axis=-1) / np.abs(exact).max(axis=-1)).max())


@pytest.mark.parametrize("dialect", ["ort", "portable"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_product_computes_with_integers(tmp_path: Path, form: str, dialect: Dialect) -> None:
    model = to_int8(linear(form, CHANNELS, BIAS), dialect)
    assert not {"MatMul", "Gemm"} & set(operators(model))
    assert model.graph.initializers["linear.weight"].const_value.dtype == ir.DataType.INT8
    assert all(not node.domain for node in model.graph) or dialect == "ort"
    (output,) = run(model, tmp_path, {"x": ROWS})
    assert 0 < relative_error(output - BIAS, ROWS @ CHANNELS.T) < ERROR


@pytest.mark.parametrize("form", FORMS)
def test_a_row_does_not_depend_on_the_others(tmp_path: Path, form: str) -> None:
    session = load(to_int8(linear(form, CHANNELS, BIAS)), tmp_path)
    (together,) = session.run(None, {"x": ROWS})
    for number, row in enumerate(ROWS):
        (alone,) = session.run(None, {"x": row[None]})
        np.testing.assert_array_equal(alone[0], together[number])


def test_a_row_of_zeros_gives_the_bias(tmp_path: Path) -> None:
    rows = np.concatenate([ROWS, np.zeros((2, 64), np.float32)])
    for relu in (False, True):
        (output,) = run(to_int8(linear("MatMul", CHANNELS, BIAS, relu=relu)), tmp_path, {"x": rows})
        np.testing.assert_array_equal(output[-2:], [BIAS, BIAS])
        assert np.isfinite(output).all()


def test_the_output_of_a_relu_is_rounded_twice_as_finely(tmp_path: Path) -> None:
    rows, exact = np.maximum(ROWS, 0), np.maximum(ROWS, 0) @ CHANNELS.T
    (fine,) = run(to_int8(linear("MatMul", CHANNELS, BIAS * 0, relu=True)), tmp_path, {"x": ROWS})
    (plain,) = run(to_int8(linear("MatMul", CHANNELS, BIAS * 0)), tmp_path, {"x": rows})
    errors = [np.abs(output - exact).mean() for output in (fine, plain)]
    assert errors[0] < errors[1]


def test_products_of_the_same_rows_share_their_rounding(tmp_path: Path) -> None:
    tape, x = ir.tape.Tape(), given("x", ["batch", "length", 64])
    keys = tape.op("MatMul", [x, tape.initializer(ir.tensor(CHANNELS.T.copy(), name="key.weight"))])
    values = tape.op("MatMul", [x, tape.initializer(ir.tensor(-CHANNELS.T.copy(), name="value.weight"))])
    model = to_int8(finish(tape, [x], {"keys": keys, "values": values}))
    assert operators(model).count("QuantizeLinear") == 1
    outputs = run(model, tmp_path, {"x": ROWS.reshape(3, 3, 64)})
    assert relative_error(outputs[0], ROWS.reshape(3, 3, 64) @ CHANNELS.T) < ERROR
    np.testing.assert_array_equal(outputs[0], -outputs[1])  # integers, times the same scales


def test_a_tied_embedding_is_one_tensor_for_lookup_and_output(tmp_path: Path) -> None:
    table, ids = RANDOM.normal(size=(100, 64)).astype(np.float32), np.array([3, 99, 0, 3])
    model = to_int8(tied(table))
    rows, scores = run(model, tmp_path, {"ids": ids})
    assert (
        relative_error(rows, table[ids]) < 0.5 / 64
    )  # half of at least 64 steps, which is what the bound on pairs leaves
    assert relative_error(scores, table[ids] @ table.T) < ERROR
    scales = 2 * len(table)
    assert (tmp_path / "weights.bin").stat().st_size <= table.size + scales + 64  # alignment


def test_a_lookup_shares_its_bytes_with_a_graph_that_also_multiplies(tmp_path: Path) -> None:
    table, ids = RANDOM.normal(size=(100, 64)).astype(np.float32), given("ids", ["n"], ir.DataType.INT64)
    tape = ir.tape.Tape()
    rows = tape.op("Gather", [tape.initializer(ir.tensor(table, name="tokens.weight")), ids])
    graphs = [tied(table), finish(tape, [ids], {"rows": rows})]
    quantize(graphs, plan_precision(graphs, "int8"), dialect="ort")
    paths = (tmp_path / "a.onnx", tmp_path / "b.onnx")
    save_sharing_weights(dict(zip(paths, graphs, strict=True)), tmp_path / "weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size <= table.size + 2 * len(table) + 64


def test_graphs_with_memory_mapped_weights_can_be_quantized(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    save_sharing_weights(
        {tmp_path / "full" / "graph.onnx": linear("Gemm", CHANNELS, BIAS)}, tmp_path / "full" / "w.bin"
    )
    (mapped,) = run(to_int8(load_with_weights(tmp_path / "full" / "graph.onnx")), tmp_path, {"x": ROWS})
    (in_memory,) = run(to_int8(linear("Gemm", CHANNELS, BIAS)), tmp_path, {"x": ROWS})
    np.testing.assert_array_equal(mapped, in_memory)


def test_a_product_of_two_activations_is_not_quantized() -> None:
    tape, x = ir.tape.Tape(), given("x", ["rows", 64])
    model = to_int8(finish(tape, [x], {"y": tape.op("MatMul", [x, tape.op("Transpose", [x], {"perm": [1, 0]})])}))
    assert operators(model) == ["Transpose", "MatMul"]


@pytest.mark.parametrize("dialect", ["ort", "portable"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relu", [False, True])
def test_one_scale_for_all_rows(tmp_path: Path, form: str, dialect: Dialect, relu: bool) -> None:
    model = to_int8(linear(form, CHANNELS, BIAS, relu=relu), dialect, **even_range())
    assert not {"ReduceMax", "Abs", "Relu"} & set(operators(model))
    (output,) = run(model, tmp_path, {"x": EVEN})
    exact = (np.maximum(EVEN, 0) if relu else EVEN) @ CHANNELS.T
    assert 0 < relative_error(output - BIAS, exact) < ERROR


def test_with_one_scale_a_row_does_not_depend_on_the_others(tmp_path: Path) -> None:
    session = load(to_int8(linear("MatMul", CHANNELS, BIAS), **even_range()), tmp_path)
    (together,) = session.run(None, {"x": EVEN})
    for number, row in enumerate(EVEN):
        (alone,) = session.run(None, {"x": row[None]})
        np.testing.assert_array_equal(alone[0], together[number])


@pytest.mark.parametrize("form", FORMS)
def test_few_rows_of_an_output_have_the_same_bits_as_many(tmp_path: Path, form: str) -> None:
    """Their scales are multiplied by another kernel."""
    session = load(to_int8(linear(form, CHANNELS, BIAS), **even_range()), tmp_path)
    rows = RANDOM.normal(size=(FEW_ROWS + 1, 64)).astype(np.float32)
    (many,) = session.run(None, {"x": rows})
    (few,) = session.run(None, {"x": rows[:FEW_ROWS]})
    np.testing.assert_array_equal(few, many[:FEW_ROWS])


def test_beyond_the_range_values_are_cut_off(tmp_path: Path) -> None:
    session = load(to_int8(linear("MatMul", CHANNELS, BIAS), **even_range()), tmp_path)
    ends = np.float32(even_range()["linear.weight"]) * np.sign(EVEN)
    np.testing.assert_array_equal(*(session.run(None, {"x": rows})[0] for rows in (10 * ends, 2 * ends)))
