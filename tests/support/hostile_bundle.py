"""Change the files of a bundle and update its hashes, as an attacker could."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from onnx import ModelProto  # tests of the runtime run without it


def copy_bundle(folder: Path, source: Path = DEFAULT_BUNDLE) -> Path:
    return Path(shutil.copytree(source, folder))


def rehash(folder: Path) -> None:
    """Update the hashes and sizes in the manifest."""
    path = folder / tensor_names.MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    for name in content["files"]:
        data = (folder / name).read_bytes()
        content["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    path.write_text(json.dumps(content), encoding="utf-8")


def change_graph(folder: Path, change: "Callable[[ModelProto], object]", name: str = tensor_names.DECODER) -> None:
    import onnx

    model = onnx.load(folder / name, load_external_data=False)
    change(model)
    (folder / name).write_bytes(model.SerializeToString())
    rehash(folder)


def change_manifest(folder: Path, change: Callable[[dict], object]) -> None:
    path = folder / tensor_names.MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def slow_down(model: "ModelProto", *, side: int, products: int) -> None:
    """Let a graph multiply square matrices of 1,000 times ``side`` rows before it returns its first output."""
    import onnx

    graph, out = model.graph, model.graph.output[0].name
    for node in graph.node:
        node.output[:] = ["before" if name == out else name for name in node.output]
    node = onnx.helper.make_node
    constants = {"slow_shape": np.array([1000, 1000]), "slow_zero": np.zeros((), np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
    graph.node.extend(
        [
            node("Cast", [graph.input[0].name], ["slow_input"], to=onnx.TensorProto.FLOAT),
            node("ReduceMax", ["slow_input"], ["slow_max"], keepdims=0),
            node("Mul", ["slow_max", "slow_zero"], ["slow_nothing"]),
            node("Expand", ["slow_nothing", "slow_shape"], ["slow_part"]),
            node("Concat", ["slow_part"] * side, ["slow_row"], axis=0),
            node("Concat", ["slow_row"] * side, ["slow_0"], axis=1),
            *(node("MatMul", [f"slow_{i}", "slow_0"], [f"slow_{i + 1}"]) for i in range(products)),
            node("ReduceMax", [f"slow_{products}"], ["slow_end"], keepdims=0),
            node("Add", ["before", "slow_end"], [out]),
        ]
    )
