"""Graphs that compute in float16: what stays in float32, and what every number becomes."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import ShapeInferencePass
from small_graphs import constant, finish, given, operators, run, tied

from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.fp16 import convert_to_fp16

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)
HALF = ir.DataType.FLOAT16


def made(tape: ir.tape.Tape, inputs: list[ir.Value], outputs: dict[str, ir.Value]) -> ir.Model:
    """A graph in float16 of one whose types are known."""
    model = finish(tape, inputs, outputs)
    ShapeInferencePass()(model)
    convert_to_fp16(model)
    return model


def states(name: str = "past_keys.0") -> ir.Value:
    return given(name, ["rows", 4])


def test_states_are_halves_and_whatever_leaves_for_the_caller_is_not(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    doubled = tape.op("Add", [past, past])
    model = made(tape, [past], {"present_keys.0": doubled, "logits": tape.op("Neg", [doubled])})
    given_as = {value.name: value.dtype for value in (*model.graph.inputs, *model.graph.outputs)}
    assert given_as == {"past_keys.0": HALF, "present_keys.0": HALF, "logits": ir.DataType.FLOAT}
    present, logits = run(model, tmp_path, {"past_keys.0": np.ones((1, 4), np.float16)})
    assert (present.dtype, logits.dtype) == (np.float16, np.float32)
    assert (logits == -2).all()


def test_squares_that_no_half_can_hold_are_kept_until_the_root_is_taken(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    squares = tape.op("Pow", [past, constant(tape, "two", np.float32(2))])
    mean = tape.op("ReduceMean", [squares, constant(tape, "last", np.array([-1]))], {"keepdims": 1})
    more = tape.op("Add", [mean, constant(tape, "epsilon", np.float32(1e-6))])
    scaled = tape.op("Div", [past, tape.op("Sqrt", [more])])
    model = made(tape, [past], {"present_keys.0": scaled})
    assert operators(model) == ["Cast", "Pow", "ReduceMean", "Add", "Sqrt", "Cast", "Div"]
    assert model.graph.initializers["epsilon"].dtype == ir.DataType.FLOAT  # 1e-6 would lose its digits
    [found] = run(model, tmp_path, {"past_keys.0": np.full((2, 4), 1000, np.float16)})
    np.testing.assert_array_equal(found, np.ones((2, 4), np.float16))


def test_what_hides_places_stays_finite_so_that_a_row_that_sees_nothing_is_no_nan(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    seen = given("seen", ["rows", 4], ir.DataType.BOOL)
    lowest = constant(tape, "lowest", np.float32(np.finfo(np.float32).min))
    weights = tape.op("Softmax", [tape.op("Where", [seen, past, lowest])], {"axis": -1})
    model = made(tape, [past, seen], {"attention": weights})
    assert operators(model) == ["Where", "Cast", "Softmax"]  # and its weights leave as they are
    some = np.array([[True, False, True, False], [False] * 4])
    [found] = run(model, tmp_path, {"past_keys.0": np.zeros((2, 4), np.float16), "seen": some})
    np.testing.assert_array_equal(found, [[0.5, 0, 0.5, 0], [0.25] * 4])


def test_all_that_read_a_value_in_the_other_type_share_one_cast() -> None:
    tape, past = ir.tape.Tape(), states()
    doubled = tape.op("Add", [past, past])
    sums = [tape.op("Softmax", [doubled], {"axis": axis}) for axis in (0, 1)]
    both = tape.op("Add", sums)
    model = made(tape, [past], {"present_keys.0": tape.op("Mul", [both, doubled])})
    assert operators(model).count("Cast") == 3  # one there, and one back for each softmax


def test_a_constant_that_both_read_keeps_its_digits_for_one() -> None:
    tape, past = ir.tape.Tape(), states()
    third = constant(tape, "third", np.full(4, 1 / 3, np.float32))
    powers = tape.op("Pow", [past, third])
    model = made(tape, [past], {"present_keys.0": tape.op("Mul", [tape.op("Add", [past, third]), powers])})
    kinds = {name: value.dtype for name, value in model.graph.initializers.items()}
    assert kinds == {"third": HALF, "third.fp32": ir.DataType.FLOAT}


def test_numbers_that_a_graph_makes_by_itself_are_halves_too(tmp_path: Path) -> None:
    tape, past = ir.tape.Tape(), states()
    ids = given("ids", ["rows", 4], ir.DataType.INT64)
    shape = tape.op("Shape", [past])
    filled = tape.op("ConstantOfShape", [shape], {"value": ir.tensor(np.array([1e9], np.float32))})
    total = tape.op("Add", [tape.op("Cast", [ids], {"to": 1}), tape.op("ConstantOfShape", [shape])])
    model = made(tape, [past, ids], {"present_keys.0": tape.op("Min", [filled, total])})
    [found] = run(model, tmp_path, {"past_keys.0": np.zeros((1, 4), np.float16), "ids": np.full((1, 4), 70_000)})
    assert found.dtype == np.float16
    assert (found == 65504).all()


def test_a_tied_embedding_is_one_table_of_half_the_size(tmp_path: Path) -> None:
    model, ids = tied(TABLE), np.array([1, 2, 99])
    ShapeInferencePass()(model)
    quantize([model], plan_precision([model], "fp16-compute"), dialect="portable")
    found, scores = run(model, tmp_path, {"ids": ids})
    np.testing.assert_array_equal(found, TABLE[ids].astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(scores, TABLE[ids] @ TABLE.T, atol=0.1)
    assert (tmp_path / "weights.bin").stat().st_size == TABLE.nbytes / 2


def test_onnxruntimes_operators_for_a_cpu_are_left_alone() -> None:
    with pytest.raises(UsageError, match="--dialect portable"):
        quantize([tied(TABLE)], {"tokens.weight": "fp16-compute"}, dialect="ort")
