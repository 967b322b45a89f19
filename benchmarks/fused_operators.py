"""Compare the fused operators of the dialect "ort" with standard ONNX operators, one thread.

    python benchmarks/fused_operators.py [--quick]        rows go to benchmarks/results/fused_operators.jsonl

Every operator has the shapes of a decoder step of the base model: width 512, 8 heads, 25 source tokens, 16 tokens in
the KV cache. The plain graph computes the same values, which is checked. Times are CPU times, the best of several
rounds in turns.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import onnxruntime
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import numpy_helper, parser

import results
from seq2edge.devices.session import BoundRun

WIDTH, HEADS, DEPTH, SOURCE, PAST, CAPACITY = 512, 8, 64, 25, 16, 32
ROWS = (1, 16, 64)
ROUNDS, CALLS = 40, 20
TOLERANCE = 1e-4
HEADER = '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>'
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """Equivalent graphs in ONNX's text format, with the fused one first, and their inputs."""

    variants: dict[str, str]
    inputs: Callable[[int, Generator], Arrays]  # for a number of rows
    constants: Arrays = field(default_factory=dict)


def normal(random: Generator, *shape: int) -> NDArray[np.float32]:
    return random.normal(size=shape).astype(np.float32)


def self_attention(rows: int, random: Generator) -> Arrays:
    keys, values = (normal(random, rows, HEADS, CAPACITY, DEPTH) for _ in range(2))
    return {
        "packed": normal(random, rows, 1, 3 * WIDTH) / 8,
        "keys": keys,
        "values": values,
        "last": np.full(rows, PAST, np.int32),
        "total": np.array([PAST + 1], np.int32),
        "past_keys": keys[:, :, :PAST].copy(),
        "past_values": values[:, :, :PAST].copy(),
    }


def cross_attention(rows: int, random: Generator) -> Arrays:
    keys, values = (normal(random, rows, HEADS, SOURCE, DEPTH) for _ in range(2))
    return {
        "q": normal(random, rows, 1, WIDTH) / 8,
        "keys": keys,
        "turned_keys": keys.swapaxes(2, 3).copy(),
        "values": values,
        "bias": np.where(np.arange(SOURCE) < SOURCE - 5, 0, -1e9).astype(np.float32) + np.zeros((rows, 1, 1, 1), "f4"),
    }


def residual(rows: int, random: Generator) -> Arrays:
    return {name: normal(random, rows, 1, WIDTH) for name in ("x", "branch")}


def rounded_rows(rows: int, random: Generator) -> Arrays:
    largest = 1 + random.random((rows, 1, 1)).astype(np.float32)
    return {"x": random.integers(1, 256, (rows, 1, WIDTH), np.uint8), "largest": largest}


def weighted(values: str) -> str:
    """Return the end of a plain attention: the softmax of the scores, and the weighted sum of the values."""
    return f"""shares = Softmax<axis = -1>(scores)
                found = MatMul(shares, {values})
                y = Reshape(found, flat)"""


