"""Write a float32 bundle with the rounded weights of an int8 one: what a browser computes with after widening.

It starts from the float32 bundle of the same checkpoint, whose graphs have the same weight names, so it shares nothing
with the JavaScript that rewrites integer products.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import external_data_helper, numpy_helper

from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import sha256_of

STEPS = {0: 255, 128: 127}  # of activations, by their zero point


def write_widened(int8: Path, fp32: Path, target: Path) -> Path:
    """Copy the float32 bundle with the weights of the int8 one, and return the new folder."""
    shutil.copytree(fp32, target)
    weights = {name: value for graph in _graphs(int8) for name, value in _rounded_weights(graph, int8).items()}
    content = bytearray((target / tensor_names.WEIGHTS).read_bytes())
    replaced: set[str] = set()
    for graph in _graphs(target):
        for tensor in graph.initializer:
            if tensor.name in weights:
                info = external_data_helper.ExternalDataInfo(tensor)
                value = np.ascontiguousarray(weights[tensor.name].reshape(tuple(tensor.dims)), "<f4").tobytes()
                assert info.offset is not None
                assert len(value) == info.length
                content[info.offset : info.offset + info.length] = value
                replaced.add(tensor.name)
    assert replaced == weights.keys()
    (target / tensor_names.WEIGHTS).write_bytes(content)
    _update_hash(target, tensor_names.WEIGHTS)
    return target


def _graphs(folder: Path) -> list[onnx.GraphProto]:
    names = (tensor_names.ENCODER, tensor_names.DECODER)
    return [onnx.load(folder / name, load_external_data=False).graph for name in names]


def _rounded_weights(graph: onnx.GraphProto, folder: Path) -> dict[str, NDArray[np.float32]]:
    """Return integers times scales, by the name of the weight."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    found = {}
    for node in graph.node:
        if node.op_type == "MatMulIntegerToFloat":
            _, matrix, _, scale, zero_point = node.input[:5]
            transposed = matrix in producers
            name = producers[matrix].input[0] if transposed else matrix
            steps = STEPS[int(numpy_helper.to_array(constants[zero_point]))]
            while scale in producers:  # a cast, and for the logits what prepares them for few rows
                scale = producers[scale].input[0]
            scales = _array(constants[scale], folder) * np.float32(steps)
            integers = _array(constants[name], folder)
            found[name] = integers * (scales[:, None] if transposed else scales)
    return found


def _array(tensor: onnx.TensorProto, folder: Path) -> NDArray[np.float32]:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    if external_data_helper.uses_external_data(tensor):
        external_data_helper.load_external_data_for_tensor(copy, str(folder))
    return numpy_helper.to_array(copy).astype(np.float32)


def _update_hash(folder: Path, name: str) -> None:
    path = folder / tensor_names.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["files"][name]["sha256"] = sha256_of(folder / name)
    path.write_text(json.dumps(manifest))
