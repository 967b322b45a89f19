"""What the command line shows while it works: something on a terminal, nothing in a pipe.

How far a long run is, in one line that is written over again and again.
"""

import os
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


PAUSE = 0.2  # seconds between two lines
WIDTH = 80  # columns of a terminal that does not say


@contextmanager
def status(total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Give a function to say how many lines are done, and how many tokens this run has made, both in all.

    Its first call, before any token was made, says how many lines an earlier run has done. Only a terminal shows it,
    and not when all is over. Nothing else should be written to that terminal meanwhile.
    """
    started, done = time.monotonic(), 0
    shown, width = float("-inf"), 0

    def put(text: str) -> None:
        nonlocal width
        show("\r" + text.ljust(width), ends_line=False)
        width = len(text)

    def update(lines: int, tokens: int) -> None:
        nonlocal shown, done
        if tokens == 0:
            done = lines
        now = time.monotonic()
        if now - shown >= PAUSE:
            shown = now
            put(describe(lines, tokens, now - started, total=total, done=done)[: _columns() - 1])

    try:
        yield update
    finally:
        if width:
            put("")
            show("\r", ends_line=False)


def describe(lines: int, tokens: int, seconds: float, *, total: int | None = None, done: int = 0) -> str:
    """What a terminal shows of so many lines and tokens after so many seconds."""
    parts = [f"{lines:,} lines" if total is None else f"{lines:,} / {total:,} lines"]
    if seconds > 0:
        parts.append(f"{tokens / seconds:,.0f} tokens/s")
    if total is not None and lines > done:
        parts.append(f"{_clock(seconds / (lines - done) * max(0, total - lines))} left")
    return " · ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except OSError:
        return WIDTH
