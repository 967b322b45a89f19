"""onnxruntime does not fuse what is slower fused, under the names that its optimizers have."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from small_graphs import constant, finish, given

from seq2edge.sessions import slow_fusions

WIDTH = 64


def residual_and_norm() -> ir.Model:
    tape = ir.tape.Tape()
    states, update = (given(name, ["b", "t", WIDTH], ir.DataType.FLOAT) for name in ("states", "update"))
    weight, bias = (constant(tape, name, np.ones(WIDTH, np.float32)) for name in ("weight", "bias"))
    norm = tape.op("LayerNormalization", [tape.op("Add", [states, update]), weight, bias], {"axis": -1})
    return finish(tape, [states, update], {"norm": norm})


@pytest.mark.parametrize(
    ("disabled", "operators"),
    [([], ["SkipLayerNormalization"]), (slow_fusions(), ["Add", "LayerNormalization"])],
)
def test_a_residual_and_its_norm_stay_two_operators(tmp_path: Path, disabled: list[str], operators: list[str]) -> None:
    ir.save(residual_and_norm(), tmp_path / "graph.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(
        tmp_path / "graph.onnx", options, ["CPUExecutionProvider"], disabled_optimizers=disabled
    )
    assert [node.op_type for node in ir.load(tmp_path / "optimized.onnx").graph] == operators
