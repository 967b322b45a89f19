"""Measure the speed and the quality with and without a shortlist in one process, in turns, one thread.

    python benchmarks/shortlist.py default --learn train.tsv     time, equal outputs, BLEU
    python benchmarks/shortlist.py base                           time only, with random target tokens
    python benchmarks/shortlist.py base --quick                   only checks that it runs

Times are CPU times, which other processes on the machine disturb less. The lists are learned from lines of
source<TAB>target. The base model has random weights and no quality to lose: every batch has the same 1,000 random
target tokens.
"""

import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

import models
import results
from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, Bundle, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.engine.engine import OnnxEngine
from seq2edge.engine.shortlist import Shortlist, read_shortlist, shortlist_of
from seq2edge.files.lines import read_lines
from seq2edge.search.batch_decode import decode
from seq2edge_graphs.shortlist.bundle import AlignmentData, add_shortlist, from_alignments

DEV = models.DEFAULT_DEV
BATCHES, BEAMS = (1, 32), (1, 4)
ROUNDS, RANDOM_TOKENS, FORCED = 5, 1000, 30
SENTENCES = {1: 16, 32: 64}  # that are timed, by batch size
Row = dict[str, object]


@click.group()
def main() -> None:
    """Measure a shortlist."""


@main.command()
@click.option("--learn", type=click.Path(path_type=Path), required=True)
@click.option("--dev", type=click.Path(path_type=Path), nargs=2, default=DEV, help="Texts and references.")
@click.option("--lines", default=2000, show_default=True)
@click.option("--best", default=50, show_default=True)
@click.option("--frequent", default=100, show_default=True)
@click.option("--timed/--untimed", default=True)
def default(learn: Path, dev: tuple[Path, Path], lines: int, best: int, frequent: int, timed: bool) -> None:
    """Measure the default model with learned lists."""
    sources, references = (list(islice(read_lines(path), lines)) for path in dev)
    work = f"default, {best} + {frequent} words"
    with tempfile.TemporaryDirectory() as folder:
        data = AlignmentData(pairs=learn, best=best, frequent=frequent)
        made = add_shortlist(DEFAULT_BUNDLE, Path(folder) / "short", from_alignments(data))
        rows = [loss(made, sources, references, beams, work) for beams in BEAMS]
        if timed:
            ids = Translator(DEFAULT_BUNDLE, threads=1).tokenizer.encode(sources[: max(SENTENCES.values())])
            rows += times(made, ids, made.manifest.generation, work)
    keep(rows, work)


@main.command()
@click.option("--bundle", type=click.Path(path_type=Path), help="An existing base model.")
@click.option("--precision", default="int8", show_default=True)
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def base(bundle: Path | None, precision: str, quick: bool) -> None:
    """Measure the base model: six and six layers, a vocabulary of 32,000."""
    work = f"base {precision}, {RANDOM_TOKENS} words"
    shape = models.QUICK if quick else models.BASE
    with tempfile.TemporaryDirectory() as folder:
        path = (
            bundle or models.base_model(Path(folder) / "base", precisions=(precision,), shape=shape).bundles[precision]
        )
        made = add_shortlist(path, Path(folder) / "short", random_tokens)
        ids = np.random.default_rng(0).integers(
            models.FIRST_PIECE, shape.source_vocabulary, (max(SENTENCES.values()), 24)
        )
        sources = [[*row, made.manifest.tokens.eos] for row in ids.tolist()]
        forced = {"min_new_tokens": FORCED, "max_new_tokens": FORCED}
        rows = times(made, sources, made.manifest.generation, work, **forced)
    keep(rows, work, quick=quick)


def random_tokens(bundle: Bundle) -> Shortlist:
    shape = load_bundle(bundle.folder).manifest.architecture
    assert shape is not None
    tokens = np.random.default_rng(1).choice(shape.target_vocabulary, RANDOM_TOKENS, replace=False)
    return shortlist_of([[]] * shape.source_vocabulary, tokens, shape.target_vocabulary)


def loss(made: Bundle, sources: list[str], references: list[str], beams: int, work: str) -> Row:
    """Return BLEU with and without the shortlist, and the share of equal outputs."""
    from sacrebleu.metrics.bleu import BLEU

    outputs = {
        used: [
            one.text for one in Translator(made.folder, threads=1, shortlist=used).translate(sources, num_beams=beams)
        ]
        for used in (False, True)
    }
    equal = sum(one == other for one, other in zip(*outputs.values(), strict=True)) / len(sources)
    without, with_list = (BLEU().corpus_score(texts, [references]).score for texts in outputs.values())
    return {
        "work": work,
        "beams": beams,
        "sentences": len(sources),
        "equal": round(equal, 4),
        "bleu without": round(without, 2),
        "bleu with": round(with_list, 2),
    }


def times(made: Bundle, ids: list[list[int]], generation: GenerationOptions, work: str, **changes: Any) -> list[Row]:
    """Return the best milliseconds per sentence with and without the shortlist, in turns."""
    engines = {used: OnnxEngine(made, threads=1, shortlist=used) for used in (False, True)}
    table, rows = read_shortlist(made.folder / tensor_names.SHORTLIST), []
    for beams in BEAMS:
        for batch in BATCHES:
            options = replace(generation, num_beams=beams, **changes)
            sources, best = ids[: SENTENCES[batch]], {False: float("inf"), True: float("inf")}
            for _ in range(ROUNDS):
                for used, engine in engines.items():
                    started = time.process_time()
                    decode(engine, sources, options, batch_size=batch, batch_tokens=10**9)
                    best[used] = min(best[used], time.process_time() - started)
            batches = [sources[start : start + batch] for start in range(0, len(sources), batch)]
            words = float(np.mean([table.allowed(one).any(axis=0).sum() for one in batches]))
            rows.append(
                {
                    "work": work,
                    "beams": beams,
                    "batch": batch,
                    "words": round(words),
                    "ms without": round(1000 * best[False] / len(sources), 2),
                    "ms with": round(1000 * best[True] / len(sources), 2),
                    "ratio": round(best[False] / best[True], 2),
                }
            )
            print(rows[-1], flush=True)
    return rows


def keep(rows: list[Row], work: str, *, quick: bool = False) -> None:
    for row in rows:
        print(row)
    machine = results.machine()
    results.write("shortlist", [{**row, "machine": machine} for row in rows], quick=quick, replacing=work)


if __name__ == "__main__":
    main()
