"""Profile where the time goes: the share of each operator, and of a step inside and outside the decoder graph.

    python benchmarks/nodes.py [--quick]        rows go to benchmarks/results/nodes.jsonl and steps.jsonl

Forced lengths on random token ids, one thread. Nodes are profiled by onnxruntime in a greedy search: the lower quartile
of the runs of each node counts, since other processes make the rest longer; recording a node takes about a microsecond,
so graphs of small nodes look slower than they are. Steps are measured without the profiler, as the best of several
rounds.
"""

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import click
import numpy as np
import onnxruntime

import models
import results
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.session import open_session, slow_fusions
from seq2edge.engine.engine import OnnxEngine
from seq2edge.search.batch_decode import decode

SOURCE, TARGET = 25, 30
PIECES = 300  # token ids that every vocabulary here has
REPEATS, ROUNDS = 3, 7
SHOWN = 8  # operators per graph; the others are summed
BEAMS = (1, 4)
CASES = {
    "base": (("int8", 1), ("int8", 64), ("fp32", 64)),
    "opus": (("int8", 32),),
    "default": (("int8", 1), ("int8", 32)),
}


@dataclass(frozen=True)
class Case:
    """A bundle that decodes batches of one size."""

    work: str
    bundle: Bundle
    batch_size: int

    @property
    def columns(self) -> results.Row:
        return {"work": self.work, "precision": self.bundle.manifest.precision, "batch_size": self.batch_size}

    def options(self, num_beams: int) -> GenerationOptions:
        options = replace(self.bundle.manifest.generation, num_beams=num_beams, num_return_sequences=1)
        return replace(options, min_new_tokens=TARGET, max_new_tokens=TARGET)

    def translate(self, engine: OnnxEngine, num_beams: int) -> None:
        ids = np.random.default_rng(0).integers(models.FIRST_PIECE, PIECES, (self.batch_size, SOURCE - 1)).tolist()
        sources = [[*row, self.bundle.manifest.tokens.eos] for row in ids]
        decode(engine, sources, self.options(num_beams), batch_tokens=10**9, most_rows=engine.most_rows)


@click.command()
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(quick: bool) -> None:
    """Profile all models."""
    nodes: list[results.Row] = []
    steps: list[results.Row] = []
    with TemporaryDirectory() as temporary:
        for case in cases(Path(temporary), quick):
            nodes += profile(case)
            steps += [step(case, beams, 1 if quick else ROUNDS) for beams in BEAMS]
            print(*map(described, nodes[-2:]), *map(described, steps[-2:]), sep="\n", flush=True)
    results.write("nodes", nodes, quick=quick)
    results.write("steps", steps, quick=quick)


def described(row: results.Row) -> str:
    return ", ".join(f"{name} {value:.3f}" if isinstance(value, float) else f"{value}" for name, value in row.items())


def cases(folder: Path, quick: bool) -> list[Case]:
    shape = models.QUICK if quick else models.BASE
    made = {
        "base": models.base_model(folder / "base", precisions=("int8",), shape=shape),
        "opus": models.opus_model(folder / "opus", precisions=("int8",)),
        "default": models.default_model(folder / "default", precisions=("int8",)),
    }
    return [
        Case(work, load_bundle(made[work].bundles[precision]), min(size, 4) if quick else size)
        for work, settings in CASES.items()
        for precision, size in settings
    ]


def profile(case: Case) -> list[results.Row]:
    """Return a row for each graph."""
    with TemporaryDirectory() as folder:

        def open_graph(path: Path, **_: Any) -> onnxruntime.InferenceSession:
            return open_profiled(path, Path(folder) / path.stem)

        engine = OnnxEngine(case.bundle, threads=1, open_session=open_graph)
        for _ in range(REPEATS):
            case.translate(engine, 1)
        sessions = {"encoder": engine.encoder, "decoder": engine.decoder}
        return [
            {**case.columns, "graph": name, **shares(Path(session.end_profiling()))}
            for name, session in sessions.items()
        ]


def open_profiled(path: Path, prefix: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_profiling, options.profile_file_prefix = True, str(prefix)
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=slow_fusions()
    )


def shares(path: Path) -> results.Row:
    """Return the milliseconds of a run of a graph, and the share of each operator, largest first."""
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


class TimedSession:
    """A session that measures how long it runs."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.session = session
        self.reset()

    def reset(self) -> None:
        self.seconds, self.calls = 0.0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, *arguments: Any) -> Any:
        return self._timed(self.session.run, arguments)

    def run_with_iobinding(self, *arguments: Any) -> Any:
        return self._timed(self.session.run_with_iobinding, arguments)

    def _timed(self, call: Any, arguments: tuple[Any, ...]) -> Any:
        started = time.perf_counter()
        result = call(*arguments)
        self.seconds, self.calls = self.seconds + time.perf_counter() - started, self.calls + 1
        return result


def step(case: Case, num_beams: int, rounds: int) -> results.Row:
    """Return the milliseconds of a step in the decoder and outside both graphs (numpy, Python), in the best round."""
    timed: dict[str, TimedSession] = {}

    def open_timed(path: Path, **options: Any) -> onnxruntime.InferenceSession:
        timed[path.name] = TimedSession(open_session(path, **options))
        return cast(Any, timed[path.name])

    engine = OnnxEngine(case.bundle, threads=1, open_session=open_timed)
    encoder, decoder = timed[tensor_names.ENCODER], timed[tensor_names.DECODER]
    measured = []
    for _ in range(rounds + 1):
        encoder.reset()
        decoder.reset()
        started = time.perf_counter()
        case.translate(engine, num_beams)
        seconds = time.perf_counter() - started
        outside = seconds - encoder.seconds - decoder.seconds
        measured.append((seconds, decoder.seconds / decoder.calls, outside / decoder.calls))
    _, decoding, outside = min(measured)
    return {**case.columns, "num_beams": num_beams, "decoder": 1e3 * decoding, "outside": 1e3 * outside}


if __name__ == "__main__":
    main()
