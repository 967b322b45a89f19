"""``seq2edge translate``: translate arguments, a file or standard input."""

import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge.cli.click_options import (
    NameChoice,
    device_options,
    grouped_help,
    options_of,
    report_device,
    signature_option,
    take_set,
    time_limit_option,
)
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.text import TextOptions

if TYPE_CHECKING:
    from seq2edge.results import Summary, Translation
    from seq2edge.translator import Translator

GROUP_LINES = 512
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "seed")  # without effect unless do_sample is on
GROUPS: dict[str, type | str] = {
    "Input and output": "model source target force resume form errors stats",
    "Results": "n_best alignment picture prefix shortlist",
    "Text": TextOptions,
    "Search": GenerationOptions,
    "Device": "device provider_options strict_device threads workers require_signature time_limit",
}
EXAMPLES = {
    '"Good morning." "See you tomorrow!"': "texts as arguments; write -- before texts that begin with a dash",
    "-m BUNDLE -i english.txt -o portuguese.txt": "a file, line by line; repeat with --resume after an interruption",
    '--num-beams 4 --n-best 3 --format jsonl "Good morning."': "alternatives, scores and tokens",
    "--errors replace < english.txt > portuguese.txt": "standard input that may have bytes that are not UTF-8",
}


@dataclass(frozen=True, kw_only=True)
class TranslateTask:
    """The parsed options of the command."""

    texts: tuple[str, ...]
    source: Path | None
    target: Path | None
    form: Any
    errors: Any
    force: bool
    resume: bool
    prefix: str
    picture: Path | None
    alignment: bool
    options: dict[str, Any]


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; if omitted, the default model.")
@click.option("-i", "--input", "source", type=click.Path(path_type=Path), help="File to translate line by line.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="Output file; appears when complete.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@click.option("--resume", is_flag=True, help="Resume an interrupted run with this output, if any.")
@click.option("--format", "form", type=NameChoice(("text", "tsv", "jsonl")), default="text", help="Output format.")
@click.option("--n-best", type=click.IntRange(min=1), metavar="N", help="Return the N best translations of each text.")
@click.option("--alignment", is_flag=True, help="Also print the alignment of tokens, such as 0-0 1-2; see --attention.")
@click.option(
    "--show-attention", "picture", type=click.Path(path_type=Path), help="Draw the attention (.png, .svg or .pdf)."
)
@click.option("--prefix", default="", help="Text that every translation has to begin with.")
@click.option("--errors", type=NameChoice(("strict", "replace")), default="strict", help="How to treat invalid UTF-8.")
@device_options()
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads per worker.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of batches to translate in parallel.")
@signature_option
@time_limit_option
@click.option("--shortlist/--no-shortlist", default=True, help="Restrict the output to the bundle's shortlist, if any.")
@click.option("--stats", is_flag=True, help="Print statistics at the end.")
@options_of(TextOptions, unset=True)
@options_of(GenerationOptions, unset=True)
def command(
    model: Path | None,
    device: str,
    provider_options: tuple[str, ...],
    strict_device: bool,
    threads: int | None,
    workers: int | None,
    require_signature: Path | None,
    time_limit: float | None,
    n_best: int | None,
    shortlist: bool,
    stats: bool,
    **values: Any,
) -> None:
    """Translate TEXT, or a file, or standard input line by line.

    Search options have the names and meaning of Hugging Face; their defaults are in the bundle. By default, all
    available CPUs are used as threads for a few texts, and as workers for a file or a pipe.
    """
    from seq2edge.devices.cpu import share_cpus
    from seq2edge.files.lines import input_path

    options = take_set(TextOptions, values) | take_set(GenerationOptions, values)
    heads = options.get("attention")
    values["alignment"] |= bool(heads) and values["picture"] is None  # naming heads implies --alignment
    if values["alignment"] or values["picture"] is not None:
        options["attention"] = heads or "all"
    values["source"] = input_path(values["source"])
    task = TranslateTask(**values, options=options)
    _check(task)
    started = time.perf_counter()
    workers, threads = share_cpus(workers, threads, many=not task.texts and not _is_interactive(task))
    with _loaded(
        model,
        device=device,
        threads=threads,
        workers=workers,
        provider_options=provider_options,
        strict_device=strict_device,
        require_signature=require_signature,
        time_limit=time_limit,
        shortlist=shortlist,
    ) as translator:
        report_device(device, translator)
        if n_best is not None:
            options |= _n_best(n_best, translator, options)
        _warn_of_unused_options(translator, options)
        loaded = time.perf_counter()
        summary = _run(translator, task)
    for note in summary.notes:
        click.echo(f"Warning: {note}", err=True)
    if stats:
        click.echo(_statistics(summary, loaded - started, time.perf_counter() - loaded), err=True)


def _loaded(model: Path | None, *, provider_options: tuple[str, ...], **settings: Any) -> "Translator":
    """Load a bundle as fast as a process of its own can."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread for each CPU, which we never use
    collects = gc.isenabled()
    gc.disable()  # hardly anything that is created here is garbage
    try:
        from seq2edge.devices.registry import parse_options
        from seq2edge.translator import Translator

        return Translator(model, provider_options=parse_options(provider_options), **settings)
    finally:
        if collects:
            gc.enable()


def _check(task: TranslateTask) -> None:
    from seq2edge.errors import UsageError
    from seq2edge.files.lines import check_new

    if task.texts and task.source is not None:
        raise UsageError("give either texts or --input, not both")
    if task.resume and (task.target is None or task.texts):
        raise UsageError("--resume needs an output file: give --output, and --input or a pipe")
    check_new(task.target, force=task.force or task.resume)
    if task.picture is not None and len(task.texts) != 1:
        raise UsageError(f"--show-attention draws one text, but there are {len(task.texts)} arguments")
    if task.picture is not None:
        from seq2edge.scoring.plot import check_picture

        check_picture(task.picture)


def _run(translator: "Translator", task: TranslateTask) -> "Summary":
    if task.target is not None and not task.texts:
        return _translate_file(translator, task)
    return _translate_stream(translator, task)


def _translate_file(translator: "Translator", task: TranslateTask) -> "Summary":
    """Translate lines to a file that can be resumed."""
    from seq2edge.cli.progress import status
    from seq2edge.files.file_translation import translate_file
    from seq2edge.files.resumable import is_unfinished

    assert task.target is not None
    starts_over, done = not task.resume and is_unfinished(task.target), 0

    def observe(lines: int, tokens: int) -> None:
        nonlocal starts_over, done
        if starts_over:
            click.echo(
                f"Note: a run to {task.target} was interrupted; this one starts over because --resume is not given",
                err=True,
            )
        starts_over, done = False, lines
        update(lines, tokens)

    try:
        with status(_line_count(task.source)) as update:
            return translate_file(
                translator,
                task.source,
                task.target,
                format=task.form,
                errors=task.errors,
                resume=task.resume,
                prefix=task.prefix,
                options=task.options,
                observe=observe,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*_resume_advice(task.target, done)) from None


def _line_count(source: Path | None) -> int | None:
    """Count the lines for the status on a terminal; a pipe cannot be read twice."""
    from seq2edge.cli.progress import is_terminal
    from seq2edge.files.lines import count_lines

    return count_lines(source) if is_terminal() and source is not None and source.is_file() else None


def _resume_advice(target: Path, done: int) -> list[str]:
    if done == 0 or (target.exists() and not target.is_file()):
        return []
    return [f"{done:,} lines are done; run the same command with --resume to continue"]


def _translate_stream(translator: "Translator", task: TranslateTask) -> "Summary":
    """Translate arguments to standard output or a file, or lines to standard output as they become available."""
    from seq2edge.files.file_translation import FORMATS, columns_of
    from seq2edge.files.lines import written_lines
    from seq2edge.options import resolve_options
    from seq2edge.results import Summary

    columns = replace(columns_of(resolve_options(task.options, translator.manifest)), alignment=task.alignment)
    summary = Summary()
    with written_lines(task.target) as write:
        for results in translator.translate_groups(_groups(task), prefix=task.prefix, **task.options):
            for number, result in enumerate(results, start=summary.texts):
                write(FORMATS[task.form](number, result if task.alignment else result.without_attention(), columns))
            summary.add(results)
            if task.target is None:
                sys.stdout.flush()
            if task.picture is not None:
                _draw(task.picture, task.texts[0], results[0])
    return summary


def _groups(task: TranslateTask) -> Iterator[list[str]]:
    from seq2edge.files.lines import available_lines, read_lines

    if task.texts:
        yield [_decode(number, text, task.errors) for number, text in enumerate(task.texts, start=1)]
    else:
        yield from available_lines(read_lines(task.source, errors=task.errors), GROUP_LINES)


def _decode(number: int, text: str, errors: str) -> str:
    """Return an argument with valid characters; Python hides bytes that are not UTF-8 in it as surrogates."""
    from seq2edge.errors import DataError

    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", errors)
    except UnicodeError:
        raise DataError(f"text {number} is not UTF-8: convert it, or use --errors replace") from None


def _draw(picture: Path, text: str, translation: "Translation") -> None:
    from seq2edge.scoring.plot import draw_attention, font_advice

    if translation.attention is None:
        click.echo("Warning: there is no attention to draw, because the text is blank", err=True)
        return
    attention = translation.attention
    missing = draw_attention(attention.weights, attention.source, attention.target, picture)
    if missing:
        click.echo(f"Warning: {font_advice(missing)}", err=True)


def _n_best(count: int, translator: "Translator", options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for N translations: at least as many beams, unless they are sampled."""
    from seq2edge.errors import UsageError

    sequences = options.get("num_return_sequences", count)
    if sequences != count:
        raise UsageError(f"--n-best is {count}, but --num-return-sequences is {sequences}: give only one of them")
    beams = options.get("num_beams", translator.manifest.generation.num_beams)
    if _samples(translator, options) and beams == 1:
        return {"num_return_sequences": count}
    if "num_beams" in options and beams < count:
        raise UsageError(f"--n-best is {count}, but --num-beams is {beams}: raise it, or leave it out")
    return {"num_return_sequences": count, "num_beams": max(beams, count)}


def _warn_of_unused_options(translator: "Translator", options: dict[str, Any]) -> None:
    unused = [f"--{name.replace('_', '-')}" for name in SAMPLING_OPTIONS if name in options]
    if unused and not _samples(translator, options):
        click.echo(f"Warning: {' and '.join(unused)} have no effect without --do-sample", err=True)


def _samples(translator: "Translator", options: dict[str, Any]) -> bool:
    return bool(options.get("do_sample", translator.manifest.generation.do_sample))


def _is_interactive(task: TranslateTask) -> bool:
    return task.source is None and sys.stdin is not None and sys.stdin.isatty()


def _statistics(summary: "Summary", load_seconds: float, seconds: float) -> str:
    rate = summary.tokens / seconds
    return (
        f"{summary.texts:,} texts, {summary.sentences:,} sentences, {summary.tokens:,} tokens in {seconds:.1f} s: "
        f"{rate:,.0f} tokens/s, {summary.texts / seconds:,.1f} texts/s (loading took {load_seconds:.1f} s)"
    )
