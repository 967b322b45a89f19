"""Latency of the embedded model: the bundle in onnxruntime beside the checkpoint in PyTorch, alternating, one thread.

    python benchmarks/versus_torch.py          writes benchmarks/results/versus_torch.jsonl

Both decode the same sentences with the same search and the same options.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import click
import torch

from seq2edge.bundle import load_bundle
from seq2edge.decoding import Engine, decode
from seq2edge.generation import GenerationOptions
from seq2edge.onnx_engine import OnnxEngine
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.torch_engine import TorchEngine

ROOT = Path(__file__).parents[1]
SENTENCES = (ROOT / "benchmarks" / "sentences.txt").read_text(encoding="utf-8").splitlines()
RESULTS = ROOT / "benchmarks" / "results" / "versus_torch.jsonl"
ROUNDS = 7


@click.command()
@click.option("--checkpoint", type=click.Path(path_type=Path), default=ROOT / "models" / "en-de")
@click.option("--bundle", type=click.Path(path_type=Path), default=ROOT / "runtime" / "seq2edge" / "models" / "en-de")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS)
def main(checkpoint: Path, bundle: Path, output: Path) -> None:
    """Time both on the built-in sentences, for several batch sizes and beams."""
    torch.set_num_threads(1)
    original, loaded = load_checkpoint(checkpoint).original(), load_bundle(bundle)
    sources = original.tokenizer().encode(SENTENCES)
    engines: dict[str, Engine] = {
        "torch": TorchEngine(original.graphs, pad=original.tokens.pad),
        "seq2edge": OnnxEngine(loaded, threads=1),
    }
    facts = {"precision": loaded.manifest.precision, "sentences": len(sources), "rounds": ROUNDS, **machine()}
    rows = []
    for num_beams in (1, 4):
        options = replace(original.generation, num_beams=num_beams)
        for batch_size in (1, 16):
            runs = {name: runner(engine, sources, options, batch_size) for name, engine in engines.items()}
            rows.append({"num_beams": num_beams, "batch_size": batch_size, **alternate(runs, len(sources)), **facts})
            print(json.dumps(rows[-1]))
    output.parent.mkdir(exist_ok=True)
    output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def runner(
    engine: Engine, sources: list[list[int]], options: GenerationOptions, batch_size: int
) -> Callable[[], object]:
    return lambda: decode(engine, sources, options, batch_size=batch_size)


def alternate(runs: dict[str, Callable[[], object]], sentences: int) -> dict[str, float]:
    """Milliseconds a sentence, the best of some rounds in turns, after one round to warm up."""
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(ROUNDS + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if turn:
                best[name] = min(best[name], time.perf_counter() - started)
    times = {f"{name}_ms": round(1000 * seconds / sentences, 2) for name, seconds in best.items()}
    return {**times, "speedup": round(best["torch"] / best["seq2edge"], 2)}


def machine() -> dict[str, str]:
    return {
        "cpu": cpu_name(),
        "threads": "1",
        "python": platform.python_version(),
        "torch": version("torch"),
        "onnxruntime": version("onnxruntime"),
    }


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())


if __name__ == "__main__":
    main()
