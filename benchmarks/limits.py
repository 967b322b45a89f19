"""Compare the speed with the limits of the machine: bytes at batch 1, operations at batch 64; one thread.

    python benchmarks/limits.py [--quick]        rows go to benchmarks/results/limits.jsonl

At batch 1 a decoder step has to read the KV cache and every weight that it multiplies with: these bytes divided by the
measured bandwidth of a large read are a lower bound of its time. At batch 64 most of the time goes to products: their
operations divided by the measured peak of a large square product in onnxruntime, in float32 and in int8, are a lower
bound for the whole batch. Weights in the CPU's cache are read faster than that, so a share above 100 % is possible.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import onnx_ir as ir
import onnxruntime

import models
import results
from seq2edge.bench.report import Measurement
from seq2edge.bench.run import BenchOptions, run
from seq2edge.config.architecture import Architecture, cache_bytes, cost_per_source_token, cost_per_target_token

SOURCE, TARGET = 25, 30
# Per weight; blocks have a float32 scale each.
BYTES = {"fp32": 4.0, "int8": 1.0, "int4": 0.5 + 4 / 32}
ROUNDS = 7


@click.command()
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(quick: bool) -> None:
    """Measure the machine, then the base model."""
    shape, rounds = (models.QUICK, 2) if quick else (models.BASE, ROUNDS)
    bandwidth = read_bandwidth(2**24 if quick else 2**29, rounds)
    side = 256 if quick else 2048
    peaks = {precision: product_peak(precision, side, rounds) for precision in ("fp32", "int8")}
    print(f"read {bandwidth / 1e9:.1f} GB/s, " + ", ".join(f"{k} {v / 1e9:.0f} GOP/s" for k, v in peaks.items()))
    rows: list[results.Row] = [
        {"work": "machine", "bandwidth": bandwidth, "peaks": peaks, "machine": results.machine()}
    ]
    with TemporaryDirectory() as temporary:
        model = models.base_model(Path(temporary) / "base", precisions=tuple(BYTES), shape=shape)
        for batch_size, precisions in ((1, tuple(BYTES)), (4 if quick else 64, ("int8", "fp32"))):
            options = BenchOptions(
                bundles=model.chosen(*precisions),
                batch_sizes=(batch_size,),
                rounds=rounds,
                new_tokens=TARGET,
                memory=False,
                texts=models.RandomIds(batch_size, SOURCE, shape.source_vocabulary),
            )
            for one in run(options).measurements:
                rows.append(step_row(one, shape, bandwidth) if batch_size == 1 else batch_row(one, shape, peaks))
                print(rows[-1])
    results.write("limits", rows, quick=quick)


def step_row(one: Measurement, shape: Architecture, bandwidth: float) -> results.Row:
    """Return the bytes that a step after the first reads, its time and the lower bound."""
    weights = cost_per_target_token(shape, source_length=0, target_length=0) / 2  # two operations each
    cache = cache_bytes(shape, source_length=SOURCE, target_length=TARGET // 2)
    read = weights * BYTES[one.precision] + cache
    seconds = (min(one.rounds) - one.first_token.best / 1e3) / (TARGET - 1)
    return {
        "work": "step at batch 1",
        "precision": one.precision,
        "bytes": read,
        "seconds": seconds,
        "least": read / bandwidth,
        "share": read / bandwidth / seconds,
    }


def batch_row(one: Measurement, shape: Architecture, peaks: dict[str, float]) -> results.Row:
    """Return the operations of a whole batch including the encoder, its time and the lower bound."""
    size = one.setting.batch_size
    encoder = SOURCE * cost_per_source_token(shape, source_length=SOURCE)
    decoder = TARGET * cost_per_target_token(shape, source_length=SOURCE, target_length=TARGET // 2)
    operations, seconds = size * (encoder + decoder), min(one.rounds)
    least = operations / peaks[one.precision]
    return {
        "work": f"batch of {size}",
        "precision": one.precision,
        "operations": operations,
        "seconds": seconds,
        "least": least,
        "share": least / seconds,
    }


def read_bandwidth(size: int, rounds: int) -> float:
    """Return the bytes per second of the fastest way to read an array that exceeds the caches."""
    block = np.ones(size // 4, np.float32)
    matrix, vector = block.reshape(-1, 1024), np.ones(1024, np.float32)
    reads: list[Callable[[], object]] = [block.max, block.sum, lambda: matrix @ vector]
    return size / min(best(read, rounds) for read in reads)


def product_peak(precision: str, side: int, rounds: int) -> float:
    """Return the operations per second of a square product with a constant matrix."""
    dtypes = {"fp32": (ir.DataType.FLOAT, np.float32, np.float32), "int8": (ir.DataType.UINT8, np.uint8, np.int8)}
    dtype, left, right = dtypes[precision]
    tape = ir.tape.Tape()
    x = ir.Value(name="x", shape=ir.Shape([side, side]), type=ir.TensorType(dtype))
    random = np.random.default_rng(0)
    weight = tape.initializer(ir.tensor(random.integers(-60, 60, (side, side)).astype(right), name="weight"))
    y = tape.op("MatMul" if precision == "fp32" else "MatMulInteger", [x, weight])
    y.name, y.type = "y", ir.TensorType(ir.DataType.FLOAT if precision == "fp32" else ir.DataType.INT32)
    graph = ir.Graph([x], [y], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 20})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    content = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    feed = {"x": random.integers(0, 120, (side, side)).astype(left)}
    return 2 * side**3 / best(lambda: session.run(None, feed), rounds)


def best(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
