"""Measure the ways to multiply rows with a quantized constant matrix, one thread: see docs/quantization.md.

    python benchmarks/products.py                 all, takes some minutes
    python benchmarks/products.py --inner 512 --outer 2048

A layer is timed in a chain of layers back and forth, so that the cost of a call does not count; a vocabulary is timed
alone.
"""

import json
import time
from collections.abc import Callable

import click
import numpy as np
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray

from seq2edge.bundle.bundle import Dialect, Precision
from seq2edge_graphs.passes.graph_edit import MICROSOFT
from seq2edge_graphs.quantize.apply import plan_precision, quantize
from seq2edge_graphs.quantize.storage import round_channels

Floats = NDArray[np.float32]
Product = Callable[[ir.tape.Tape, ir.Value, Floats, str], ir.Value]  # of rows and channels (N, K)

SHAPES = [(256, 256), (256, 1536), (512, 512), (512, 2048), (256, 8000), (512, 32000)]
ROWS = (1, 4, 16, 64)
ROUNDS, LAYERS, VOCABULARY = 15, 6, 4000


@click.command()
@click.option("--inner", type=int, help="Width of the rows; with --outer, only this shape.")
@click.option("--outer", type=int)
def main(inner: int | None, outer: int | None) -> None:
    """Print a JSON line for each shape and number of rows: microseconds of a product including its bias."""
    for shape in [(inner, outer)] if inner and outer else SHAPES:
        sessions = {name: session_of(variant, *shape) for name, variant in VARIANTS.items()}
        for rows in ROWS:
            print(json.dumps({"inner": shape[0], "outer": shape[1], "rows": rows, **alternate(sessions, rows, shape)}))


def plain(tape: ir.tape.Tape, x: ir.Value, channels: Floats, name: str) -> ir.Value:
    return tape.op("MatMul", [x, tape.initializer(ir.tensor(channels.T.copy(), name=f"{name}.weight"))])


def whole_batch(tape: ir.tape.Tape, x: ir.Value, channels: Floats, name: str) -> ir.Value:
    """Use one scale for all rows, like onnxruntime's own quantization; results depend on the batch."""
    integers, scale = round_channels(channels)
    inputs = [
        tape.initializer(ir.tensor(content, name=f"{name}.{part}"))
        for part, content in (("weight", integers.T.copy()), ("scale", scale))
    ]
    return tape.op("DynamicQuantizeMatMul", [x, *inputs], domain=MICROSOFT)


def blocks(bits: int, size: int) -> Product:
    def product(tape: ir.tape.Tape, x: ir.Value, channels: Floats, name: str) -> ir.Value:
        count = channels.shape[1] // size
        random = np.random.default_rng(int(name))  # equal weights would share cache lines
        content = random.integers(0, 256, (len(channels), count, size * bits // 8), np.uint8)
        weight = tape.initializer(ir.tensor(content, name=f"{name}.weight"))
        scales = tape.initializer(ir.tensor(np.full((len(channels), count), 0.01, np.float32), name=f"{name}.scale"))
        sizes = {"K": channels.shape[1], "N": len(channels), "bits": bits, "block_size": size, "accuracy_level": 4}
        return tape.op("MatMulNBits", [x, weight, scales], sizes, domain=MICROSOFT)

    return product


VARIANTS: dict[str, tuple[Product, Precision, Dialect]] = {
    "float32": (plain, "fp32", "ort"),
    "int8, one scale a batch": (whole_batch, "fp32", "ort"),
    "int8": (plain, "int8", "ort"),
    "int8, portable": (plain, "int8", "portable"),
    "8 bit in blocks of 256": (blocks(8, 256), "fp32", "ort"),
    "int4": (plain, "int4", "ort"),
    "4 bit in blocks of 64": (blocks(4, 64), "fp32", "ort"),
    "4 bit in blocks of 128": (blocks(4, 128), "fp32", "ort"),
}


def session_of(variant: tuple[Product, Precision, Dialect], inner: int, outer: int) -> onnxruntime.InferenceSession:
    product, precision, dialect = variant
    random, tape = np.random.default_rng(0), ir.tape.Tape()
    x = ir.Value(name="x", shape=ir.Shape(["rows", inner]), type=ir.TensorType(ir.DataType.FLOAT))
    value = x
    for number, (inputs, outputs) in enumerate(layers(inner, outer)):
        channels = (random.normal(size=(outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
        bias = tape.initializer(ir.tensor(np.zeros(outputs, np.float32), name=f"{number}.bias"))
        value = tape.op("Add", [product(tape, value, channels, str(number)), bias])
    value.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        [x], [value], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 20, MICROSOFT: 1}
    )
    model = ir.Model(graph, ir_version=10)
    quantize([model], plan_precision([model], precision), dialect=dialect)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options, ["CPUExecutionProvider"])


def layers(inner: int, outer: int) -> list[tuple[int, int]]:
    return [(inner, outer)] if outer >= VOCABULARY else [(inner, outer), (outer, inner)] * LAYERS


def alternate(sessions: dict[str, onnxruntime.InferenceSession], rows: int, shape: tuple[int, int]) -> dict[str, float]:
    """Return the best microseconds of each session; the sessions take turns."""
    feed = {"x": np.random.default_rng(1).normal(size=(rows, shape[0])).astype(np.float32)}
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            started = time.perf_counter()
            session.run(None, feed)
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: round(1e6 * seconds / len(layers(*shape)), 1) for name, seconds in best.items()}


if __name__ == "__main__":
    main()
