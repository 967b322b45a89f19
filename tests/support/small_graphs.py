"""Build small graphs for tests of graph passes: linear layers in each form, and a tied embedding."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime

from seq2edge_graphs.bundle_writer import save_sharing_weights

FORMS = ("MatMul", "Gemm", "Gemm transposed")  # of a linear layer


def given(name: str, shape: list[int | str], dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def constant(tape: ir.tape.Tape, name: str, content: np.ndarray) -> ir.Value:
    return tape.initializer(ir.tensor(content, name=name))


def finish(tape: ir.tape.Tape, inputs: list[ir.Value], outputs: dict[str, ir.Value]) -> ir.Model:
    for name, value in outputs.items():
        value.name, value.type = name, ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        inputs,
        list(outputs.values()),
        nodes=tape.nodes,
        initializers=tape.initializers,
        opset_imports={"": 20},
        name="small",
    )
    return ir.Model(graph, ir_version=10)


def multiply(tape: ir.tape.Tape, form: str, x: ir.Value, channels: np.ndarray, bias: np.ndarray) -> ir.Value:
    """Add a linear layer with weights (N, K) in the form that tracing produces."""
    bias_value = constant(tape, "linear.bias", bias)
    if form == "MatMul":
        product = tape.op("MatMul", [x, constant(tape, "linear.weight", channels.T.copy())])
        return tape.op("Add", [product, bias_value])
    transposed = form == "Gemm transposed"
    weight = constant(tape, "linear.weight", channels if transposed else channels.T.copy())
    return tape.op("Gemm", [x, weight, bias_value], {"transB": int(transposed), "alpha": 1.0, "beta": 1.0})


def linear(form: str, channels: np.ndarray, bias: np.ndarray, *, relu: bool = False) -> ir.Model:
    """Return a linear layer, optionally after a ReLU: x (rows, K) -> y (rows, N)."""
    tape, x = ir.tape.Tape(), given("x", ["rows", channels.shape[1]])
    left = tape.op("Relu", [x]) if relu else x
    return finish(tape, [x], {"y": multiply(tape, form, left, channels, bias)})


def tied(table: np.ndarray) -> ir.Model:
    """Look tokens up and score all tokens against them: ids (n,) -> found (n, D), scores (n, V)."""
    tape, ids = ir.tape.Tape(), given("ids", ["n"], ir.DataType.INT64)
    weight = constant(tape, "tokens.weight", table)
    found = tape.op("Gather", [weight, ids])
    scores = tape.op("Gemm", [found, weight], {"transB": 1})
    return finish(tape, [ids], {"found": found, "scores": scores})


def load(model: ir.Model, folder: Path) -> onnxruntime.InferenceSession:
    """Write a graph with external weights, as in a bundle, and load it."""
    save_sharing_weights({folder / "graph.onnx": model}, folder / "weights.bin")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(folder / "graph.onnx", options, providers=["CPUExecutionProvider"])


def run(model: ir.Model, folder: Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Write a graph, which can be done once, and return its outputs."""
    return load(model, folder).run(None, feed)


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]
