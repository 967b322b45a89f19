"""A signal ends the command at any time with the exit code that a shell expects and no traceback."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NoReturn

import pytest
from click.testing import CliRunner

from seq2edge.cli import main
from seq2edge.devices import interruption

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(autouse=True)
def python_hears_signals() -> Iterator[None]:
    """As in a terminal, however the tests were started."""
    before = {number: signal.getsignal(number) for number in CODES}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def now(number: int) -> None:
    os.kill(os.getpid(), number)


def in_c(number: int) -> NoReturn:
    """As pybind11 does it: what was raised while it loaded a library becomes the cause of an ImportError."""
    try:
        now(number)
    except BaseException as raised:
        raise ImportError("initialization failed") from raised
    raise AssertionError("no signal came")


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", [now, in_c])
def test_while_a_command_is_loaded(moment: Callable[[int], None], number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main.importlib, "import_module", lambda _: moment(number))
    check(number)


@pytest.mark.parametrize("number", CODES)
def test_before_anything_is_loaded(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main.CommandTable, "make_context", lambda *_, **__: now(number))
    check(number)


def test_a_file_that_ends_too_early_is_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_: str) -> NoReturn:
        raise EOFError("no data left")

    monkeypatch.setattr(main.importlib, "import_module", ended)
    result = CliRunner().invoke(main.main, ["inspect", "anything"])
    assert result.exit_code == 2
    assert result.stderr == "Error: a file ended before all of it was read (no data left)\n"


def test_a_program_that_calls_the_command_gets_its_exit_code() -> None:
    assert main.main(["inspect", "nowhere"], standalone_mode=False) == 2


def check(number: int) -> None:
    result = CliRunner().invoke(main.main, ["inspect", "anything"])
    assert result.exit_code == CODES[signal.Signals(number)]
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert result.stderr.strip() == ("stopped" if number == signal.SIGINT else "")


def test_a_program_that_computes_after_a_stopped_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    computing = compile("import time; time.sleep(0.3)", interruption.ONNXRUNTIME, "exec")
    monkeypatch.setattr(interruption, "GRACE", 0.1)
    monkeypatch.setattr(interruption, "_end", lambda _, code: ends.append(code))
    with pytest.raises(KeyboardInterrupt), interruption.stop_runs_at_signals():
        now(signal.SIGINT)
    exec(computing)
    assert not ends
    stuck = ExitStack()
    stuck.callback(exec, computing)
    with pytest.raises(KeyboardInterrupt), interruption.stop_runs_at_signals(), stuck:
        now(signal.SIGINT)
    assert ends == [130]


def test_a_signal_in_the_last_moment_does_not_stop_later_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def read_slowly(reader: int, count: int) -> bytes:
        content = read(reader, count)
        time.sleep(0.05)
        return content

    interruption.run_options()  # loads onnxruntime
    monkeypatch.setattr(os, "read", read_slowly)
    with pytest.raises(KeyboardInterrupt), interruption.stop_runs_at_signals():
        now(signal.SIGINT)
    time.sleep(0.2)
    assert not interruption.run_options().terminate
