"""The runtime's own reader of ONNX files agrees with the onnx package."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.bundle.onnx_file import TYPES, read_onnx

NUMPY_NAMES = {"float": "float32", "double": "float64"}  # by the name in onnx


def test_every_type_has_its_name_and_size() -> None:
    names = {code: name.lower() for name, code in TensorProto.DataType.items() if name != "UNDEFINED"}
    assert {code: name for code, (name, _) in TYPES.items() if code in names} == {
        code: NUMPY_NAMES.get(name, name) for code, name in names.items()
    }


@pytest.mark.parametrize("code", [code for code, (name, _) in TYPES.items() if name not in ("string", "bfloat16")])
def test_a_tensor_of_every_type_has_the_bytes_that_onnx_writes(code: int, tmp_path: Path) -> None:
    if code not in TensorProto.DataType.values():
        pytest.skip("this onnx has no such type")
    zeros = np.zeros((3, 5), helper.tensor_dtype_to_np_dtype(code))
    tensor = numpy_helper.from_array(zeros, "zeros")
    graph = helper.make_graph([], "empty", [], [], initializer=[tensor])
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    [read] = read_onnx(tmp_path / "a.onnx").tensors
    assert (read.name, read.dims, read.bytes) == ("zeros", (3, 5), len(tensor.raw_data))


@pytest.mark.parametrize("name", [tensor_names.ENCODER, tensor_names.DECODER])
def test_an_exported_graph_is_read_like_onnx_reads_it(name: str) -> None:
    file, model = read_onnx(DEFAULT_BUNDLE / name), onnx.load(DEFAULT_BUNDLE / name, load_external_data=False)
    graph = model.graph
    assert file.ir_version == model.ir_version
    assert file.producer == f"{model.producer_name} {model.producer_version}"
    assert file.graph == graph.name
    assert file.operators == Counter(".".join(filter(None, (node.domain, node.op_type))) for node in graph.node)
    for read, expected in ((file.inputs, graph.input), (file.outputs, graph.output)):
        assert [(value.name, value.shape) for value in read] == [
            (value.name, tuple(axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim))
            for value in expected
        ]
    assert [(tensor.name, tensor.dims, tensor.location) for tensor in file.tensors] == [
        (tensor.name, tuple(tensor.dims), dict(_pairs(tensor)).get("location", "")) for tensor in graph.initializer
    ]


def test_branches_and_their_constants_are_read_like_onnx_reads_them(tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.ones((4, 2), np.float32), "value")
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])
    branch = helper.make_graph([helper.make_node("Constant", [], ["y"], value=value)], "branch", [], [result])
    choice = helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    model = helper.make_model(helper.make_graph([choice], "choice", [condition], [result]))
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "a.onnx")
    file = read_onnx(tmp_path / "a.onnx")
    assert file.operators == {"Constant": 2, "If": 1}
    assert [tensor.bytes for tensor in file.tensors] == [32, 32]
    assert file.inputs[0].shape == ()


def _pairs(tensor: TensorProto) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in tensor.external_data]
