"""Measure how the time grows with length, batch size and vocabulary: base model in int8 and CTranslate2, one thread.

    python benchmarks/growth.py [--quick]        rows go to benchmarks/results/growth.jsonl

Greedy search with forced lengths. The defaults are 25 source tokens, 30 target tokens, a batch of 16 and a vocabulary
of 32,000.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

import models
import results
from seq2edge.bench.plan import Peers
from seq2edge.bench.run import BenchOptions, run

LENGTHS, BATCHES, VOCABULARIES = (10, 20, 40, 80, 160), (1, 2, 4, 8, 16, 32, 64), (8000, 16_000, 64_000)
QUICK_LENGTHS, QUICK_BATCHES, QUICK_VOCABULARIES = (5, 10), (1, 2), (8000,)
SOURCE, TARGET, BATCH = 25, 30, 16
ROUNDS = 5


@click.command()
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(quick: bool) -> None:
    """Vary one size at a time."""
    rows = []
    with TemporaryDirectory() as temporary:
        for row in grow(Path(temporary), quick):
            rows.append(row)
            print(row["work"], row["size"], row["system"], f"{1e3 * min(row['rounds']):.1f} ms", flush=True)
    results.write("growth", rows, quick=quick)


def grow(folder: Path, quick: bool) -> Iterator[results.Row]:
    shape = models.QUICK if quick else models.BASE
    model = models.base_model(folder / "base", precisions=("int8",), shape=shape)
    measure = measuring(quick)
    for length in QUICK_LENGTHS if quick else LENGTHS:
        yield from measure("length", length, model, shape.source_vocabulary, length=length, new_tokens=length)
    for batch in QUICK_BATCHES if quick else BATCHES:
        yield from measure("batch", batch, model, shape.source_vocabulary, batch=batch)
    yield from measure("vocabulary", shape.target_vocabulary, model, shape.source_vocabulary)
    for vocabulary in QUICK_VOCABULARIES if quick else VOCABULARIES:
        wider = replace(shape, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
        other = models.base_model(folder / str(vocabulary), precisions=("int8",), shape=wider)
        yield from measure("vocabulary", vocabulary, other, vocabulary)


def measuring(quick: bool) -> Callable[..., Iterator[results.Row]]:
    def measure(
        work: str,
        size: int,
        model: models.Model,
        vocabulary: int,
        *,
        length: int = SOURCE,
        new_tokens: int = TARGET,
        batch: int = BATCH,
    ) -> Iterator[results.Row]:
        options = BenchOptions(
            bundles=model.chosen("int8"),
            batch_sizes=(batch,),
            rounds=2 if quick else ROUNDS,
            new_tokens=new_tokens,
            memory=False,
            texts=models.RandomIds(batch, length, vocabulary),
            peers=Peers(names=("ctranslate2",), checkpoint=model.checkpoint),
        )
        yield from ({**row, "size": size} for row in results.rows_of(run(options), work))

    return measure


if __name__ == "__main__":
    main()
