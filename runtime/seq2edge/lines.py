"""Lines of UTF-8 text in and out; needs click."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from seq2edge.errors import DataError
from seq2edge.files import replaced_file


def read_lines(path: Path | None) -> Iterator[str]:
    """Lines of a file, or of standard input, without their ends; only a newline ends a line."""
    if path is None:
        yield from _decode(sys.stdin.buffer, "standard input")
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield from _decode(file, str(path))


@contextmanager
def written_lines(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a line to a file, which appears when complete, or to standard output."""
    if path is None:
        yield click.echo
        return
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file to write")
    try:
        with _opened(path) as file:
            yield lambda line: print(line, file=file)
            file.flush()
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A new file that takes the place of an old one; a device or a pipe is written to as it is."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as device:
            yield device
        return
    with replaced_file(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def _decode(stream: BinaryIO, name: str) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"line {number} of {name} is not UTF-8") from None
        yield text.removesuffix("\n").removesuffix("\r")
