"""Measure the default model: BLEU and chrF, what comes through unchanged, and samples.

    python benchmarks/default_model.py [--text NAME SOURCES REFERENCES]... [--teacher BUNDLE]

The bundle of the package and the teacher translate the dev pairs in models/en-pt and every other text, with beam 4 and
greedily; the checkpoint in PyTorch, which is slow, only the dev pairs. benchmarks/results/default_model.jsonl gets the
figures; render.py makes the tables of docs/default-model.md.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import results
from models import DEFAULT_CHECKPOINT, DEFAULT_DEV
from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.files.lines import read_lines
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.source_model import translate_with_torch

SENTENCES = DEFAULT_CHECKPOINT / "sentences.en"  # that the demo translates
COPIES = DEFAULT_CHECKPOINT / "copies.tsv"  # sentences, and what has to come through, separated by |
DEV_SAMPLES = 10
DEV, PACKAGED, CHECKPOINT = "dev pairs", "packaged bundle (int8)", "checkpoint in PyTorch"
Translate = Callable[[Sequence[str], int], list[str]]  # texts, beams


@click.command()
@click.option("--text", "texts", nargs=3, multiple=True, metavar="NAME SOURCES REFERENCES", help="Text to measure on.")
@click.option("--teacher", type=click.Path(path_type=Path), help="Bundle to measure as well.")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(texts: tuple[tuple[str, Path, Path], ...], teacher: Path | None, quick: bool) -> None:
    """Measure the default model and its teacher."""
    lines = 4 if quick else None
    source = load_checkpoint(DEFAULT_CHECKPOINT).source_model()
    systems: dict[str, Translate] = {
        PACKAGED: bundle(DEFAULT_BUNDLE),
        CHECKPOINT: lambda texts, beams: translate_with_torch(source, texts, num_beams=beams),
    }
    if teacher:
        systems["teacher"] = bundle(teacher)
    rows = []
    for name, *files in [(DEV, *DEFAULT_DEV), *texts]:
        sources, references = (list(read_lines(Path(file)))[:lines] for file in files)
        for system, translate in systems.items():
            if name != DEV and system == CHECKPOINT:
                continue
            rows += [quality(name, system, beams, translate(sources, beams), references) for beams in (4, 1)]
    packaged = systems[PACKAGED]
    rows.append(copies(packaged, lines))
    rows += samples(packaged, lines)
    results.write("default_model", rows, quick=quick)


def bundle(folder: Path) -> Translate:
    translator = Translator(folder)
    return lambda texts, beams: [result.text for result in translator.translate(list(texts), num_beams=beams)]


def quality(text: str, system: str, beams: int, found: list[str], references: list[str]) -> results.Row:
    bleu = BLEU()
    row = {
        "work": "quality",
        "text": text,
        "lines": len(found),
        "system": system,
        "num_beams": beams,
        "bleu": bleu.corpus_score(found, [references]).score,
        "chrf": CHRF().corpus_score(found, [references]).score,
        "signature": str(bleu.get_signature()),
    }
    print(f"{text}, {system}, {beams} beams: BLEU {row['bleu']:.2f}, chrF {row['chrf']:.2f}")
    return row


def copies(translate: Translate, lines: int | None) -> results.Row:
    """Count the sentences in which everything comes through that must."""
    rows = [line.split("\t") for line in read_lines(COPIES)][:lines]
    found = translate([source for source, _ in rows], 4)
    lost = [
        [source, text]
        for (source, expected), text in zip(rows, found, strict=True)
        if not all(part in text for part in expected.split("|"))
    ]
    print(f"{len(rows) - len(lost)} of {len(rows)} copies; lost: {lost}")
    return {"work": "copies", "sentences": len(rows), "lost": lost}


def samples(translate: Translate, lines: int | None) -> list[results.Row]:
    """Translate the sentences of the demo, and evenly chosen ones of the dev set."""
    dev = list(read_lines(DEFAULT_DEV[0]))
    sources = [*read_lines(SENTENCES), *dev[:: len(dev) // DEV_SAMPLES]][:lines]
    return [
        {"work": "sample", "source": source, "translation": text}
        for source, text in zip(sources, translate(sources, 4), strict=True)
    ]


if __name__ == "__main__":
    main()
