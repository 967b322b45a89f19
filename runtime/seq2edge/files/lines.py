"""Read and write lines of UTF-8 text; lines from a pipe are read in groups as they become available."""

import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import BinaryIO, Literal, TextIO

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import DataError, UsageError

Errors = Literal["strict", "replace"]
CHUNK = 2**20  # bytes
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all control characters but tab and newline


def read_lines(path: Path | None, *, errors: Errors | None = None) -> Iterator[str]:
    """Yield the lines of a file, or of standard input, without line endings; only a newline ends a line.

    A line that is not UTF-8 is an error, or with ``errors="replace"`` each bad byte becomes U+FFFD. None means that the
    user has no choice.
    """
    if path is None:
        yield from _decode(_standard_input(), "standard input", errors)
        return
    with _reading(path) as file:
        yield from _decode(file, str(path), errors)


def count_lines(path: Path) -> int:
    """Count the lines that ``read_lines`` yields; not for a pipe, which can be read only once."""
    newlines, last = 0, b"\n"
    with _reading(path) as file:
        while chunk := file.read(CHUNK):
            newlines, last = newlines + chunk.count(b"\n"), chunk[-1:]
    return newlines + (last != b"\n")


def input_path(path: Path | None) -> Path | None:
    """Return the path of an input option, or None for a dash, which means standard input."""
    return None if path == Path("-") else path


def check_distinct(source: Path | None, target: Path | None) -> None:
    """Raise an error if the output would overwrite the input."""
    if source is not None and target is not None and target.is_file() and source.exists() and source.samefile(target):
        raise UsageError(f"{target} is the input; choose another output file")


def check_new(target: Path | None, *, force: bool) -> None:
    """Raise an error if a file with content would be overwritten without ``force``."""
    if not force and target is not None and target.is_file() and target.stat().st_size:
        raise UsageError(f"{target} exists already; use --force to replace it")


@contextmanager
def written_lines(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line to a file, which appears when complete, or to standard output."""
    if path is None:
        if sys.stdout is None:
            raise DataError("standard output is closed; name an output file with --output")
        yield show_line
        return
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file")
    try:
        with _opened(path) as file:
            yield lambda line: print(line, file=file)
            file.flush()
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


def show_line(line: str) -> None:
    """Write a line to standard output; on a terminal, which would obey control characters, they become visible.

    They may come from a bundle. Files and pipes get exactly what the model generated.
    """
    from click import echo  # only needed for standard output

    echo(visible(line) if sys.stdout.isatty() else line)


def visible(text: str) -> str:
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces an existing one when complete; a device or a pipe is written to directly."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as device:
            yield device
        return
    with replaced_file(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def _reading(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _standard_input() -> BinaryIO:
    """Open standard input with a separate buffer.

    Python closes the buffer of ``sys.stdin`` at exit, and aborts if a thread is still waiting for a line there.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed; name an input file with --input")
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # replaced by another stream
        return sys.stdin.buffer


def _decode(stream: BinaryIO, name: str, errors: Errors | None) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors or "strict")
        except UnicodeDecodeError:
            advice = 'convert it, or use errors="replace"' if errors else "convert it"
            raise DataError(f"line {number} of {name} is not UTF-8: {advice}") from None
        yield text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True)
class _End:
    """Follows the last line in the queue."""

    error: BaseException | None  # raised by the reader, if any


def available_lines(lines: Iterator[str], limit: int) -> Generator[list[str], None, None]:
    """Wait for a line and yield it with those that have become available since, at most ``limit``.

    A thread reads ahead, at most ``limit`` lines. Its errors are raised here, after the lines before them. It is a
    daemon thread, so that the program can exit while it waits for a line.
    """
    waiting: Queue[str | _End] = Queue(maxsize=limit)
    closed = Event()
    Thread(target=_read, args=(lines, waiting, closed), daemon=True, name="line-reader").start()
    end: _End | None = None
    try:
        while end is None:
            group, end = _take(waiting, limit)
            if group:
                yield group
        if end.error is not None:
            raise end.error
    finally:
        closed.set()
        _empty(waiting)  # the thread may be blocked by a full queue


def _read(lines: Iterator[str], waiting: "Queue[str | _End]", closed: Event) -> None:
    error: BaseException | None = None
    try:
        for line in lines:
            waiting.put(line)
            if closed.is_set():
                return
    except BaseException as raised:
        error = raised
    waiting.put(_End(error))


def _take(waiting: "Queue[str | _End]", limit: int) -> tuple[list[str], _End | None]:
    """Take everything that is available, at least one line or the end."""
    group: list[str] = []
    item = waiting.get()
    while not isinstance(item, _End):
        group.append(item)
        if len(group) == limit or waiting.empty():
            return group, None
        item = waiting.get_nowait()
    return group, item


def _empty(waiting: "Queue[str | _End]") -> None:
    with suppress(Empty):
        while True:
            waiting.get_nowait()
