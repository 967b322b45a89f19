"""Translate a file line by line, safe to interrupt at any moment; needs numpy and onnxruntime."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge import names
from seq2edge.asked import asked
from seq2edge.formats import FORMATS, Format
from seq2edge.lines import Errors, read_lines
from seq2edge.resumable import resumable_output
from seq2edge.translation import Summary

if TYPE_CHECKING:
    from seq2edge.translator import Translator

LINES_AT_ONCE = 1024  # so much is translated between two points that an interrupted run can go on from
Observer = Callable[[int, int], None]  # lines done in all, and tokens made by this run


def translate_file(
    translator: "Translator",
    source: Path | None,
    target: Path,
    *,
    format: Format = "text",
    errors: Errors = "strict",
    resume: bool = False,
    prefix: str = "",
    options: Mapping[str, Any],
    observe: Observer = lambda lines, tokens: None,
) -> Summary:
    """Translate each line of a file or of standard input; the target appears under its name when it is complete."""
    summary = Summary()
    job = _job(translator, source, format, errors, prefix, options)
    with resumable_output(target, job, resume=resume) as output:
        done = output.done
        observe(done, 0)
        groups = in_groups(islice(read_lines(source, errors=errors), done, None), LINES_AT_ONCE)
        for results in translator.translate_groups(groups, prefix=prefix, first=done, **options):
            for number, result in enumerate(results, start=done):
                output.write(FORMATS[format](number, result) + "\n")
            done += len(results)
            output.commit(done)
            summary.add(results)
            observe(done, summary.tokens)
    return summary


def in_groups(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(texts)
    while some := list(islice(stream, size)):
        yield some


def _job(
    translator: "Translator",
    source: Path | None,
    format: Format,
    errors: Errors,
    prefix: str,
    options: Mapping[str, Any],
) -> dict[str, str]:
    """What has to be the same when an interrupted run goes on, by the names that a user knows."""
    wanted = asked(options, translator.manifest)
    files = translator.manifest.files
    settings = asdict(wanted.generation) | asdict(wanted.text) | {"format": format, "errors": errors, "prefix": prefix}
    return {
        "input": "standard input" if source is None else str(source.absolute()),
        "model": f"{files[names.WEIGHTS].sha256[:12]} {files[names.DECODER].sha256[:12]}",
        **{name: str(value) for name, value in settings.items()},
    }
