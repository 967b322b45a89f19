"""Size, quality and speed of a model in every precision, side by side, and beside CTranslate2 where it is given.

    python benchmarks/precisions.py NAME BUNDLE SOURCES REFERENCES [--lines 500] [--ctranslate2 FOLDER]

BUNDLE is in fp32; the others are made from it as ``seq2edge quantize`` makes them. Quality: beam 4 on the first lines
of two files, and the likeliest token under teacher forcing beside fp32. Speed: milliseconds a sentence, greedy and
beam 4 at batch 16 and greedy at batch 1, one thread, all systems in turn, the best of several rounds. A row is added to
benchmarks/results/precisions.jsonl for each system; ``--show`` prints the table and draws the picture of all rows.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import click
from sacrebleu.metrics import BLEU, CHRF

from seq2edge.bundle import Bundle, load_bundle
from seq2edge.decoding import decode
from seq2edge.lines import read_lines
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.tokenizer import Tokenizer, load_tokenizer
from seq2edge_graphs.quantize.beside import beside
from seq2edge_graphs.quantize.bundle import quantize_bundle
from seq2edge_graphs.quantize.wish import Wish

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "precisions.jsonl"
PICTURE = ROOT / "docs" / "quantization.png"
CALIBRATION_SENTENCES = 256
TIMED = {"greedy, batch 1": (1, 1), "greedy, batch 16": (1, 16), "beam 4, batch 16": (4, 16)}  # beams, batch size
LABELS = {"CTranslate2 float32": (9, -14), "CTranslate2 int8": (15, -1), "seq2edge int8": (-6, 15)}  # points
TIMED_SENTENCES = 32
AGREEMENT_SENTENCES = 64
ROUNDS = 3

Translate = Callable[[list[list[int]], int, int], list[list[int]]]  # sources, beams, batch size -> target ids


@dataclass
class System:
    """Something that translates ids to ids."""

    name: str
    size: int
    translate: Translate
    agreement: float | None = None


@click.command()
@click.argument("name", required=False)
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.argument("sources", type=click.Path(path_type=Path), required=False)
@click.argument("references", type=click.Path(path_type=Path), required=False)
@click.option("--lines", default=500, show_default=True)
@click.option("--ctranslate2", "other", type=click.Path(path_type=Path), help="The same model for CTranslate2.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Sentences to fit the rounding to 4 bits to.")
@click.option("--show", is_flag=True, help="Only print the table and draw the picture of what was measured before.")
def main(
    name: str,
    bundle: Path,
    sources: Path,
    references: Path,
    lines: int,
    other: Path | None,
    calibrate: Path | None,
    show: bool,
) -> None:
    """Measure one model and add its rows to the results."""
    if not show:
        texts, targets = (list(islice(read_lines(path), lines)) for path in (sources, references))
        wishes = {precision: Wish(precision=precision) for precision in ("fp16", "int8", "int4")}
        if calibrate is not None:
            sentences = list(islice(read_lines(calibrate), CALIBRATION_SENTENCES))
            wishes["int4 calibrated"] = Wish(precision="int4", calibration=sentences)
        measure(name, load_bundle(bundle), texts, targets, wishes, other)
    rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    print(table(rows))
    draw(rows)


def measure(
    name: str, original: Bundle, texts: list[str], targets: list[str], wishes: dict[str, Wish], other: Path | None
) -> None:
    manifest = original.manifest
    files = {file: original.folder / file for file in manifest.files}
    tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files)
    ids = tokenizer.encode(texts)
    folder = Path(mkdtemp())
    try:
        systems = our_systems(original, folder, texts, wishes)
        if other is not None:
            systems += their_systems(other, tokenizer)
        times = timed(systems, ids[:TIMED_SENTENCES])
        rows = [row(name, system, tokenizer, ids, targets, times[system.name]) for system in systems]
    finally:
        shutil.rmtree(folder)
    kept = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    kept = [line for line in kept if json.loads(line)["model"] != name]
    text = "\n".join([*kept, *(json.dumps(one, ensure_ascii=False) for one in rows)]) + "\n"
    RESULTS.write_text(text, encoding="utf-8")


def our_systems(original: Bundle, folder: Path, texts: list[str], wishes: dict[str, Wish]) -> list[System]:
    made = {"fp32": original}
    for place, (name, wish) in enumerate(wishes.items()):
        made[name] = quantize_bundle(original.folder, folder / str(place), wish, compare=False)
    systems = []
    for precision, bundle in made.items():
        comparison = beside(bundle, original, texts[:AGREEMENT_SENTENCES])
        logits = comparison.force(comparison.original_greedy(), (16,)).logits
        systems.append(
            System(f"seq2edge {precision}", bundle.size, ours(bundle), round(logits.same_top / logits.steps, 4))
        )
    return systems


def ours(bundle: Bundle) -> Translate:
    engine = OnnxEngine(bundle, threads=1)

    def translate(sources: list[list[int]], num_beams: int, batch_size: int) -> list[list[int]]:
        options = replace(bundle.manifest.generation, num_beams=num_beams, num_return_sequences=1)
        return [found[0].tokens for found in decode(engine, sources, options, batch_size=batch_size)]

    return translate


def their_systems(folder: Path, tokenizer: Tokenizer) -> list[System]:
    """CTranslate2 in float32 and int8, with the same ids."""
    import ctranslate2

    size = sum(file.stat().st_size for file in folder.iterdir())  # without the tokenizer

    def system(kind: str) -> System:
        translator = ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=1, intra_threads=1)

        def translate(sources: list[list[int]], num_beams: int, batch_size: int) -> list[list[int]]:
            pieces = [[tokenizer.source.piece(token) for token in source[:-1]] for source in sources]  # it adds the end
            found = translator.translate_batch(pieces, beam_size=num_beams, max_batch_size=batch_size)
            return [[known[token] for token in one.hypotheses[0]] for one in found]

        return System(f"CTranslate2 {kind}", size, translate)

    known = {tokenizer.target.piece(number): number for number in range(tokenizer.target.get_piece_size())}
    return [system("float32"), system("int8")]


def timed(systems: list[System], sources: list[list[int]]) -> dict[str, dict[str, float]]:
    """The best milliseconds a sentence of each system, all in turn."""
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
) -> dict[str, object]:
    texts = tokenizer.decode(system.translate(ids, 4, 16))
    return {
        "model": name,
        "system": system.name,
        "megabytes": round(system.size / 1e6, 2),
        "bleu": round(BLEU().corpus_score(texts, [targets]).score, 2),
        "chrf": round(CHRF().corpus_score(texts, [targets]).score, 2),
        "agreement": system.agreement,
        "milliseconds": milliseconds,
        "lines": len(ids),
        "onnxruntime": version("onnxruntime"),
    }


def table(rows: list[dict[str, object]]) -> str:
    """The rows in Markdown."""
    head = ["model", "system", "MB", "BLEU", "chrF", "token agreement", *(f"ms: {label}" for label in TIMED)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in rows:
        agreement = "" if one["agreement"] is None else f"{one['agreement']:.2%}"
        cells = [one["model"], one["system"], one["megabytes"], f"{one['bleu']:.2f}", f"{one['chrf']:.2f}", agreement]
        cells += [f"{one['milliseconds'][label]:.1f}" for label in TIMED]  # type: ignore[index]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def draw(rows: list[dict[str, object]]) -> None:
    """Size against BLEU, and the faster the larger the dot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(str(one["model"]) for one in rows))
    figure = Figure(figsize=(5.5 * len(models), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for number, model in enumerate(models, start=1):
        axes = figure.add_subplot(1, len(models), number)
        of_model = [one for one in rows if one["model"] == model]
        speeds = [1 / one["milliseconds"]["greedy, batch 16"] for one in of_model]  # type: ignore[index]
        for one, speed in zip(of_model, speeds, strict=True):
            colour = "tab:orange" if str(one["system"]).startswith("CTranslate2") else "tab:blue"
            axes.scatter(one["megabytes"], one["bleu"], s=60 + 240 * speed / max(speeds), color=colour, alpha=0.7)
            offset = LABELS.get(str(one["system"]), (9, 5))
            place = one["megabytes"], one["bleu"]
            axes.annotate(str(one["system"]), place, fontsize=8, textcoords="offset points", xytext=offset)
        axes.set(
            title=model,
            xlabel="megabytes",
            ylabel="BLEU, beam 4",
            xlim=(0, 1.35 * max(one["megabytes"] for one in of_model)),
        )
        axes.margins(y=0.3)
        axes.grid(alpha=0.3)
    figure.suptitle("Size and quality; the larger the dot, the faster (greedy, batch 16)", fontsize=10)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
