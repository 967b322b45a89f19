"""What the command line shows while it works: something on a terminal, nothing in a pipe; needs click."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Give a function to name each stage of a job; a terminal shows it with the time it took."""
    current, started = "", time.perf_counter()

    def close(mark: str) -> None:
        if current and sys.stderr.isatty():
            click.echo(f"\r{mark} {current} ({time.perf_counter() - started:.1f} s)", err=True)

    def say(stage: str) -> None:
        nonlocal current, started
        close("✓")
        current, started = stage, time.perf_counter()
        if sys.stderr.isatty():
            click.echo(f"… {stage}", nl=False, err=True)

    try:
        yield say
    except BaseException:
        close("✗")
        raise
    close("✓")
