"""Conversion of graphs to float16: which nodes stay in float32, and how constants are converted."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import ShapeInferencePass
from small_graphs import constant, finish, given, operators, run, tied
from tolerances import FLOAT16, chain_rounding, sum_rounding

from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.fp16 import convert_to_fp16

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)
FP16 = ir.DataType.FLOAT16


def converted(tape: ir.tape.Tape, inputs: list[ir.Value], outputs: dict[str, ir.Value]) -> ir.Model:
    """Finish a graph, infer its types, and convert it to float16."""
    model = finish(tape, inputs, outputs)
    ShapeInferencePass()(model)
    convert_to_fp16(model)
    return model


def states(name: str = "past_keys.0") -> ir.Value:
    return given(name, ["rows", 4])


def test_states_are_float16_and_other_outputs_are_float32(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    doubled = tape.op("Add", [past, past])
    model = converted(tape, [past], {"present_keys.0": doubled, "logits": tape.op("Neg", [doubled])})
    dtypes = {value.name: value.dtype for value in (*model.graph.inputs, *model.graph.outputs)}
    assert dtypes == {"past_keys.0": FP16, "present_keys.0": FP16, "logits": ir.DataType.FLOAT}
    present, logits = run(model, tmp_path, {"past_keys.0": np.ones((1, 4), np.float16)})
    assert (present.dtype, logits.dtype) == (np.float16, np.float32)
    assert (logits == -2).all()


def test_squares_beyond_the_range_of_float16_stay_in_float32_up_to_the_root(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    squares = tape.op("Pow", [past, constant(tape, "two", np.float32(2))])
    mean = tape.op("ReduceMean", [squares, constant(tape, "last", np.array([-1]))], {"keepdims": 1})
    more = tape.op("Add", [mean, constant(tape, "epsilon", np.float32(1e-6))])
    scaled = tape.op("Div", [past, tape.op("Sqrt", [more])])
    model = converted(tape, [past], {"present_keys.0": scaled})
    assert operators(model) == ["Cast", "Pow", "ReduceMean", "Add", "Sqrt", "Cast", "Div"]
    assert model.graph.initializers["epsilon"].dtype == ir.DataType.FLOAT  # 1e-6 would lose precision
    [output] = run(model, tmp_path, {"past_keys.0": np.full((2, 4), 1000, np.float16)})
    np.testing.assert_array_equal(output, np.ones((2, 4), np.float16))


def test_a_mask_stays_finite_so_that_a_fully_masked_row_is_not_nan(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    mask = given("mask", ["rows", 4], ir.DataType.BOOL)
    lowest = constant(tape, "lowest", np.float32(np.finfo(np.float32).min))
    weights = tape.op("Softmax", [tape.op("Where", [mask, past, lowest])], {"axis": -1})
    model = converted(tape, [past, mask], {"attention": weights})
    assert operators(model) == ["Where", "Cast", "Softmax"]  # and its float32 output is not cast
    some = np.array([[True, False, True, False], [False] * 4])
    [output] = run(model, tmp_path, {"past_keys.0": np.zeros((2, 4), np.float16), "mask": some})
    np.testing.assert_array_equal(output, [[0.5, 0, 0.5, 0], [0.25] * 4])


def test_all_readers_of_a_value_share_one_cast() -> None:
    tape, past = ir.tape.Tape(), states()
    doubled = tape.op("Add", [past, past])
    sums = [tape.op("Softmax", [doubled], {"axis": axis}) for axis in (0, 1)]
    both = tape.op("Add", sums)
    model = converted(tape, [past], {"present_keys.0": tape.op("Mul", [both, doubled])})
    assert operators(model).count("Cast") == 3  # one to float32, and one back for each softmax


def test_a_constant_with_readers_of_both_types_stays_exact_for_float32() -> None:
    tape, past = ir.tape.Tape(), states()
    third = constant(tape, "third", np.full(4, 1 / 3, np.float32))
    powers = tape.op("Pow", [past, third])
    model = converted(tape, [past], {"present_keys.0": tape.op("Mul", [tape.op("Add", [past, third]), powers])})
    dtypes = {name: value.dtype for name, value in model.graph.initializers.items()}
    assert dtypes == {"third": FP16, "third.fp32": ir.DataType.FLOAT}


def test_values_created_in_the_graph_are_float16(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    ids = given("ids", ["rows", 4], ir.DataType.INT64)
    shape = tape.op("Shape", [past])
    filled = tape.op("ConstantOfShape", [shape], {"value": ir.tensor(np.array([1e9], np.float32))})
    total = tape.op("Add", [tape.op("Cast", [ids], {"to": 1}), tape.op("ConstantOfShape", [shape])])
    model = converted(tape, [past, ids], {"present_keys.0": tape.op("Min", [filled, total])})
    [output] = run(model, tmp_path, {"past_keys.0": np.zeros((1, 4), np.float16), "ids": np.full((1, 4), 70_000)})
    assert output.dtype == np.float16
    assert (output == 65504).all()


def test_a_tied_embedding_is_stored_once_in_half_the_size(tmp_path: Path) -> None:
    model, ids = tied(TABLE), np.array([1, 2, 99])
    ShapeInferencePass()(model)
    quantize([model], plan_precision([model], "fp16-compute"), dialect="portable")
    rows, scores = run(model, tmp_path, {"ids": ids})
    np.testing.assert_array_equal(rows, TABLE[ids].astype(np.float16).astype(np.float32))
    factors = sum_rounding(1, (np.abs(TABLE[ids]) @ np.abs(TABLE.T)).max(), FLOAT16)  # half of it for each
    sums = chain_rounding(TABLE.shape[1], np.abs(scores).max(), FLOAT16)  # if a CPU adds in float16
    np.testing.assert_allclose(scores, TABLE[ids] @ TABLE.T, atol=factors + sums)
    assert (tmp_path / "weights.bin").stat().st_size == TABLE.nbytes / 2


def test_the_ort_dialect_is_refused() -> None:
    with pytest.raises(UsageError, match="--dialect portable"):
        quantize([tied(TABLE)], {"tokens.weight": "fp16-compute"}, dialect="ort")
