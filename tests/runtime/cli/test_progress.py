"""A terminal shows the progress of a run in one line; a pipe shows nothing."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from seq2edge.cli.progress import describe, stages, status, steps


@contextmanager
def terminal() -> Iterator[Callable[[], str]]:
    """Make a pseudo-terminal of 60 columns standard error; yield a function that returns what it received since."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w", encoding="utf-8") as stream:

        def seen() -> str:
            stream.write("\0")  # everything before it has then arrived
            stream.flush()
            return b"".join(iter(lambda: screen.read(1), b"\0")).decode()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            yield seen


def on_screen(sent: str) -> str:
    """Return what a reader finally sees of one line."""
    line = ""
    for text in sent.split("\r"):
        line = text + line[len(text) :]
    return line


def test_a_terminal_shows_a_status_line_and_is_clean_at_the_end() -> None:
    with terminal() as seen:
        with status(10_000) as update:
            assert seen() == ""
            update(1234, 5678)
            text = on_screen(seen())
            assert text.startswith("1,234 / 10,000 lines · ")
            assert " tokens/s · " in text
            assert text.endswith(" left")
        last = seen()
        assert last.endswith("\r")
        assert on_screen("\r" + text + last).strip() == ""


def test_a_shorter_line_covers_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2edge.cli.progress.INTERVAL", 0)
    with terminal() as seen, status(None) as update:
        update(10**14, 0)
        update(1, 0)
        assert on_screen(seen()).rstrip() == "1 lines · 0 tokens/s"


def test_the_status_is_updated_at_most_five_times_a_second() -> None:
    started = time.monotonic()
    with terminal() as seen, status(None) as update:
        for number in range(2000):
            update(number, number)
        assert 1 <= seen().count("\r") <= 1 + (time.monotonic() - started) / 0.2


def test_a_line_never_reaches_the_end_of_a_narrow_terminal() -> None:
    with terminal() as seen, status(10**15) as update:
        update(10**14, 10**12)
        assert len(on_screen(seen())) == 59


def test_the_terminal_is_clean_after_an_error() -> None:
    def run() -> None:
        with status(10) as update:
            update(1, 1)
            update(2, 1 // 0)

    with terminal() as seen:
        with pytest.raises(ZeroDivisionError):
            run()
        assert on_screen(seen()).strip() == ""


def test_a_run_without_an_update_shows_nothing() -> None:
    with terminal() as seen:
        with status(10):
            pass
        assert seen() == ""


def test_a_stage_is_shown_with_its_time() -> None:
    with terminal() as seen:
        with stages() as begin:
            begin("loading")
            assert seen() == "… loading"
        assert re.fullmatch(r"\r✓ loading \(\d+\.\d s\)\r\n", seen())


def test_steps_are_shown_as_a_bar() -> None:
    with terminal() as seen:
        with steps() as begin:
            step = begin(4)
            step("warm-up")
            assert on_screen(seen()).endswith("[######------------------]  1/4  warm-up")
        assert seen().endswith("\r\n")


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with steps() as begin:
        begin(2)("warm-up")
    with status(10) as update:
        update(1, 1)
        time.sleep(0.01)
        update(10, 10)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ((1234, 8120, 10.0), {"total": 10_000}, "1,234 / 10,000 lines · 812 tokens/s · 1:11 left"),
        ((1234, 8120, 10.0), {}, "1,234 lines · 812 tokens/s"),
        (
            (1234, 8120, 10.0),
            {"total": 2000, "done": 234, "unit": "rows"},
            "1,234 / 2,000 rows · 100 rows/s · 812 tokens/s · 0:08 left",
        ),
        ((5000, 10_000, 10.0), {"total": 10_000, "done": 4990}, "5,000 / 10,000 lines · 1,000 tokens/s · 1:23:20 left"),
        ((4990, 0, 0.0), {"total": 10_000, "done": 4990}, "4,990 / 10,000 lines"),
        ((11, 0, 10.0), {"total": 10}, "11 / 10 lines · 0 tokens/s · 0:00 left"),
    ],
)
def test_the_status_has_lines_speed_and_time_left(values, options, text: str) -> None:
    assert describe(*values, **options) == text
