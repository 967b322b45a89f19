"""What the command line shows while it works: something on a terminal, nothing in a pipe; needs click."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

BAR = 24  # characters


def show(text: str, *, ends_line: bool = True) -> None:
    """Write to standard error if somebody sees it."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(text, nl=ends_line, err=True)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Give a function to name each stage of a job; a terminal shows it with the time it took."""
    current, started = "", time.perf_counter()

    def close(mark: str) -> None:
        if current:
            show(f"\r{mark} {current} ({time.perf_counter() - started:.1f} s)")

    def say(stage: str) -> None:
        nonlocal current, started
        close("✓")
        current, started = stage, time.perf_counter()
        show(f"… {stage}", ends_line=False)

    try:
        yield say
    except BaseException:
        close("✗")
        raise
    close("✓")


@contextmanager
def steps() -> Iterator[Callable[[int], Callable[[str], None]]]:
    """Give a function that is told the number of steps and gives one to call after each; a terminal shows a bar.

    The bar is written over again and again, and is gone when all is over.
    """
    width = 0

    def put(text: str) -> None:
        nonlocal width
        show("\r" + text.ljust(width), ends_line=False)
        width = len(text)

    def begin(total: int) -> Callable[[str], None]:
        done = 0

        def step(what: str) -> None:
            nonlocal done
            done += 1
            filled = BAR * done // max(total, 1)
            put(f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} {what}")

        return step

    try:
        yield begin
    finally:
        if width:
            put("")
            show("\r", ends_line=False)
