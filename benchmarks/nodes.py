"""Where the time of a step goes: each operator's share of the encoder and of the decoder, by onnxruntime's profile.

    python benchmarks/nodes.py [--quick]        rows go to benchmarks/results/nodes.jsonl

Greedy search with forced lengths on random ids, one thread, in int8. Of each node the lower quartile over all its runs
counts, as what else the machine does makes the others longer; noting a node takes about a microsecond, so that graphs
of small nodes look slower than they are.
"""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import onnxruntime

import models
import results
from seq2edge import names
from seq2edge.bundle import load_bundle
from seq2edge.decoding import decode
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.sessions import slow_fusions

SOURCE, TARGET = 25, 30
PIECES = 300  # of every vocabulary here
REPEATS = 3
SHOWN = 8  # operators of a graph; the others are one row


@click.command()
@click.option("--quick", is_flag=True, help="Only show that it runs.")
def main(quick: bool) -> None:
    """Profile the base and the embedded model."""
    rows: list[results.Row] = []
    with TemporaryDirectory() as temporary:
        base = models.base_model(
            Path(temporary), precisions=("int8",), shape=models.QUICK if quick else models.BASE
        ).bundles["int8"]
        (embedded,) = models.embedded_model(Path(temporary) / "embedded", precisions=("int8",)).chosen("int8")
        for work, bundle in (("base", base), ("embedded", embedded)):
            for batch_size in (1, 4) if quick else (1, 64):
                rows += profile(work, bundle, batch_size)
    for row in rows:
        took = f"{row['milliseconds']:.3f} ms, {row['nodes']} nodes"
        print(f"{row['work']}, batch {row['batch_size']}, {row['graph']}: {took}")
        print("   ", ", ".join(f"{name} {share:.0%}" for name, share in row["shares"].items()))
    results.write("nodes", rows, quick=quick)


def profile(work: str, folder: Path, batch_size: int) -> list[results.Row]:
    """A row for each graph."""
    bundle = load_bundle(folder)
    generation = bundle.manifest.generation
    ids = np.random.default_rng(0).integers(models.FIRST_PIECE, PIECES, (batch_size, SOURCE - 1)).tolist()
    sources = [[*row, bundle.manifest.tokens.eos] for row in ids]
    options = replace(generation, num_beams=1, num_return_sequences=1, min_new_tokens=TARGET, max_new_tokens=TARGET)
    engine = OnnxEngine(bundle, threads=1)
    with TemporaryDirectory() as temporary:
        engine.encoder = profiled(folder / names.ENCODER, Path(temporary) / "encoder")
        engine.decoder = profiled(folder / names.DECODER, Path(temporary) / "decoder")
        for _ in range(REPEATS):
            decode(engine, sources, options, batch_size=batch_size, batch_tokens=10**9)
        sessions = {"encoder": engine.encoder, "decoder": engine.decoder}
        return [
            {"work": work, "batch_size": batch_size, "graph": name, **shares(Path(session.end_profiling()))}
            for name, session in sessions.items()
        ]


def profiled(path: Path, prefix: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_profiling, options.profile_file_prefix = True, str(prefix)
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=slow_fusions()
    )


def shares(path: Path) -> results.Row:
    """Milliseconds of one run of a graph, and each operator's share of them, the largest first."""
    runs: dict[str, list[int]] = defaultdict(list)
    operators: dict[str, str] = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            node = event["args"]["node_index"]
            operators[node] = event["args"]["op_name"]
            runs[node].append(event["dur"])
    times: Counter[str] = Counter()
    for node, microseconds in runs.items():
        times[operators[node]] += sorted(microseconds)[len(microseconds) // 4]
    total = sum(times.values())
    most = times.most_common(SHOWN)
    rest = total - sum(time for _, time in most)
    return {
        "milliseconds": total / 1e3,
        "nodes": len(runs),
        "shares": {name: round(time / total, 3) for name, time in (*most, ("others", rest))},
    }


if __name__ == "__main__":
    main()
