"""Compare the speed with PyTorch, CTranslate2 and optimum: same weights, tokens and search, in turns, one thread.

    python benchmarks/versus_peers.py [--work base|opus|default] [--quick] [--flores ZH EN]

(base) seeded weights, 25 source tokens, 30 target tokens forced, batches of 1, 16 and 64; (opus) OPUS-MT on the given
Chinese lines, such as those of FLORES-200 dev, or on a small built-in set, batches of 32; (default) the default model
on its dev pairs, batches of 1 and 32. Greedy and beam 4, in int8 and fp32, at batch 1 also in int4.
Rows go to benchmarks/results/versus_peers.jsonl; with --quick, small runs that only check that everything works go to
build/bench/results.
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click

import models
import results
from seq2edge.bench.plan import Peers
from seq2edge.bench.render import describe
from seq2edge.bench.report import Report
from seq2edge.bench.run import BenchOptions, run
from seq2edge.bench.workload import BenchTexts, WorkloadSource
from seq2edge.cli.progress import steps
from seq2edge.files.lines import read_lines

BEAMS = (1, 4)
SOURCE_TOKENS, TARGET_TOKENS = 25, 30
SENTENCES_AT_BATCH_1 = 4  # of the base model, whose sentences all have the same length
ROUNDS, QUICK_ROUNDS = 5, 2
IN_BATCHES = ("int8", "fp32")
ONE_BY_ONE = ("int8", "fp32", "int4")  # at batch 1
PEERS = ("ctranslate2", "torch", "optimum")
DEFAULT_LINES = 64
FILE = click.Path(path_type=Path, exists=True)
Pair = tuple[Path, Path] | None


@click.command()
@click.option("--work", "works", type=click.Choice(("base", "opus", "default")), multiple=True, help="Default: all.")
@click.option("--against", type=click.Choice(PEERS), multiple=True, default=PEERS, show_default=True)
@click.option("--flores", type=FILE, nargs=2, envvar="FLORES", help="Chinese lines and English references.")
@click.option("--lines", default=32, show_default=True, help="Number of lines of FLORES.")
@click.option("--optimum-python", type=click.Path(path_type=Path), default=models.ROOT / ".venv-optimum/bin/python")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(
    works: tuple[str, ...],
    against: tuple[str, ...],
    flores: Pair,
    lines: int,
    optimum_python: Path,
    quick: bool,
) -> None:
    """Run the benchmarks one after the other."""
    measure: dict[str, Callable[[Path, Callable[..., Report]], list[results.Row]]] = {
        "base": lambda folder, bench: base(folder, bench, quick),
        "opus": lambda folder, bench: opus(folder, bench, chinese(flores, lines, quick)),
        "default": lambda folder, bench: default_rows(folder, bench, quick),
    }
    for name in works or tuple(measure):

        def bench(model: models.Model, precisions: tuple[str, ...], **settings: object) -> Report:
            peers = Peers(names=against, checkpoint=model.checkpoint, optimum_python=optimum_python)
            options = BenchOptions(
                bundles=model.chosen(*precisions),
                num_beams=BEAMS,
                rounds=QUICK_ROUNDS if quick else ROUNDS,
                memory=False,  # benchmarks/memory.py measures it
                peers=peers,
                **settings,  # type: ignore[arg-type]
            )
            with steps() as begin:
                report = run(options, begin=begin)
            print(describe(report), end="\n\n", flush=True)
            return report

        with TemporaryDirectory() as folder:
            rows = measure[name](Path(folder), bench)
        results.write("versus_peers", rows, quick=quick, replacing=name)


def base(folder: Path, bench: Callable[..., Report], quick: bool) -> list[results.Row]:
    shape = models.QUICK if quick else models.BASE
    model = models.base_model(folder, precisions=ONE_BY_ONE, shape=shape)
    rows = []
    for batch_size in (1, 4) if quick else (1, 16, 64):
        texts = models.RandomIds(max(batch_size, SENTENCES_AT_BATCH_1), SOURCE_TOKENS, shape.source_vocabulary)
        precisions = ONE_BY_ONE if batch_size == 1 else IN_BATCHES
        report = bench(model, precisions, texts=texts, batch_sizes=(batch_size,), new_tokens=TARGET_TOKENS)
        rows += results.rows_of(report, "base")
    return rows


def opus(folder: Path, bench: Callable[..., Report], texts: WorkloadSource) -> list[results.Row]:
    model = models.opus_model(folder, precisions=("int8",))
    sentences = len(texts.sources or ())  # type: ignore[attr-defined]
    report = bench(model, IN_BATCHES, texts=texts, batch_sizes=(min(32, sentences),))
    return results.rows_of(report, "opus")


def default_rows(folder: Path, bench: Callable[..., Report], quick: bool) -> list[results.Row]:
    model = models.default_model(folder, precisions=ONE_BY_ONE)
    texts = given(models.DEFAULT_DEV, 4 if quick else DEFAULT_LINES)
    rows = []
    for batch_size in (1, 4) if quick else (1, 32):
        precisions = ONE_BY_ONE if batch_size == 1 else IN_BATCHES
        rows += results.rows_of(bench(model, precisions, texts=texts, batch_sizes=(batch_size,)), "default")
    return rows


def chinese(flores: Pair, lines: int, quick: bool) -> BenchTexts:
    if flores:
        return given(flores, 4 if quick else lines)
    sentences = list(read_lines(Path(__file__).with_name("sentences.zh.txt")))
    return BenchTexts(sentences[: 4 if quick else None])


def given(pair: tuple[Path, Path], lines: int) -> BenchTexts:
    sources, references = (list(islice(read_lines(path), lines)) for path in pair)
    return BenchTexts(sources, references)


if __name__ == "__main__":
    main()
