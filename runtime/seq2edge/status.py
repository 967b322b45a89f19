"""How far a long run is, in one line that is written over again and again; needs click."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seq2edge.progress import show

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
