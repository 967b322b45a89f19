"""Malicious graphs in a bundle are refused before onnxruntime loads them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_bundle import change_graph, copy_bundle, rehash
from onnx import TensorProto, helper, numpy_helper

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.bundle.protobuf import Message
from seq2edge.errors import BundleError


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return copy_bundle(tmp_path / "bundle")


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def external(model: onnx.ModelProto) -> TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.external_data)


def set_external(model: onnx.ModelProto, key: str, value: str) -> None:
    entries = external(model).external_data
    for entry in entries:
        if entry.key == key:
            entry.value = value
            return
    entries.add(key=key, value=value)


def add_node(model: onnx.ModelProto, operator: str, inputs: list[str], domain: str = "", **attributes: object) -> None:
    model.graph.node.append(helper.make_node(operator, inputs, [f"more_{operator}"], domain=domain, **attributes))


def add_bomb(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([2**20, 2**20]), "huge"))
    add_node(model, "ConstantOfShape", ["huge"])


def add_graph_within(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([helper.make_node("Identity", ["positions"], ["x"])], "inner", [], [])
    add_node(model, "Identity", ["positions"], body=inner)


def add_axes(model: onnx.ModelProto) -> None:
    """Compute 100,000 axes to insert."""
    numbers = {"zero": np.array(0), "many": np.array(100_000), "one": np.array(1)}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in numbers.items())
    add_node(model, "Range", [*numbers])
    add_node(model, "Unsqueeze", ["positions", "more_Range"])


def add_axes_one_by_one(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "first"))
    names = ["positions", *(f"axes_{number}" for number in range(100))]
    for before, after in pairwise(names):
        model.graph.node.append(helper.make_node("Unsqueeze", [before, "first"], [after]))


def add_axes_from_floats(model: onnx.ModelProto) -> None:
    """Hide the axes in a constant of floats."""
    many = numpy_helper.from_array(np.arange(100_000, dtype=np.float32))
    model.graph.node.append(helper.make_node("Constant", [], ["floats"], value=many))
    add_node(model, "Cast", ["floats"], to=TensorProto.INT64)
    add_node(model, "Unsqueeze", ["positions", "more_Cast"])


def add_flattened_weights(model: onnx.ModelProto) -> None:
    """Reshape to as many axes as a constant of eight long axes has elements."""
    many = onnx.TensorProto(name="long", data_type=TensorProto.INT64, dims=[10**7, 0, 10**7])
    model.graph.initializer.extend([many, numpy_helper.from_array(np.array([-1]), "flat")])
    model.graph.node.append(helper.make_node("Reshape", ["long", "flat"], ["flattened"]))
    model.graph.node.append(helper.make_node("Reshape", ["positions", "flattened"], ["shaped"]))


def add_computed_shape(model: onnx.ModelProto) -> None:
    """Reshape to as many axes as there are positions."""
    add_node(model, "Reshape", ["positions", "positions"])


ATTACKS: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "weights outside the folder": (
        lambda model: set_external(model, "location", "../../etc/passwd"),
        "should be in weights",
    ),
    "weights of an absolute path": (
        lambda model: set_external(model, "location", "/etc/passwd"),
        "should be in weights",
    ),
    "weights after the end of the file": (
        lambda model: set_external(model, "offset", str(10**12)),
        "should end at byte",
    ),
    "axes without number": (add_axes, "Unsqueeze may make a tensor of more than 64 axes"),
    "axes from floats": (add_axes_from_floats, "Unsqueeze may make a tensor of more than 64 axes"),
    "axes from long constants": (add_flattened_weights, "Reshape may make a tensor of more than 64 axes"),
    "axes one by one": (add_axes_one_by_one, "Unsqueeze may make a tensor of more than 64 axes"),
    "a shape of any length": (add_computed_shape, "Reshape may make a tensor of more than 64 axes"),
    "a negative offset": (lambda model: set_external(model, "offset", "-64"), "'-64'"),
    "a length that does not match the shape": (
        lambda model: set_external(model, "length", "64"),
        "64 bytes, but takes",
    ),
    "an unknown key of external data": (lambda model: set_external(model, "checksum", "0"), "should be in weights"),
    "a huge shape": (lambda model: external(model).dims.append(2**40), "but takes"),
    "a negative size": (lambda model: external(model).dims.append(-1), "shape"),
    "a constant without content": (
        lambda model: model.graph.initializer.append(TensorProto(name="x", dims=[100], data_type=1)),
        "should have 400",
    ),
    "text as a constant": (
        lambda model: model.graph.initializer.append(TensorProto(name="x", data_type=8, raw_data=b"x")),
        "is text",
    ),
    "a constant that makes terabytes": (add_bomb, "ConstantOfShape would make a tensor of size"),
    "a graph within a graph": (add_graph_within, "attribute has field 6"),
    "an operator that reads files": (lambda model: add_node(model, "ImageDecoder", ["positions"]), "ImageDecoder"),
    "an operator of an unknown domain": (
        lambda model: add_node(model, "Run", ["positions"], domain="evil"),
        "evil.Run",
    ),
    "a loop": (lambda model: add_node(model, "Loop", ["positions"]), "Loop"),
    "no heads to divide by": (
        lambda model: next(
            attribute for node in model.graph.node for attribute in node.attribute if attribute.name == "num_heads"
        ).__setattr__("i", 0),
        "num_heads 0",
    ),
    "dropout": (lambda model: add_node(model, "Dropout", [model.graph.input[0].name]), "Dropout"),
    "functions": (lambda model: model.functions.add(name="f", domain="d"), "model has field 25"),
    "an additional input": (
        lambda model: model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1])),
        "'more'",
    ),
    "a cache of another shape": (
        lambda model: (
            next(value for value in model.graph.input if value.name.startswith("past"))
            .type.tensor_type.shape.dim[1]
            .__setattr__("dim_value", 5)
        ),
        "not of one shape",
    ),
    "no logits": (lambda model: model.graph.output[0].__setattr__("name", "others"), "'logits'"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_malicious_graph_is_refused(attack: str, copy: Path) -> None:
    change, words = ATTACKS[attack]
    change_graph(copy, change)
    refused(copy, "decoder.onnx", words)


def test_a_graph_that_parsers_read_differently_is_refused(copy: Path) -> None:
    content = (copy / tensor_names.DECODER).read_bytes()
    (copy / tensor_names.DECODER).write_bytes(content + b"\x3a\x00")  # a second graph, which protobuf would merge
    rehash(copy)
    refused(copy, "field 7 2 times")


def test_a_portable_bundle_may_not_use_operators_of_onnxruntime(copy: Path) -> None:
    manifest = copy / tensor_names.MANIFEST
    manifest.write_text(manifest.read_text().replace('"dialect": "ort"', '"dialect": "portable"'))
    refused(copy, "com.microsoft", "portable dialect")


def test_a_graph_that_is_too_large_is_not_read(copy: Path) -> None:
    with (copy / tensor_names.ENCODER).open("ab") as file:
        file.truncate(2**25 + 1)
    rehash(copy)
    refused(copy, "a graph without its weights has at most")


def test_every_node_of_an_exported_graph_is_read_once() -> None:
    content = (DEFAULT_BUNDLE / tensor_names.DECODER).read_bytes()
    [graph] = Message(content, 0, len(content)).messages(7)
    assert len(graph.messages(1)) == len(
        onnx.load(DEFAULT_BUNDLE / tensor_names.DECODER, load_external_data=False).graph.node
    )
