"""Lines of UTF-8 text in and out.

Lines in groups as they arrive: one when they come slowly, many when they come fast.
"""

import os
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


def read_lines(path: Path | None, *, errors: Errors = "strict") -> Iterator[str]:
    """Lines of a file, or of standard input, without their ends; only a newline ends a line.

    A line that is not UTF-8 is an error, or with ``errors="replace"`` has U+FFFD in place of each bad byte.
    """
    if path is None:
        yield from _decode(_standard_input(), "standard input", errors)
        return
    with _reading(path) as file:
        yield from _decode(file, str(path), errors)


def count_lines(path: Path) -> int:
    """How many lines ``read_lines`` will give; not for a pipe, which can be read only once."""
    newlines, last = 0, b"\n"
    with _reading(path) as file:
        while chunk := file.read(CHUNK):
            newlines, last = newlines + chunk.count(b"\n"), chunk[-1:]
    return newlines + (last != b"\n")


def named_file(path: Path | None) -> Path | None:
    """The path of an option; a dash is standard input, as is none."""
    return None if path == Path("-") else path


def check_apart(source: Path | None, target: Path | None) -> None:
    """Refuse to write what is being read."""
    if source is not None and target is not None and target.is_file() and source.exists() and source.samefile(target):
        raise UsageError(f"{target} is the input; name another file to write")


@contextmanager
def written_lines(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a line to a file, which appears when complete, or to standard output."""
    if path is None:
        if sys.stdout is None:
            raise DataError("standard output is closed; name a file to write with --output")
        from click import echo  # which whoever translates in a program of their own does not need

        yield echo
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


def _reading(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _standard_input() -> BinaryIO:
    """Standard input with a buffer of its own.

    Python closes that of ``sys.stdin`` when it exits, and aborts if a thread still waits for a line there.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed; name a file to read")
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # somebody put another stream in its place
        return sys.stdin.buffer


def _decode(stream: BinaryIO, name: str, errors: Errors) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors)
        except UnicodeDecodeError:
            raise DataError(f"line {number} of {name} is not UTF-8") from None
        yield text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True)
class _End:
    """Stands behind the last line."""

    error: BaseException | None  # what ended the lines, if not their end


def available_lines(lines: Iterator[str], most: int) -> Generator[list[str], None, None]:
    """Wait for a line and give it together with those that have arrived since, ``most`` at a time.

    A thread reads ahead, by at most ``most`` lines. What it raises is raised here, after the lines before it. It may
    wait for a line that never comes: it is a daemon, so that the program can end all the same.
    """
    waiting: Queue[str | _End] = Queue(maxsize=most)
    closed = Event()
    Thread(target=_read, args=(lines, waiting, closed), daemon=True, name="arriving").start()
    end: _End | None = None
    try:
        while end is None:
            group, end = _take(waiting, most)
            if group:
                yield group
        if end.error is not None:
            raise end.error
    finally:
        closed.set()
        _empty(waiting)  # the thread may wait for room


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


def _take(waiting: "Queue[str | _End]", most: int) -> tuple[list[str], _End | None]:
    """Everything that is there, at least one line or the end."""
    group: list[str] = []
    item = waiting.get()
    while not isinstance(item, _End):
        group.append(item)
        if len(group) == most or waiting.empty():
            return group, None
        item = waiting.get_nowait()
    return group, item


def _empty(waiting: "Queue[str | _End]") -> None:
    with suppress(Empty):
        while True:
            waiting.get_nowait()
