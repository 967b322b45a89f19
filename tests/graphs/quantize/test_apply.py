from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import constant, finish, given, linear, run, tied
from tolerances import FLOAT16, sum_rounding

from seq2edge.bundle.bundle import Precision
from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.apply import plan_precision, quantize, weight_names

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(100, 64)).astype(np.float32)


def graphs() -> list[ir.Model]:
    return [tied(TABLE), linear("MatMul", TABLE[:32], TABLE[0, :32])]


def test_the_large_weights_of_all_graphs_are_named_once() -> None:
    assert weight_names([*graphs(), tied(TABLE)]) == ["tokens.weight", "linear.weight"]


def test_small_weights_and_biases_are_not_quantized() -> None:
    assert weight_names([linear("Gemm", TABLE[:2, :8], np.zeros(2, np.float32))]) == []


@pytest.mark.parametrize(
    ("precision", "higher"),
    [("int4", "int8"), ("int8", "fp16"), ("fp16", "fp32"), ("fp32", "fp32")],
)
def test_weights_that_match_a_pattern_get_the_next_higher_precision(precision: Precision, higher: Precision) -> None:
    assert plan_precision(graphs(), precision) == {"tokens.weight": precision, "linear.weight": precision}
    kept = plan_precision(graphs(), precision, keep=["lin*"])
    assert kept == {"tokens.weight": precision, "linear.weight": higher}


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no weight matches 'decoder\.\*'; there are tokens\.weight, linear\.weight"):
        plan_precision(graphs(), "int8", keep=["lin*", "decoder.*"])


def test_each_weight_gets_its_planned_precision() -> None:
    models = graphs()
    quantize(models, {"tokens.weight": "fp32", "linear.weight": "int8"}, dialect="ort")
    weights = [
        models[0].graph.initializers["tokens.weight"].const_value,
        models[1].graph.initializers["linear.weight"].const_value,
    ]
    assert [weight.dtype for weight in weights] == [ir.DataType.FLOAT, ir.DataType.INT8]


def test_float16_weights_are_cast_to_float32(tmp_path: Path) -> None:
    model, ids = tied(TABLE), np.array([1, 2, 99])
    quantize([model], plan_precision([model], "fp16"), dialect="portable")
    rows, scores = run(model, tmp_path, {"ids": ids})
    np.testing.assert_array_equal(rows, TABLE[ids].astype(np.float16).astype(np.float32))
    limit = sum_rounding(1, (np.abs(TABLE[ids]) @ np.abs(TABLE.T)).max(), FLOAT16)  # half of it for each factor
    np.testing.assert_allclose(scores, TABLE[ids] @ TABLE.T, atol=limit)
    assert (tmp_path / "weights.bin").stat().st_size == TABLE.nbytes / 2


def test_a_weight_with_conflicting_channels_is_stored_as_a_table(tmp_path: Path) -> None:
    """Its channels are rows to the lookup and columns to the product: no scale per channel serves both."""
    tape, ids = ir.tape.Tape(), given("ids", ["n"], ir.DataType.INT64)
    table = constant(tape, "square", TABLE[:64])
    product = tape.op("MatMul", [tape.op("Gather", [table, ids]), table])
    model = finish(tape, [ids], {"y": product})
    quantize([model], plan_precision([model], "int8"), dialect="ort")
    (output,) = run(model, tmp_path, {"ids": np.arange(5)})
    exact = TABLE[:5] @ TABLE[:64]
    assert 0 < np.abs(output - exact).max() < 0.02 * np.abs(exact).max()
    assert (tmp_path / "weights.bin").stat().st_size < 1.2 * 64 * 64
