"""Measure peak memory: of loading a bundle, and of translating compared with CTranslate2, torch and optimum.

    python benchmarks/memory.py [--quick]             rows go to benchmarks/results/memory.jsonl
    python benchmarks/memory.py BUNDLE [BUNDLE ...]   only prints the memory of loading these bundles

Each measurement is a separate process, since a peak never falls. Loading is measured beyond the bare runtime, which is
a session with a graph of one node.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx_ir as ir

import models
import results
from seq2edge.bench.plan import Peers
from seq2edge.bench.run import BenchOptions, run
from seq2edge.bundle.bundle import load_bundle

CHILD = """
import sys
from pathlib import Path
from seq2edge.bench.system import peak_memory
from seq2edge.devices.session import open_session
from seq2edge.translator import Translator
session = open_session(Path(sys.argv[1]), threads=1)
translator = [Translator(folder, threads=1) for folder in sys.argv[2:]]
print(peak_memory())
"""
SOURCE, TARGET = 25, 30
PRECISIONS = ("int8", "fp32", "int4")
PEERS = ("ctranslate2", "torch", "optimum")
PYTHON = models.ROOT / ".venv-optimum/bin/python"


@click.command()
@click.argument("bundles", nargs=-1, type=click.Path(path_type=Path))
@click.option("--against", type=click.Choice(PEERS), multiple=True, default=PEERS, show_default=True)
@click.option("--optimum-python", type=click.Path(path_type=Path), default=PYTHON)
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(bundles: tuple[Path, ...], against: tuple[str, ...], optimum_python: Path, quick: bool) -> None:
    """Measure each system in a separate process."""
    if bundles:
        for folder in bundles:
            print(json.dumps(loading(folder.name, folder)))
        return
    rows = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shape = models.QUICK if quick else models.BASE
        for name, model in {
            "default": models.default_model(folder / "default", precisions=PRECISIONS),
            "base": models.base_model(folder / "base", precisions=PRECISIONS, shape=shape),
        }.items():
            rows += [loading(name, path) for path in model.bundles.values()]
            peers = Peers(names=against, checkpoint=model.checkpoint, optimum_python=optimum_python)
            rows += translating(name, model, peers, shape.source_vocabulary if name == "base" else 8000, quick)
    results.write("memory", rows, quick=quick)


def loading(work: str, folder: Path) -> results.Row:
    """Return the memory that loading a bundle takes, also relative to its size."""
    bundle, beyond = load_bundle(folder), loading_memory(folder)
    return {
        "work": work,
        "what": "loading",
        "precision": bundle.manifest.precision,
        "megabytes": round(bundle.size / 1e6, 2),
        "beyond_runtime": round(beyond / 1e6, 2),
        "ratio": round(beyond / bundle.size, 2),
    }


def loading_memory(folder: Path) -> int:
    """Return by how many bytes loading a bundle raises the peak of a process that has a session."""
    with TemporaryDirectory() as temporary:
        graph = Path(temporary) / "one.onnx"
        save_one_node(graph)
        return peak(graph, folder) - peak(graph)


def translating(work: str, model: models.Model, peers: Peers, vocabulary: int, quick: bool) -> list[results.Row]:
    """Return the peak of each system while it translates one batch, greedy and with beam 4."""
    rows = []
    for batch_size in (1, 2) if quick else (1, 32):
        options = BenchOptions(
            bundles=model.chosen(*PRECISIONS),
            batch_sizes=(batch_size,),
            num_beams=(1, 4),
            rounds=1,  # the time does not matter
            new_tokens=TARGET,
            texts=models.RandomIds(batch_size, SOURCE, vocabulary),
            peers=peers,
        )
        rows += [{**row, "what": "translating"} for row in results.rows_of(run(options), work)]
    return rows


def peak(*arguments: Path) -> int:
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def save_one_node(path: Path) -> None:
    source = ir.Value(name="x", shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Identity", [source])
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", source.shape, source.type
    ir.save(ir.Model(ir.Graph([source], node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10), path)


if __name__ == "__main__":
    main()
