"""Compare the output projection over the whole vocabulary with that over a shortlist, one thread.

    python benchmarks/shortlist_products.py            takes some minutes
    python benchmarks/shortlist_products.py --quick    only checks that it runs

The whole matrix is a constant, which onnxruntime packs when it loads the graph. The target tokens of a shortlist differ
in each batch, so their matrix is an input, which the kernel packs in every call: this may cost more than is gained.
Gathering the columns, once per batch, is timed as well. Times are CPU times.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray

import results
from seq2edge.devices.session import BoundRun
from seq2edge_graphs.passes.graph_edit import MICROSOFT
from seq2edge_graphs.quantize.storage import round_channels

WIDTH, VOCABULARY = 512, 32_000
ROWS, TOKENS = (1, 16, 64), (300, 1000, 3000)
ROUNDS = 40
Floats = NDArray[np.float32]
Timed = dict[str, Callable[[], object]]
Arrays = dict[str, NDArray[Any]]


@click.command()
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(quick: bool) -> None:
    """Write microseconds of a product in both precisions, for several numbers of rows and target tokens."""
    rounds = 2 if quick else ROUNDS
    machine = results.machine()
    channels = np.random.default_rng(0).normal(size=(VOCABULARY, WIDTH)).astype(np.float32)
    rows = []
    for precision in ("fp32", "int8"):
        for count in ROWS:
            for name, seconds in in_turns(variants(precision, channels, count), rounds).items():
                rows.append({"work": precision, "rows": count, "way": name, "microseconds": round(1e6 * seconds, 1)})
                print(rows[-1])
    results.write("shortlist_products", [{**row, "machine": machine} for row in rows], quick=quick)


def variants(precision: str, channels: Floats, rows: int) -> Timed:
    """Return the products with the whole vocabulary and with each number of target tokens, and the gathering."""
    x = np.random.default_rng(1).normal(size=(rows, WIDTH)).astype(np.float32)
    make = {"fp32": float_variants, "int8": integer_variants}[precision]
    return make(channels, x)


def float_variants(channels: Floats, x: Floats) -> Timed:
    whole = session_of("MatMul", {"x": x}, {"matrix": channels.T.copy()})
    timed: Timed = {"all": bound(whole, {"x": x}, VOCABULARY)}
    part = session_of("MatMul", {"x": x, "matrix": channels[:2].T.copy()}, {})
    for count in TOKENS:
        ids = some_ids(count)
        feed = {"x": x, "matrix": np.ascontiguousarray(channels[ids].T)}
        timed[f"{count} words"] = bound(part, feed, count)
        timed[f"to gather {count}"] = partial(gather, ids, channels)
    return timed


def integer_variants(channels: Floats, x: Floats) -> Timed:
    integers, scale = round_channels(channels)
    left: Arrays = {
        "x": np.clip(np.rint(x * 40) + 128, 0, 255).astype(np.uint8),
        "largest": np.ones((len(x), 1), np.float32),
    }
    right: Arrays = {"matrix": integers.T.copy(), "scale": scale}
    zero: Arrays = {"zero": np.array(128, np.uint8)}
    whole = session_of("MatMulIntegerToFloat", left, right | zero)
    timed: Timed = {"all": bound(whole, left, VOCABULARY)}
    part = session_of("MatMulIntegerToFloat", left | {"matrix": integers[:2].T.copy(), "scale": scale[:2]}, zero)
    for count in TOKENS:
        ids = some_ids(count)
        feed = {**left, "matrix": np.ascontiguousarray(integers[ids].T), "scale": scale[ids]}
        timed[f"{count} words"] = bound(part, feed, count)
        timed[f"to gather {count}"] = partial(gather, ids, integers, scale)
    return timed


def bound(session: onnxruntime.InferenceSession, feed: Arrays, columns: int) -> BoundRun:
    """Bind the output to allocated memory: allocating 8 MB for a whole vocabulary takes longer than the product."""
    [output] = session.get_outputs()
    return BoundRun(session, feed, {output.name: np.zeros((len(feed["x"]), columns), np.float32)})


def gather(ids: NDArray[np.int64], channels: NDArray[Any], *others: NDArray[Any]) -> None:
    """Do what the runtime does once per batch."""
    np.ascontiguousarray(channels[ids].T)
    for other in others:
        other[ids]


def some_ids(count: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(2).choice(VOCABULARY, count, replace=False))


def session_of(operator: str, inputs: Arrays, constants: Arrays) -> onnxruntime.InferenceSession:
    """Open a graph of one operator, whose inputs have dynamic sizes except the width."""
    tape = ir.tape.Tape()
    values = {name: input_of(name, content) for name, content in inputs.items()}
    graph_inputs = [*values.values()]
    for name, content in constants.items():
        values[name] = tape.initializer(ir.tensor(content, name=name))
    if operator == "MatMul":
        output = tape.op(operator, [values["x"], values["matrix"]])
    else:
        names = ("x", "matrix", "largest", "scale", "zero")
        output = tape.op(operator, [values[name] for name in names], domain=MICROSOFT)
    output.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        graph_inputs, [output], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 20, MICROSOFT: 1}
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    content = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])


def input_of(name: str, content: NDArray[np.generic]) -> ir.Value:
    shape = [size if size == WIDTH else f"{name}.{axis}" for axis, size in enumerate(content.shape)]
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.from_numpy(content.dtype)))


def in_turns(timed: Timed, rounds: int) -> dict[str, float]:
    """Return the best CPU seconds of each call; the calls take turns."""
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, run in timed.items():
            started = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
