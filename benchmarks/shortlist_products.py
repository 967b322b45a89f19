"""The output projection over a whole vocabulary beside that over the words of a shortlist, one thread.

    python benchmarks/shortlist_products.py            some minutes
    python benchmarks/shortlist_products.py --quick    only shows that it runs

A whole matrix is a constant, which onnxruntime packs when it loads the graph. The words of a shortlist are other ones
for each batch, so their matrix is an input, which its kernel packs in every call: that is what may eat up the gain.
Integers are gathered from the matrix once for each batch; that is timed as well. Times are of the CPU.
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
from seq2edge.engine.io_binding import BoundRun
from seq2edge_graphs.passes.graph_edit import MICROSOFT
from seq2edge_graphs.quantize.storage import round_channels

WIDTH, VOCABULARY = 512, 32_000
ROWS, WORDS = (1, 16, 64), (300, 1000, 3000)
ROUNDS = 40
Floats = NDArray[np.float32]
Timed = dict[str, Callable[[], object]]
Arrays = dict[str, NDArray[Any]]


@click.command()
@click.option("--quick", is_flag=True, help="Only show that it runs.")
def main(quick: bool) -> None:
    """Write microseconds of a product in both precisions, for some numbers of rows and of words."""
    rounds = 2 if quick else ROUNDS
    machine = results.machine()
    channels = np.random.default_rng(0).normal(size=(VOCABULARY, WIDTH)).astype(np.float32)
    rows = []
    for precision in ("fp32", "int8"):
        for count in ROWS:
            for name, seconds in in_turns(ways(precision, channels, count), rounds).items():
                rows.append({"work": precision, "rows": count, "way": name, "microseconds": round(1e6 * seconds, 1)})
                print(rows[-1])
    results.write("shortlist_products", [{**row, "machine": machine} for row in rows], quick=quick)


def ways(precision: str, channels: Floats, rows: int) -> Timed:
    """The whole vocabulary, each number of words, and to gather them."""
    x = np.random.default_rng(1).normal(size=(rows, WIDTH)).astype(np.float32)
    make = {"fp32": float_ways, "int8": integer_ways}[precision]
    return make(channels, x)


def float_ways(channels: Floats, x: Floats) -> Timed:
    whole = session_of("MatMul", {"x": x}, {"matrix": channels.T.copy()})
    found: Timed = {"all": bound(whole, {"x": x}, VOCABULARY)}
    part = session_of("MatMul", {"x": x, "matrix": channels[:2].T.copy()}, {})
    for count in WORDS:
        ids = some_ids(count)
        feed = {"x": x, "matrix": np.ascontiguousarray(channels[ids].T)}
        found[f"{count} words"] = bound(part, feed, count)
        found[f"to gather {count}"] = partial(gather, ids, channels)
    return found


def integer_ways(channels: Floats, x: Floats) -> Timed:
    integers, scale = round_channels(channels)
    left: Arrays = {
        "x": np.clip(np.rint(x * 40) + 128, 0, 255).astype(np.uint8),
        "largest": np.ones((len(x), 1), np.float32),
    }
    right: Arrays = {"matrix": integers.T.copy(), "scale": scale}
    zero: Arrays = {"zero": np.array(128, np.uint8)}
    whole = session_of("MatMulIntegerToFloat", left, right | zero)
    found: Timed = {"all": bound(whole, left, VOCABULARY)}
    part = session_of("MatMulIntegerToFloat", left | {"matrix": integers[:2].T.copy(), "scale": scale[:2]}, zero)
    for count in WORDS:
        ids = some_ids(count)
        feed = {**left, "matrix": np.ascontiguousarray(integers[ids].T), "scale": scale[ids]}
        found[f"{count} words"] = bound(part, feed, count)
        found[f"to gather {count}"] = partial(gather, ids, integers, scale)
    return found


def bound(session: onnxruntime.InferenceSession, feed: Arrays, words: int) -> BoundRun:
    """Calls that write to memory which is there: to get 8 MB for a whole vocabulary takes longer than to compute it."""
    [output] = session.get_outputs()
    return BoundRun(session, feed, {output.name: np.zeros((len(feed["x"]), words), np.float32)})


def gather(ids: NDArray[np.int64], channels: NDArray[Any], *others: NDArray[Any]) -> None:
    """What is done once for each batch."""
    np.ascontiguousarray(channels[ids].T)
    for other in others:
        other[ids]


def some_ids(count: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(2).choice(VOCABULARY, count, replace=False))


def session_of(kind: str, given: Arrays, constants: Arrays) -> onnxruntime.InferenceSession:
    """One operator; the sizes of what is given change from call to call, but for the width."""
    tape = ir.tape.Tape()
    values = {name: input_of(name, content) for name, content in given.items()}
    inputs = [*values.values()]
    for name, content in constants.items():
        values[name] = tape.initializer(ir.tensor(content, name=name))
    if kind == "MatMul":
        made = tape.op(kind, [values["x"], values["matrix"]])
    else:
        made = tape.op(kind, [values[name] for name in ("x", "matrix", "largest", "scale", "zero")], domain=MICROSOFT)
    made.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        inputs, [made], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 20, MICROSOFT: 1}
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    content = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])


def input_of(name: str, content: NDArray[np.generic]) -> ir.Value:
    shape = [size if size == WIDTH else f"{name}.{axis}" for axis, size in enumerate(content.shape)]
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.from_numpy(content.dtype)))


def in_turns(timed: Timed, rounds: int) -> dict[str, float]:
    """The best of some rounds in turns."""
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, run in timed.items():
            started = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
