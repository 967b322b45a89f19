"""Translate a file line by line, safe to interrupt at any moment."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from seq2edge.bundle.bundle import Manifest
from seq2edge.errors import DataError, UsageError
from seq2edge.files.formats import FORMATS, Format, OutputColumns, columns_of
from seq2edge.files.lines import Errors, available_lines, check_apart, read_lines
from seq2edge.files.resumable import ResumableOutput, resumable_output
from seq2edge.options import CallOptions, resolve_options
from seq2edge.results import Summary, Translation
from seq2edge.search import Hook

if TYPE_CHECKING:
    from seq2edge.translator import Translator

LINES_AT_ONCE = 1024  # so much is translated between two points that an interrupted run can go on from
Observer = Callable[[int, int], None]  # lines done in all, and tokens made by this run


class Lines:
    """Lines that are given on in groups, with a digest of those that were: a resumed run must read the same again."""

    def __init__(self, source: Path | None, errors: Errors) -> None:
        self.source = source
        self.lines = read_lines(source, errors=errors)
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def skip(self, done: int, digest: str) -> None:
        """Pass over what an earlier run has done."""
        found = sum(1 for _ in map(self._add, islice(self.lines, done)))
        if done and (found < done or self.digest != digest):
            name = "standard input" if self.source is None else self.source
            raise DataError(f"{name} has changed since the run that is resumed; leave out --resume to start over")

    def groups(self) -> Iterator[list[str]]:
        """As many as there are, up to a limit: what came through a pipe is translated although more may come."""
        come = (
            in_groups(self.lines, LINES_AT_ONCE)
            if self.source is not None
            else available_lines(self.lines, LINES_AT_ONCE)
        )
        for group in come:
            for line in group:
                self._add(line)
            yield group

    def _add(self, line: str) -> None:
        self._hash.update(line.encode() + b"\n")


def translate_file(
    translator: "Translator",
    source: Path | None,
    target: Path,
    *,
    format: Format = "text",
    errors: Errors = "strict",
    resume: bool = False,
    prefix: str = "",
    hook: Hook | None = None,
    options: Mapping[str, Any],
    observe: Observer = lambda lines, tokens: None,
) -> Summary:
    """Translate each line of a file or of standard input; the target appears under its name when it is complete."""
    _check("format", format, get_args(Format))
    _check("errors", errors, get_args(Errors))
    check_apart(source, target)
    wanted = resolve_options(options, translator.manifest)
    more = {"format": format, "errors": errors, "prefix": prefix, "shortlist": str(translator.shortlist)}
    job = _job(translator.manifest, wanted, source, more)
    lines, summary = Lines(source, errors), Summary()
    with resumable_output(target, job, resume=resume) as output:
        lines.skip(output.done, output.digest)
        observe(output.done, 0)
        groups = translator.translate_groups(lines.groups(), prefix=prefix, first=output.done, hook=hook, **options)
        for results in groups:
            _write(output, output.done + summary.texts, results, format, columns_of(wanted))
            summary.add(results)
            output.commit(output.done + summary.texts, lines.digest)
            observe(output.done + summary.texts, summary.tokens)
    return summary


def in_groups(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Texts some at a time; where their source fails, those before come first."""
    stream, error = iter(texts), None
    while error is None:
        group, error = _take(stream, size)
        if group:
            yield group
        if error is None and len(group) < size:
            return
    raise error


def _take(stream: Iterator[str], size: int) -> tuple[list[str], Exception | None]:
    group: list[str] = []
    try:
        for text in islice(stream, size):
            group.append(text)
    except Exception as error:
        return group, error
    return group, None


def _write(
    output: ResumableOutput, number: int, results: list[Translation], format: Format, columns: OutputColumns
) -> None:
    for place, result in enumerate(results, start=number):
        output.write(FORMATS[format](place, result, columns) + "\n")


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} is {value!r}, but must be one of {', '.join(allowed)}")


def _job(manifest: Manifest, wanted: CallOptions, source: Path | None, more: dict[str, str]) -> dict[str, str]:
    """What has to be the same when an interrupted run goes on, by the names that a user knows."""
    settings = asdict(wanted.generation) | asdict(wanted.text) | more
    return {
        "input": "standard input" if source is None else str(source.absolute()),
        "model": _fingerprint(manifest),
        **{name: str(value) for name, value in settings.items()},
    }


def _fingerprint(manifest: Manifest) -> str:
    """All of a bundle that decides what a text becomes, but for the options."""
    content = {
        "files": {name: entry.sha256 for name, entry in manifest.files.items()},
        "tokenizer": asdict(manifest.tokenizer),
        "tokens": asdict(manifest.tokens),
        "max_positions": manifest.max_positions,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
