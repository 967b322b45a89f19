"""``seq2edge corpus``: translate large corpora on one machine or on a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge.cli.click_options import device_options, grouped_help, options_of, signature_option, take_set
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.text import TextOptions

if TYPE_CHECKING:
    from seq2edge.corpus.run import CorpusReport, Engine
    from seq2edge.corpus.worker import Worker

GROUPS: dict[str, type | str] = {
    "Input and output": "model source target column output_column keep resume",
    "Workers": "engine address concurrency cpus_per_worker",
    "Text": TextOptions,
    "Search": GenerationOptions,
    "Device": "device provider_options strict_device require_signature shortlist",
}
EXAMPLES = {
    "--input data/ --output translated/ --column body": "all files of a folder: .parquet, .jsonl, .csv or .txt",
    "--input 's3://bucket/*.parquet' --output s3://bucket/pt --engine ray --address auto": "on a Ray cluster",
    "--input data/ --output translated/ --column body --resume": "after an interruption",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.option("-m", "--model", help="Bundle folder; if omitted, the default model.")
@click.option(
    "--input", "source", required=True, help="A file, a folder or a pattern; a path or an s3, gs or hdfs URI."
)
@click.option("--output", "target", required=True, help="Folder to create, with a file for each input file.")
@click.option("--column", default="text", show_default=True, help="Column to translate.")
@click.option("--output-column", default="translation", show_default=True, help="Column of the translations.")
@click.option("--keep", default="", metavar="score,notes", help="Columns to add besides the translation.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run with this output, if any.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where to run.")
@click.option("--address", help="Ray cluster, such as auto or ray://host:10001; if omitted, Ray starts here.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Workers; if omitted, as many as there are CPUs.")
@click.option(
    "--cpus-per-worker", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of a worker."
)
@device_options()
@signature_option
@click.option("--shortlist/--no-shortlist", default=True, help="Restrict the output to the bundle's shortlist, if any.")
@options_of(TextOptions, unset=True)
@options_of(GenerationOptions, unset=True)
def command(
    source: str,
    target: str,
    resume: bool,
    engine: str,
    address: str | None,
    concurrency: int | None,
    cpus_per_worker: int,
    **values: Any,
) -> None:
    """Translate a column of Parquet, JSON lines or CSV files, or the lines of text files.

    Each input file gives one output file, which appears when it is complete; other columns stay as they are. Rows that
    cannot be translated go to FILE.poisoned.jsonl with the reason. Repeat the command with --resume after an
    interruption of any kind: no row is lost or translated twice.
    """
    from seq2edge.cli.progress import is_terminal, status
    from seq2edge.corpus.run import CHUNK_ROWS, RAY_CHUNK_ROWS, count_rows, plan, run
    from seq2edge.devices.cpu import share_cpus
    from seq2edge.errors import UsageError

    if address is not None and engine == "local":
        raise UsageError("--address needs --engine ray")
    workers, threads = share_cpus(concurrency, cpus_per_worker, many=True)
    worker = _worker(values, workers=workers if engine == "local" else 1, threads=threads)
    job = plan(source, target, worker, chunk_rows=CHUNK_ROWS if engine == "local" else RAY_CHUNK_ROWS)
    with (
        _engine(engine, address, concurrency, cpus_per_worker) as chosen,
        status(count_rows(job) if is_terminal() else None, unit="rows") as update,
    ):
        report = run(job, chosen, resume=resume, observe=update)
    _report(report, target)


def _worker(values: dict[str, Any], *, workers: int, threads: int | None) -> "Worker":
    """Return the worker that the options describe."""
    from seq2edge.corpus.worker import Worker
    from seq2edge.devices.registry import parse_options

    options = take_set(TextOptions, values) | take_set(GenerationOptions, values)
    model, keep = values.pop("model"), values.pop("keep")
    names = {name: values.pop(name) for name in ("column", "output_column")}
    loading = {**values, "workers": workers, "threads": threads}
    loading["provider_options"] = parse_options(values["provider_options"])
    return Worker(
        bundle=None if model is None else str(Path(model).absolute()),
        keep=tuple(filter(None, keep.split(","))),
        loading=loading,
        options=options,
        **names,
    )


@contextmanager
def _engine(name: str, address: str | None, concurrency: int | None, cpus: int) -> "Iterator[Engine]":
    """Yield the engine; a cluster that does not answer is an error before anything is written."""
    if name == "local":
        from seq2edge.corpus.run import local_engine

        yield local_engine
        return
    from seq2edge.corpus.ray_engine import RayEngine, connected

    with connected(address):
        yield RayEngine(concurrency=concurrency, cpus_per_worker=cpus)


def _report(report: "CorpusReport", target: str) -> None:
    """Print what was done, and possible problems."""
    rate = report.rows / report.seconds if report.seconds else 0.0
    files = "1 file" if len(report.files) == 1 else f"{len(report.files):,} files"
    click.echo(f"{target}: {report.rows:,} rows in {files}, {report.summary.tokens:,} tokens, {rate:,.1f} rows/s")
    for note in report.summary.notes:
        click.echo(f"Warning: {note}", err=True)
    if report.poisoned:
        click.echo(f"Warning: {report.poisoned:,} rows were not translated: see *.poisoned.jsonl", err=True)
