"""Measure size, quality and speed of a model in every precision, and of CTranslate2 with the same weights.

    python benchmarks/precisions.py NAME BUNDLE SOURCES REFERENCES [--lines 500] [--checkpoint CHECKPOINT]

BUNDLE is in fp32 and is quantized to the other precisions; CTranslate2 gets its weights from CHECKPOINT. Quality: beam
4 on the first lines of two files, and the agreement of the most likely token with fp32 under teacher forcing. Speed:
milliseconds per sentence, greedy and beam 4 at batch 16 and greedy at batch 1, one thread, the systems taking turns,
the best of several rounds. A row is added to benchmarks/results/precisions.jsonl for each system; render.py makes the
tables and the plot.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import click
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import results
from seq2edge.bench.workload import Workload, search_options
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge.files.lines import read_lines
from seq2edge.search.batch_decode import decode
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.peers.ctranslate2 import COMPUTE_TYPES, CTranslate2System
from seq2edge_export.peers.ctranslate2_writer import write_model
from seq2edge_export.peers.interface import folder_size
from seq2edge_export.source_model import SourceModel
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle
from seq2edge_graphs.quantize.rewrite import compare_bundles

CALIBRATION_SENTENCES = 256
QUICK_LINES = 8
TIMED = {"greedy, batch 1": (1, 1), "greedy, batch 16": (1, 16), "beam 4, batch 16": (4, 16)}  # beams, batch size
TIMED_SENTENCES = 32
AGREEMENT_SENTENCES = 64
ROUNDS = 5

Translate = Callable[[list[list[int]], int, int], list[list[int]]]  # sources, beams, batch size -> target ids


@dataclass
class System:
    """A system that translates token ids to token ids."""

    name: str
    size: int
    translate: Translate
    agreement: float | None = None


@click.command()
@click.argument("name")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("sources", type=click.Path(path_type=Path))
@click.argument("references", type=click.Path(path_type=Path))
@click.option("--lines", default=500, show_default=True)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Source of BUNDLE; adds CTranslate2.")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Sentences to calibrate 4-bit weights with.")
def main(
    name: str,
    bundle: Path,
    sources: Path,
    references: Path,
    lines: int,
    checkpoint: Path | None,
    calibrate: Path | None,
    quick: bool,
) -> None:
    """Measure one model and add its rows to the results."""
    lines = QUICK_LINES if quick else lines
    texts, targets = (list(islice(read_lines(path), lines)) for path in (sources, references))
    configs = {precision: QuantizationConfig(precision=precision) for precision in ("fp16", "int8", "int4")}
    if calibrate is not None:
        sentences = list(islice(read_lines(calibrate), CALIBRATION_SENTENCES))
        configs["int4 calibrated"] = QuantizationConfig(precision="int4", calibration=sentences)
    rows = measure(name, load_bundle(bundle), texts, targets, configs, checkpoint)
    results.write("precisions", rows, quick=quick, replacing=name)


def measure(
    name: str,
    float_bundle: Bundle,
    texts: list[str],
    targets: list[str],
    configs: dict[str, QuantizationConfig],
    checkpoint: Path | None,
) -> list[results.Row]:
    tokenizer = bundle_tokenizer(float_bundle)
    ids = tokenizer.encode(texts)
    folder = Path(mkdtemp())
    try:
        systems = bundle_systems(float_bundle, folder, texts, configs)
        if checkpoint is not None:
            systems += ctranslate2_systems(load_checkpoint(checkpoint).source_model(), folder)
        times = timed(systems, ids[:TIMED_SENTENCES])
        return [row(name, system, tokenizer, ids, targets, times[system.name]) for system in systems]
    finally:
        shutil.rmtree(folder)


def bundle_systems(
    float_bundle: Bundle, folder: Path, texts: list[str], configs: dict[str, QuantizationConfig]
) -> list[System]:
    bundles = {"fp32": float_bundle}
    for index, (name, config) in enumerate(configs.items()):
        bundles[name] = quantize_bundle(float_bundle.folder, folder / str(index), config, compare=False)
    systems = []
    for precision, bundle in bundles.items():
        comparison = compare_bundles(bundle, float_bundle, texts[:AGREEMENT_SENTENCES])
        logits = comparison.forced_difference(comparison.source_targets(), 16).logits
        systems.append(
            System(
                f"seq2edge {precision}", bundle.size, translate_bundle(bundle), round(logits.same_top / logits.steps, 4)
            )
        )
    return systems


def translate_bundle(bundle: Bundle) -> Translate:
    engine = OnnxEngine(bundle, threads=1)

    def translate(sources: list[list[int]], num_beams: int, batch_size: int) -> list[list[int]]:
        options = replace(bundle.manifest.generation, num_beams=num_beams, num_return_sequences=1)
        return [hypotheses[0].tokens for hypotheses in decode(engine, sources, options, batch_size=batch_size)]

    return translate


def ctranslate2_systems(source_model: SourceModel, folder: Path) -> list[System]:
    """Return CTranslate2 in float32 and int8, with the same weights and token ids."""
    systems = []
    for precision, name in COMPUTE_TYPES.items():
        model = folder / f"ctranslate2-{precision}"
        write_model(source_model, model, precision=precision)
        peer = CTranslate2System(model, precision=precision, threads=1)
        systems.append(System(f"CTranslate2 {name}", folder_size(model), translate_peer(peer, source_model)))
    return systems


def translate_peer(peer: CTranslate2System, source_model: SourceModel) -> Translate:
    def translate(sources: list[list[int]], num_beams: int, batch_size: int) -> list[list[int]]:
        options = search_options(source_model.generation, num_beams=num_beams, longest=source_model.max_positions)
        outputs: list[list[int]] = [[]] * len(sources)
        for batch in Workload(sources).batches(batch_size):
            translated = peer.translate([sources[index] for index in batch], options).outputs
            for index, output in zip(batch, translated, strict=True):
                outputs[index] = output
        return outputs

    return translate


def timed(systems: list[System], sources: list[list[int]]) -> dict[str, dict[str, float]]:
    """Return the best milliseconds per sentence of each system; the systems take turns."""
    best: dict[str, dict[str, float]] = {system.name: {} for system in systems}
    for label, (num_beams, batch_size) in TIMED.items():
        for _ in range(ROUNDS):
            for system in systems:
                began = time.perf_counter()
                system.translate(sources, num_beams, batch_size)
                took = (time.perf_counter() - began) / len(sources) * 1e3
                best[system.name][label] = round(min(took, best[system.name].get(label, took)), 2)
    return best


def row(
    name: str,
    system: System,
    tokenizer: Tokenizer,
    ids: list[list[int]],
    targets: list[str],
    milliseconds: dict[str, float],
) -> results.Row:
    texts = tokenizer.decode(system.translate(ids, 4, 16))
    return {
        "work": name,
        "system": system.name,
        "megabytes": round(system.size / 1e6, 2),
        "bleu": round(BLEU().corpus_score(texts, [targets]).score, 2),
        "chrf": round(CHRF().corpus_score(texts, [targets]).score, 2),
        "agreement": system.agreement,
        "milliseconds": milliseconds,
        "lines": len(ids),
        "onnxruntime": version("onnxruntime"),
        "machine": results.machine(),
    }


if __name__ == "__main__":
    main()
