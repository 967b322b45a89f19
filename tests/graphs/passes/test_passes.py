"""Each graph pass on a graph with a lookup and a product."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
from tolerances import sum_rounding

from seq2edge_graphs.bundle_writer import ALIGNMENT, load_with_weights, save_sharing_weights
from seq2edge_graphs.passes.subgraph import expose, strip

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(64, 48)).astype(np.float32)
MATRIX = RANDOM.normal(size=(48, 64)).astype(np.float32)


def graph() -> ir.Model:
    """Look rows up in a table, and multiply them with a matrix."""
    ids = ir.Value(name="ids", shape=ir.Shape(["n"]), type=ir.TensorType(ir.DataType.INT64))
    table, matrix = (
        ir.Value(name=name, const_value=ir.tensor(content, name=name), shape=ir.Shape(content.shape))
        for name, content in (("table", TABLE), ("matrix", MATRIX))
    )
    for value in (table, matrix):
        value.type = ir.TensorType(ir.DataType.FLOAT)
    rows = ir.node("Gather", [table, ids])
    product = ir.node("MatMul", [rows.outputs[0], matrix])
    rows.outputs[0].name, product.outputs[0].name = "rows.inside", "product"
    for value, width in ((rows.outputs[0], 48), (product.outputs[0], 64)):
        value.shape, value.type = ir.Shape(["n", width]), ir.TensorType(ir.DataType.FLOAT)
    rows.metadata_props["trace"] = "/home/somebody/model.py"
    made = ir.Graph(
        [ids], [product.outputs[0]], nodes=[rows, product], initializers=[table, matrix], opset_imports={"": 20}
    )
    return ir.Model(made, ir_version=10)


def run(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"ids": np.array([3, 0, 63])})
    return output


EXACT = TABLE[[3, 0, 63]] @ MATRIX
SAME = sum_rounding(48, (np.abs(TABLE[[3, 0, 63]]) @ np.abs(MATRIX)).max())


def test_weights_of_two_graphs_are_stored_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    save_sharing_weights({path: graph() for path in paths}, tmp_path / "weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size <= TABLE.nbytes + MATRIX.nbytes + ALIGNMENT
    for path in paths:
        np.testing.assert_allclose(run(path), EXACT, rtol=0, atol=SAME)


def test_strip_removes_paths_of_the_machine(tmp_path: Path) -> None:
    model = graph()
    strip(model)
    ir.save(model, tmp_path / "a.onnx")
    assert b"somebody" not in (tmp_path / "a.onnx").read_bytes()
    np.testing.assert_allclose(run(tmp_path / "a.onnx"), EXACT, rtol=0, atol=SAME)


def test_expose_outputs_internal_values(tmp_path: Path) -> None:
    save_sharing_weights({tmp_path / "a.onnx": graph()}, tmp_path / "weights.bin")
    (tmp_path / "copy").mkdir()
    copy = expose(tmp_path / "a.onnx", ["rows.inside"], tmp_path / "copy", weights="weights.bin")
    np.testing.assert_array_equal(run(copy), TABLE[[3, 0, 63]])


def test_expose_can_keep_the_outputs_first(tmp_path: Path) -> None:
    save_sharing_weights({tmp_path / "a.onnx": graph()}, tmp_path / "weights.bin")
    (tmp_path / "copy").mkdir()
    copy = expose(tmp_path / "a.onnx", ["rows.inside"], tmp_path / "copy", weights="weights.bin", keep_outputs=True)
    session = onnxruntime.InferenceSession(copy, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["product", "rows.inside"]


def test_weights_are_read_from_a_file_with_several_hard_links(tmp_path: Path) -> None:
    save_sharing_weights({tmp_path / "a.onnx": graph()}, tmp_path / "weights.bin")
    (tmp_path / "second name").hardlink_to(tmp_path / "weights.bin")
    model = load_with_weights(tmp_path / "a.onnx")
    np.testing.assert_array_equal(model.graph.initializers["table"].const_value.numpy(), TABLE)
    (tmp_path / "again").mkdir()
    save_sharing_weights({tmp_path / "again" / "a.onnx": model}, tmp_path / "again" / "weights.bin")
    np.testing.assert_allclose(run(tmp_path / "again" / "a.onnx"), EXACT, rtol=0, atol=SAME)
