"""Reshapes that compute no shape."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_graphs import given, operators, run

from seq2edge_graphs.copied_shapes import copy_shapes

STATES = np.arange(48, dtype=np.float32).reshape(2, 3, 8)


def reshaped(before: list[str | int], after: list[str | int], shape: list[str | int]) -> ir.Model:
    """A graph that computes a shape of what it is given: ``before`` becomes ``after`` with the sizes of another."""
    tape, states, other = ir.tape.Tape(), given("states", before), given("other", shape)
    sizes = tape.op("Shape", [other])
    made = tape.op("Reshape", [states, tape.op("Identity", [sizes])], {"allowzero": 1})
    result = tape.op("Neg", [made])
    for value, axes in ((sizes, [len(shape)]), (sizes.uses()[0].node.outputs[0], [len(shape)])):
        value.shape, value.type = ir.Shape(axes), ir.TensorType(ir.DataType.INT64)
    for value in (made, result):
        value.shape, value.type = ir.Shape(after), ir.TensorType(ir.DataType.FLOAT)
    result.name = "result"
    graph = ir.Graph([states, other], [result], nodes=tape.nodes, opset_imports={"": 20}, name="small")
    return ir.Model(graph, ir_version=10)


def test_sizes_that_stay_are_copied_and_nothing_is_computed(tmp_path: Path) -> None:
    model = reshaped(["batch", "rows", 8], ["batch", "rows", 2, 4], ["batch", "rows", 2, 4])
    copy_shapes(model)
    assert operators(model) == ["Reshape", "Neg"]
    [found] = run(model, tmp_path, {"states": STATES, "other": np.zeros((9, 9, 2, 4), np.float32)})  # it is not asked
    np.testing.assert_array_equal(found, -STATES.reshape(2, 3, 2, 4))


def test_one_size_may_be_what_is_left(tmp_path: Path) -> None:
    model = reshaped(["batch", "rows", 8], ["all", 8], ["all", 8])
    copy_shapes(model)
    assert operators(model) == ["Reshape", "Neg"]
    [found] = run(model, tmp_path, {"states": STATES, "other": np.zeros((9, 8), np.float32)})
    np.testing.assert_array_equal(found, -STATES.reshape(6, 8))


def test_two_are_taken_from_what_has_them(tmp_path: Path) -> None:
    model = reshaped(["all", 8], ["batch", "rows", 8], ["batch", "rows", 8])
    copy_shapes(model)
    assert operators(model) == ["Shape", "Reshape", "Neg"]
    [found] = run(model, tmp_path, {"states": STATES.reshape(6, 8), "other": STATES})
    np.testing.assert_array_equal(found, -STATES)


def test_a_shape_that_nothing_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing has the shape"):
        copy_shapes(reshaped(["all", 8], ["batch", "rows", 8], ["other", "rows", 8]))