RANDOM = np.random.default_rng(0)
CACHE = f"float[R,{HEADS},{CAPACITY},{DEPTH}]"
STATES = f"float[R,{HEADS},S,{DEPTH}]"
ROW = f"float[R,1,{WIDTH}]"
CASES = {
    "self-attention with its cache": Case(
        {
            "GroupQueryAttention": f"""
            a (float[R,1,{3 * WIDTH}] packed, {CACHE} keys, {CACHE} values, int32[R] last, int32[1] total)
            => ({ROW} y, {CACHE} new_keys, {CACHE} new_values) {{
                y, new_keys, new_values = com.microsoft.GroupQueryAttention
                    <num_heads = {HEADS}, kv_num_heads = {HEADS}, scale = 1.0>
                    (packed, , , keys, values, last, total)
            }}""",
            "plain": f"""
            a (float[R,1,{3 * WIDTH}] packed, {STATES} past_keys, {STATES} past_values)
            => ({ROW} y, {STATES} new_keys, {STATES} new_values)
            <int64[4] heads = {{-1, {3 * HEADS}, 1, {DEPTH}}}, int64[3] flat = {{-1, 1, {WIDTH}}}> {{
                apart = Reshape(packed, heads)
                q, k, v = Split<axis = 1, num_outputs = 3>(apart)
                new_keys = Concat<axis = 2>(past_keys, k)
                new_values = Concat<axis = 2>(past_values, v)
                turned = Transpose<perm = [0, 1, 3, 2]>(new_keys)
                scores = MatMul(q, turned)
                {weighted("new_values")}
            }}""",
        },
        self_attention,
    ),
    "cross-attention": Case(
        {
            "MultiHeadAttention": f"""
            a ({ROW} q, {STATES} keys, {STATES} values, float[R,1,1,S] bias) => ({ROW} y) {{
                y = com.microsoft.MultiHeadAttention<num_heads = {HEADS}, scale = 1.0>(q, keys, values, , , bias)
            }}""",
            "plain": f"""
            a ({ROW} q, float[R,{HEADS},{DEPTH},S] turned_keys, {STATES} values, float[R,1,1,S] bias) => ({ROW} y)
            <int64[4] heads = {{-1, {HEADS}, 1, {DEPTH}}}, int64[3] flat = {{-1, 1, {WIDTH}}}> {{
                apart = Reshape(q, heads)
                products = MatMul(apart, turned_keys)
                scores = Add(products, bias)
                {weighted("values")}
            }}""",
        },
        cross_attention,
    ),
    "residual and norm": Case(
        {
            "LayerNormalization": f"""
            a ({ROW} x, {ROW} branch) => ({ROW} y, {ROW} sum) {{
                sum = Add(x, branch)
                y = LayerNormalization<axis = -1, epsilon = 0.00001>(sum, weight, shift)
            }}""",
            "SkipLayerNormalization": f"""
            a ({ROW} x, {ROW} branch) => ({ROW} y, {ROW} sum) {{
                y, mean, deviation, sum = com.microsoft.SkipLayerNormalization<epsilon = 0.00001>
                    (x, branch, weight, shift)
            }}""",
            "plain": f"""
            a ({ROW} x, {ROW} branch) => ({ROW} y, {ROW} sum) {{
                sum = Add(x, branch)
                mean = ReduceMean(sum, axis)
                centred = Sub(sum, mean)
                squares = Mul(centred, centred)
                variance = ReduceMean(squares, axis)
                above = Add(variance, epsilon)
                deviation = Sqrt(above)
                scaled = Div(centred, deviation)
                weighted = Mul(scaled, weight)
                y = Add(weighted, shift)
            }}""",
        },
        residual,
        {
            "weight": normal(RANDOM, WIDTH),
            "shift": normal(RANDOM, WIDTH),
            "axis": np.array([-1]),
            "epsilon": np.array(1e-5, np.float32),
        },
    ),
    "8-bit product": Case(
        {
            "MatMulIntegerToFloat": f"""
            a (uint8[R,1,{WIDTH}] x, float[R,1,1] largest) => (float[R,1,{4 * WIDTH}] y) {{
                y = com.microsoft.MatMulIntegerToFloat(x, matrix, largest, scale, zero)
            }}""",
            "plain": f"""
            a (uint8[R,1,{WIDTH}] x, float[R,1,1] largest) => (float[R,1,{4 * WIDTH}] y) {{
                integers = MatMulInteger(x, matrix, zero)
                floats = Cast<to = 1>(integers)
                scaled = Mul(floats, scale)
                y = Mul(scaled, largest)
            }}""",
        },
        rounded_rows,
        {
            "matrix": RANDOM.integers(-63, 64, (WIDTH, 4 * WIDTH), np.int8),  # 7 bits, as in exported graphs
            "scale": (RANDOM.random(4 * WIDTH) / 1e5).astype(np.float32),
            "zero": np.array(128, np.uint8),
        },
    ),
}


@click.command()
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(quick: bool) -> None:
    """Write the microseconds of every variant, for several numbers of rows."""
    machine, made = results.machine(), []
    for name, case in CASES.items():
        for rows in ROWS:
            calls = {variant: bound(text, case, rows) for variant, text in case.variants.items()}
            check_equal(calls)
            for variant, seconds in in_turns(calls, 2 if quick else ROUNDS).items():
                made.append({"work": name, "rows": rows, "way": variant, "microseconds": round(1e6 * seconds, 2)})
                print(made[-1], flush=True)
    results.write("fused_operators", [{**row, "machine": machine} for row in made], quick=quick)


def bound(text: str, case: Case, rows: int) -> BoundRun:
    """Bind the outputs of a graph to allocated memory; a cache with free capacity is updated in place."""
    session = session_of(text, case.constants)
    arrays = case.inputs(rows, np.random.default_rng(rows))
    inputs = {one.name: arrays[one.name] for one in session.get_inputs()}
    sizes = {"R": rows, "S": PAST + 1}  # only the copied cache has an output of unknown size
    outputs: Arrays = {}
    for one in session.get_outputs():
        cache = inputs.get(one.name.removeprefix("new_"))
        new = np.zeros([sizes.get(size, size) for size in one.shape], np.float32)
        outputs[one.name] = new if cache is None else cache
    return BoundRun(session, inputs, outputs)


def session_of(text: str, constants: Arrays) -> onnxruntime.InferenceSession:
    model = parser.parse_model(HEADER + text)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(content, name) for name, content in constants.items() if name in read
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def check_equal(calls: dict[str, BoundRun]) -> None:
    """Check that all variants compute the same values."""
    outputs = []
    for call in calls.values():
        call()
        outputs.append(call.kept[1]["y"].copy())
    for other in outputs[1:]:
        np.testing.assert_allclose(other, outputs[0], rtol=TOLERANCE, atol=TOLERANCE)


def in_turns(calls: dict[str, BoundRun], rounds: int) -> dict[str, float]:
    """Return the best CPU seconds of each call; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.process_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.process_time() - started) / CALLS)
    return best


if __name__ == "__main__":
    main()
