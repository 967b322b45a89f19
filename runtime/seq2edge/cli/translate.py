"""``seq2edge translate``: arguments, a file or standard input to text."""

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
    signature_option,
    take_set,
    tell_device,
)
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.text import TextOptions

if TYPE_CHECKING:
    from seq2edge.results import Summary, Translation
    from seq2edge.translator import Translator

LINES_AT_ONCE = 512
FOR_DRAWING = ("temperature", "top_k", "top_p", "seed")  # options that nothing else looks at
GROUPS = {"Text": TextOptions, "Search": GenerationOptions}


@dataclass(frozen=True, kw_only=True)
class TranslateTask:
    """What to do with which options; the fields are those of the command."""

    texts: tuple[str, ...]
    source: Path | None
    target: Path | None
    form: Any
    errors: Any
    resume: bool
    prefix: str
    picture: Path | None
    alignment: bool
    options: dict[str, Any]


@click.command(cls=grouped_help(GROUPS))
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; left out, the embedded model.")
@click.option("-i", "--input", "source", type=click.Path(path_type=Path), help="File to translate line by line.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="File to write, once complete.")
@click.option("--resume", is_flag=True, help="Go on where a run with this output was interrupted, if there was one.")
@click.option(
    "--format", "form", type=NameChoice(("text", "tsv", "jsonl")), default="text", help="What to write of each."
)
@click.option("--n-best", type=click.IntRange(min=1), help="Give so many translations of each text.")
@click.option("--alignment", is_flag=True, help="Give the alignment as well, tokens as in 0-0 1-2; see --attention.")
@click.option("--show-attention", "picture", type=click.Path(path_type=Path), help="Draw it (.png, .svg or .pdf).")
@click.option("--prefix", default="", help="What every translation has to begin with.")
@click.option("--errors", type=NameChoice(("strict", "replace")), default="strict", help="Input that is not UTF-8.")
@device_options()
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of a worker.")
@click.option("--workers", type=click.IntRange(min=1), help="Batches to translate at the same time.")
@signature_option
@click.option(
    "--shortlist/--no-shortlist", default=True, help="Say only words that the bundle's shortlist has, if any."
)
@click.option("--stats", is_flag=True, help="Say at the end how much was done in what time.")
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
    n_best: int | None,
    shortlist: bool,
    stats: bool,
    **values: Any,
) -> None:
    """Translate TEXT, or a file, or standard input line by line.

    Options of the search have Hugging Face's names and meaning; what is left out is as the bundle says. Left out, all
    CPUs that the process may use are threads for a few texts, and workers for a file or a pipe.
    """
    from seq2edge.devices.cpu import share_cpus
    from seq2edge.devices.registry import parse_options
    from seq2edge.files.lines import input_path
    from seq2edge.translator import Translator

    options = take_set(TextOptions, values) | take_set(GenerationOptions, values)
    heads = options.get("attention")
    values["alignment"] |= bool(heads) and values["picture"] is None  # heads are named for something
    if values["alignment"] or values["picture"] is not None:
        options["attention"] = heads or "all"
    values["source"] = input_path(values["source"])
    task = TranslateTask(**values, options=options)
    _check(task)
    started = time.perf_counter()
    workers, threads = share_cpus(workers, threads, many=not task.texts and not _is_interactive(task))
    with Translator(
        model,
        device=device,
        threads=threads,
        workers=workers,
        provider_options=parse_options(provider_options),
        strict_device=strict_device,
        require_signature=require_signature,
        shortlist=shortlist,
    ) as translator:
        tell_device(device, translator)
        if n_best is not None:
            options |= _n_best(n_best, translator, options)
        _warn_of_idle_options(translator, options)
        loaded = time.perf_counter()
        summary = _run(translator, task)
    for note in summary.notes:
        click.echo(f"Warning: {note}", err=True)
    if stats:
        click.echo(_statistics(summary, loaded - started, time.perf_counter() - loaded), err=True)


def _check(task: TranslateTask) -> None:
    from seq2edge.errors import UsageError

    if task.texts and task.source is not None:
        raise UsageError("give either texts or --input, not both")
    if task.resume and (task.target is None or task.texts):
        raise UsageError("--resume goes on with a file: give --output, and --input or a pipe")
    if task.picture is not None and len(task.texts) != 1:
        raise UsageError(f"--show-attention draws one text, but {len(task.texts)} were given as arguments")
    if task.picture is not None:
        from seq2edge.scoring.plot import check_picture

        check_picture(task.picture)


