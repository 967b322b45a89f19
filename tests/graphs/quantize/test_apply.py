from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import constant, finish, given, linear, run, tied

from seq2edge.bundle.bundle import Precision
from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.apply import plan_precision, quantize, weight_names

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)


def graphs() -> list[ir.Model]:
    return [tied(TABLE), linear("MatMul", TABLE[:32], TABLE[0, :32])]


def test_parts_are_the_large_weights_of_all_graphs_each_once() -> None:
    assert weight_names([*graphs(), tied(TABLE)]) == ["tokens.weight", "linear.weight"]


def test_small_weights_and_biases_are_no_parts() -> None:
    assert weight_names([linear("Gemm", TABLE[:2, :8], np.zeros(2, np.float32))]) == []


@pytest.mark.parametrize(
    ("precision", "higher"),
    [("int4", "int8"), ("int8", "fp16"), ("int8-blocks", "fp16"), ("fp16", "fp32"), ("fp32", "fp32")],
)
def test_what_a_pattern_keeps_gets_the_next_higher_precision(precision: Precision, higher: Precision) -> None:
    assert plan_precision(graphs(), precision) == {"tokens.weight": precision, "linear.weight": precision}
    kept = plan_precision(graphs(), precision, keep=["lin*"])
    assert kept == {"tokens.weight": precision, "linear.weight": higher}


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no weight matches 'decoder\.\*'; there are tokens\.weight, linear\.weight"):
        plan_precision(graphs(), "int8", keep=["lin*", "decoder.*"])


def test_each_part_becomes_what_the_plan_says() -> None:
    models = graphs()
    quantize(models, {"tokens.weight": "fp32", "linear.weight": "int8"}, dialect="ort")
    weights = [
        models[0].graph.initializers["tokens.weight"].const_value,
        models[1].graph.initializers["linear.weight"].const_value,
    ]
    assert [weight.dtype for weight in weights] == [ir.DataType.FLOAT, ir.DataType.INT8]


def test_halves_are_widened_when_the_graph_is_loaded(tmp_path: Path) -> None:
    model, ids = tied(TABLE), np.array([1, 2, 99])
    quantize([model], plan_precision([model], "fp16"), dialect="portable")
    found, scores = run(model, tmp_path, {"ids": ids})
    np.testing.assert_array_equal(found, TABLE[ids].astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(scores, TABLE[ids] @ TABLE.T, atol=2e-2)
    assert (tmp_path / "weights.bin").stat().st_size == TABLE.nbytes / 2


def test_a_weight_that_is_read_in_two_ways_at_odds_is_only_stored_smaller(tmp_path: Path) -> None:
    """Looked up by rows and multiplied by columns: no scale serves both."""
    tape, ids = ir.tape.Tape(), given("ids", ["n"], ir.DataType.INT64)
    table = constant(tape, "square", TABLE[:64])
    product = tape.op("MatMul", [tape.op("Gather", [table, ids]), table])
    model = finish(tape, [ids], {"y": product})
    quantize([model], plan_precision([model], "int8"), dialect="ort")
    (found,) = run(model, tmp_path, {"ids": np.arange(5)})
    exact = TABLE[:5] @ TABLE[:64]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
    assert (tmp_path / "weights.bin").stat().st_size < 1.2 * 64 * 64
