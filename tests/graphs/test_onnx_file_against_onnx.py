"""The runtime's own reader of ONNX files finds what the onnx package finds."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import EMBEDDED
from seq2edge.bundle.onnx_file import TYPES, read_onnx

RENAMED = {"float": "float32", "double": "float64"}  # what onnx calls the types of numpy


def test_every_type_has_its_name_and_size() -> None:
    numbers = {code: name.lower() for name, code in TensorProto.DataType.items() if name != "UNDEFINED"}
    assert {code: name for code, (name, _) in TYPES.items() if code in numbers} == {
        code: RENAMED.get(name, name) for code, name in numbers.items()
    }


@pytest.mark.parametrize("code", [code for code, (name, _) in TYPES.items() if name not in ("string", "bfloat16")])
def test_a_tensor_of_every_type_has_the_bytes_that_onnx_writes(code: int, tmp_path: Path) -> None:
    if code not in TensorProto.DataType.values():
        pytest.skip("this onnx has no such type")
    zeros = np.zeros((3, 5), helper.tensor_dtype_to_np_dtype(code))
    made = numpy_helper.from_array(zeros, "zeros")
    graph = helper.make_graph([], "empty", [], [], initializer=[made])
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    [found] = read_onnx(tmp_path / "a.onnx").tensors
    assert (found.name, found.dims, found.bytes) == ("zeros", (3, 5), len(made.raw_data))


@pytest.mark.parametrize("name", [tensor_names.ENCODER, tensor_names.DECODER])
def test_a_graph_of_ours_is_read_alike(name: str) -> None:
    ours, theirs = read_onnx(EMBEDDED / name), onnx.load(EMBEDDED / name, load_external_data=False)
    graph = theirs.graph
    assert ours.ir_version == theirs.ir_version
    assert ours.producer == f"{theirs.producer_name} {theirs.producer_version}"
    assert ours.graph == graph.name
    assert ours.operators == Counter(".".join(filter(None, (node.domain, node.op_type))) for node in graph.node)
    for found, wanted in ((ours.inputs, graph.input), (ours.outputs, graph.output)):
        assert [(value.name, value.shape) for value in found] == [
            (value.name, tuple(axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim))
            for value in wanted
        ]
    assert [(tensor.name, tensor.dims, tensor.location) for tensor in ours.tensors] == [
        (tensor.name, tuple(tensor.dims), dict(_pairs(tensor)).get("location", "")) for tensor in graph.initializer
    ]


def test_branches_and_constants_inside_them_are_read_alike(tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.ones((4, 2), np.float32), "value")
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])
    branch = helper.make_graph([helper.make_node("Constant", [], ["y"], value=value)], "branch", [], [result])
    choice = helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    model = helper.make_model(helper.make_graph([choice], "choice", [condition], [result]))
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "a.onnx")
    found = read_onnx(tmp_path / "a.onnx")
    assert found.operators == {"Constant": 2, "If": 1}
    assert [tensor.bytes for tensor in found.tensors] == [32, 32]
    assert found.inputs[0].shape == ()


def _pairs(tensor: TensorProto) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in tensor.external_data]