def _run(translator: "Translator", task: TranslateTask) -> "Summary":
    if task.target is not None and not task.texts:
        return _translate_file(translator, task)
    return _translate_as_it_comes(translator, task)


def _translate_file(translator: "Translator", task: TranslateTask) -> "Summary":
    """Lines to a file, safe to interrupt."""
    from seq2edge.cli.progress import status
    from seq2edge.files.file_translation import translate_file
    from seq2edge.files.resumable import is_unfinished

    assert task.target is not None
    starts_over, done = not task.resume and is_unfinished(task.target), 0

    def observe(lines: int, tokens: int) -> None:
        nonlocal starts_over, done
        if starts_over:
            click.echo(
                f"Note: a run to {task.target} was interrupted; this one starts over, as --resume is not given",
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
        raise KeyboardInterrupt(*_how_to_go_on(task.target, done)) from None


def _line_count(source: Path | None) -> int | None:
    """How many lines there are, if somebody sees it; a pipe cannot be read twice."""
    from seq2edge.files.lines import count_lines

    seen = sys.stderr is not None and sys.stderr.isatty()
    return count_lines(source) if seen and source is not None and source.is_file() else None


def _how_to_go_on(target: Path, done: int) -> list[str]:
    if done == 0 or (target.exists() and not target.is_file()):
        return []
    return [f"{done:,} lines are done, and the same command with --resume goes on behind them"]


def _translate_as_it_comes(translator: "Translator", task: TranslateTask) -> "Summary":
    """Arguments, or lines as they arrive, to standard output; few texts to a file."""
    from seq2edge.files.formats import FORMATS, columns_of
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
        yield list(task.texts)
    else:
        yield from available_lines(read_lines(task.source, errors=task.errors), LINES_AT_ONCE)


def _draw(picture: Path, text: str, translation: "Translation") -> None:
    from seq2edge.scoring.plot import draw_attention, font_advice

    if translation.attention is None:
        click.echo("Warning: there is nothing to draw, as the text says nothing", err=True)
        return
    attention = translation.attention
    missing = draw_attention(attention.weights, attention.source, attention.target, picture)
    if missing:
        click.echo(f"Warning: {font_advice(missing)}", err=True)


def _n_best(count: int, translator: "Translator", options: dict[str, Any]) -> dict[str, Any]:
    """As many translations, and no fewer beams unless they are drawn at random."""
    from seq2edge.errors import UsageError

    given = options.get("num_return_sequences", count)
    if given != count:
        raise UsageError(f"--n-best is {count}, but --num-return-sequences is {given}: give one of them")
    beams = options.get("num_beams", translator.manifest.generation.num_beams)
    if _draws(translator, options) and beams == 1:
        return {"num_return_sequences": count}
    if "num_beams" in options and beams < count:
        raise UsageError(f"--n-best is {count}, but --num-beams is {beams}: raise it, or leave it out")
    return {"num_return_sequences": count, "num_beams": max(beams, count)}


def _warn_of_idle_options(translator: "Translator", options: dict[str, Any]) -> None:
    idle = [f"--{name.replace('_', '-')}" for name in FOR_DRAWING if name in options]
    if idle and not _draws(translator, options):
        click.echo(f"Warning: without --do-sample, nothing is drawn and {' and '.join(idle)} change nothing", err=True)


def _draws(translator: "Translator", options: dict[str, Any]) -> bool:
    return bool(options.get("do_sample", translator.manifest.generation.do_sample))


def _is_interactive(task: TranslateTask) -> bool:
    return task.source is None and sys.stdin is not None and sys.stdin.isatty()


def _statistics(summary: "Summary", loading: float, working: float) -> str:
    rate = summary.tokens / working
    return (
        f"{summary.texts:,} texts, {summary.tokens:,} tokens in {working:.1f} s: {rate:,.0f} tokens/s, "
        f"{summary.texts / working:,.1f} texts/s (loading took {loading:.1f} s)"
    )
