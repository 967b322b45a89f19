"""Measure BLEU and chrF of checkpoints (in PyTorch) and of bundles on sentence pairs.

python benchmarks/quality.py PAIRS.tsv --checkpoint models/en-de --bundle runtime/seq2edge/models/en-de
"""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2edge import Translator
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.source_model import translate_with_torch
from seq2edge_export.training.data import read_pairs


@click.command()
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option("--checkpoint", "checkpoints", multiple=True, type=click.Path(path_type=Path))
@click.option("--bundle", "bundles", multiple=True, type=click.Path(path_type=Path))
@click.option("--num-beams", default=4, show_default=True)
@click.option("--samples", default=0, help="Also print this many sentences, taken evenly from the file.")
def main(pairs: Path, checkpoints: tuple[Path, ...], bundles: tuple[Path, ...], num_beams: int, samples: int) -> None:
    """Translate the first column of PAIRS and compare with the second."""
    data = read_pairs(pairs)
    for folder in checkpoints:
        texts = translate_with_torch(load_checkpoint(folder).source_model(), data.sources, num_beams=num_beams)
        report("checkpoint", folder, texts, data.targets)
        show(samples, data.sources, data.targets, texts)
    for folder in bundles:
        results = Translator(folder).translate(data.sources, num_beams=num_beams)
        texts = [result.text for result in results]
        report("bundle", folder, texts, data.targets)
        show(samples, data.sources, data.targets, texts)


def report(kind: str, folder: Path, texts: Sequence[str], references: Sequence[str]) -> None:
    bleu, chrf = BLEU(), CHRF()
    row = {
        "kind": kind,
        "model": folder.name,
        "bleu": round(bleu.corpus_score(texts, [references]).score, 2),
        "chrf": round(chrf.corpus_score(texts, [references]).score, 2),
        "signature": str(bleu.get_signature()),
    }
    print(json.dumps(row))


def show(count: int, sources: Sequence[str], references: Sequence[str], texts: Sequence[str]) -> None:
    for index in range(0, len(sources), max(1, len(sources) // count)) if count else ():
        print(f"| {sources[index]} | {texts[index]} | {references[index]} |")


if __name__ == "__main__":
    main()
