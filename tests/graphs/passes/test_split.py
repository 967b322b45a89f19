"""Extracting outputs from a graph: a lookup is multiplied for one output, and normalized for another."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime

from seq2edge_graphs.bundle_writer import save_sharing_weights
from seq2edge_graphs.passes.subgraph import extract_outputs
from seq2edge_graphs.quantize.apply import plan_precision, quantize

RANDOM = np.random.default_rng(0)
TABLE, MATRIX = (RANDOM.normal(size=size).astype(np.float32) for size in ((64, 48), (48, 64)))
FEED = {"ids": np.array([3, 0, 63]), "factor": np.array(2, np.float32)}


def value(name: str, dtype: ir.DataType, shape: list[int | str]) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))


def constant(name: str, content: np.ndarray) -> ir.Value:
    made = value(name, ir.DataType.FLOAT, list(content.shape))
    made.const_value = ir.tensor(content, name=name)
    return made


def graph() -> ir.Model:
    """Output product, scaled and mean; the latter two are computed by an operator with optional outputs."""
    ids, factor = value("ids", ir.DataType.INT64, ["n"]), value("factor", ir.DataType.FLOAT, [])
    table, matrix, weight = constant("table", TABLE), constant("val_0", MATRIX), constant("weight", np.ones(48, "f"))
    rows = ir.node("Gather", [table, ids], outputs=[value("rows", ir.DataType.FLOAT, ["n", 48])])
    product = ir.node("MatMul", [rows.outputs[0], matrix], outputs=[value("product", ir.DataType.FLOAT, ["n", 64])])
    normed, mean = value("normed", ir.DataType.FLOAT, ["n", 48]), value("mean", ir.DataType.FLOAT, ["n", 1])
    norm = ir.node("LayerNormalization", [rows.outputs[0], weight], outputs=[normed, mean])
    scaled = ir.node("Mul", [normed, factor], outputs=[value("scaled", ir.DataType.FLOAT, ["n", 48])])
    made = ir.Graph(
        [ids, factor],
        [product.outputs[0], scaled.outputs[0], mean],
        nodes=[rows, product, norm, scaled],
        initializers=[table, matrix, weight],
        opset_imports={"": 20},
    )
    return ir.Model(made, ir_version=10)


def run(path: Path) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = [entry.name for entry in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, FEED), strict=True))


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_a_part_has_only_the_nodes_that_its_outputs_depend_on() -> None:
    whole = graph()
    product, scaled = extract_outputs(whole, ["product"]), extract_outputs(whole, ["scaled"])
    assert operators(product) == ["Gather", "MatMul"]
    assert list(product.graph.initializers) == ["table", "val_0"]
    assert operators(scaled) == ["Gather", "LayerNormalization", "Mul"]
    assert list(scaled.graph.initializers) == ["table", "weight"]


def test_an_unused_optional_output_is_dropped() -> None:
    whole = graph()
    graphs = {name: extract_outputs(whole, [name]).graph for name in ("scaled", "mean")}
    assert [len(node.outputs) for node in graphs["scaled"]] == [1, 1, 1]
    assert [len(node.outputs) for node in graphs["mean"]] == [1, 2]


def test_a_part_has_all_inputs_of_the_whole_graph() -> None:
    assert [entry.name for entry in extract_outputs(graph(), ["product"]).graph.inputs] == ["ids", "factor"]


def test_the_whole_graph_is_not_changed_and_shares_its_constants() -> None:
    whole = graph()
    part = extract_outputs(whole, ["product"])
    assert operators(whole) == ["Gather", "MatMul", "LayerNormalization", "Mul"]
    assert [entry.name for entry in whole.graph.outputs] == ["product", "scaled", "mean"]
    for name in ("table", "val_0"):
        assert part.graph.initializers[name].const_value is whole.graph.initializers[name].const_value


def test_the_parts_compute_the_same_as_the_whole_graph(tmp_path: Path) -> None:
    whole = graph()
    ir.save(whole, tmp_path / "whole.onnx")
    expected = run(tmp_path / "whole.onnx")
    for names in (["product"], ["mean", "scaled"]):  # in this order
        ir.save(extract_outputs(whole, names), tmp_path / "part.onnx")
        outputs = run(tmp_path / "part.onnx")
        assert list(outputs) == names
        for name in names:
            np.testing.assert_array_equal(outputs[name], expected[name])


def test_quantized_parts_share_their_weights_and_all_names_are_unique(tmp_path: Path) -> None:
    whole = graph()
    parts = {tmp_path / f"{name}.onnx": extract_outputs(whole, [name]) for name in ("product", "scaled")}
    for part in parts.values():
        quantize([part], plan_precision([part], "int8"), dialect="ort")
        names = [str(entry.name) for node in part.graph for entry in node.outputs]
        names += [*part.graph.initializers, *(str(entry.name) for entry in part.graph.inputs)]
        assert len(set(names)) == len(names)
    save_sharing_weights(parts, tmp_path / "weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size == TABLE.size + MATRIX.size  # such small scales are in the graphs
    error = np.abs(run(tmp_path / "product.onnx")["product"] - TABLE[FEED["ids"]] @ MATRIX).max()
    assert 0 < error < 0.02 * np.abs(TABLE @ MATRIX).max()  # two roundings by half of 1/127 of the largest
