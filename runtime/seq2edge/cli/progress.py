"""Show progress on a terminal; write nothing to a pipe."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO

import click

BAR = 24  # characters
INTERVAL = 0.2  # seconds between two updates of a status line
DEFAULT_COLUMNS = 80  # of a terminal whose width is unknown


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function that names the next stage of a job; each stage is shown with the time it took."""
    current, started = "", time.perf_counter()

    def close(mark: str) -> None:
        if current:
            _show(f"\r{mark} {current} ({time.perf_counter() - started:.1f} s)\n")

    def begin(stage: str) -> None:
        nonlocal current, started
        close("✓")
        current, started = stage, time.perf_counter()
        _show(f"… {stage}")

    try:
        yield begin
    except BaseException:
        close("✗")
        raise
    close("✓")


@contextmanager
def steps() -> Iterator[Callable[[int], Callable[[str], None]]]:
    """Yield a function that takes a number of steps, shows a bar, and returns a function to call after each step."""
    with ExitStack() as bars:

        def begin(total: int) -> Callable[[str], None]:
            bars.close()
            template, file = "[%(bar)s]  %(info)s  %(label)s", sys.stderr if is_terminal() else StringIO()
            bar = bars.enter_context(
                click.progressbar(length=total, bar_template=template, show_pos=True, width=BAR, file=file)
            )

            def step(name: str) -> None:
                bar.label = name
                bar.update(1)

            return step

        yield begin


@contextmanager
def status(total: int | None, unit: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows how many lines or rows are done, and how many tokens this run has generated.

    Its first call, with no tokens, tells how many lines an earlier run has done. The line is cleared at the end. This
    is not a ``click.progressbar``, which would count the earlier lines as speed, not stay within a narrow terminal,
    and leave its last line behind.
    """
    started, resumed_at = time.monotonic(), 0
    shown_at, width = float("-inf"), 0

    def put(text: str) -> None:
        nonlocal width
        _show("\r" + text.ljust(width))
        width = len(text)

    def update(lines: int, tokens: int) -> None:
        nonlocal shown_at, resumed_at
        if tokens == 0:
            resumed_at = lines
        now = time.monotonic()
        if now - shown_at >= INTERVAL:
            shown_at = now
            text = describe(lines, tokens, now - started, total=total, done=resumed_at, unit=unit)
            put(text[: _columns() - 1])

    try:
        yield update
    finally:
        if width:
            put("")
            _show("\r")


def describe(
    lines: int, tokens: int, seconds: float, *, total: int | None = None, done: int = 0, unit: str = "lines"
) -> str:
    """Return the status line after so many seconds; ``done`` lines are from an earlier run."""
    parts = [f"{lines:,} {unit}" if total is None else f"{lines:,} / {total:,} {unit}"]
    if seconds > 0 and unit == "rows":
        parts.append(f"{(lines - done) / seconds:,.0f} rows/s")
    if seconds > 0:
        parts.append(f"{tokens / seconds:,.0f} tokens/s")
    if total is not None and lines > done:
        parts.append(f"{_clock(seconds / (lines - done) * max(0, total - lines))} left")
    return " · ".join(parts)


def is_terminal() -> bool:
    """Return whether standard error is shown on a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def _show(text: str) -> None:
    if is_terminal():
        click.echo(text, nl=False, err=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS
