"""Stop runs of onnxruntime from another thread: when a call has used up its time, or at a signal.

A graph may compute for hours. Meanwhile Python does not handle signals, because it does so between two of its own
instructions. The system does tell another thread that one arrived (``signal.set_wakeup_fd``), and that thread can set
a flag that onnxruntime checks before every node.

A single node may also take hours, and onnxruntime does not check the flag while it loads a graph. A command then ends
without cleaning up, which is no worse than being killed; a Python program has to wait.
"""

import os
import signal
import sys
from _thread import start_new_thread  # ``threading.Thread`` waits forever for one that lacks memory to begin
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Event, current_thread, local, main_thread
from typing import TYPE_CHECKING

from seq2edge.errors import TimeLimitError

if TYPE_CHECKING:
    from onnxruntime import RunOptions

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 3.0  # seconds from the flag to the end of a command that is stuck in onnxruntime
SHELL_CODE = 128  # plus the number of a signal is the exit code that a shell expects
ONNXRUNTIME = "onnxruntime_inference_collection.py"  # calls onnxruntime, and is the last Python code while it computes

_here = local()  # the call that this thread works for, if it has a time limit
_calls: "set[LimitedCall]" = set()
_is_command = Event()


class LimitedCall:
    """The runs of one call, in any number of threads, which all end when its time is up."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.options, self.releasing_options = seconds, _new_options(), _new_options(releasing=True)
        self.expired, self._done = False, Event()

    def __enter__(self) -> "LimitedCall":
        _calls.add(self)
        start_new_thread(self._watch, ())
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        _calls.discard(self)

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Let this thread work for the call."""
        before = getattr(_here, "call", None)
        _here.call = self
        try:
            yield
        finally:
            _here.call = before

    @property
    def error(self) -> TimeLimitError:
        return TimeLimitError(
            f"the computation took longer than the time limit of {self.seconds:g} s; give it more time or less text"
        )

    def stop(self) -> None:
        self.options.terminate = self.releasing_options.terminate = True

    def _watch(self) -> None:
        if self._done.wait(self.seconds):
            return
        self.expired = True
        self.stop()
        if _is_command.is_set() and not self._done.wait(GRACE):
            _end(f"Error: {self.error}", TimeLimitError.exit_code)


def run_options(*, releasing: bool = False) -> "RunOptions":
    """Return the options for a run in this thread; a ``releasing`` one gives the idle memory of its graph back."""
    call: LimitedCall | None = getattr(_here, "call", None)
    if call is None:
        return _unlimited(releasing)
    return call.releasing_options if releasing else call.options


def time_limit_error() -> TimeLimitError | None:
    """Return the error of the call that this thread works for, if its time is up."""
    call: LimitedCall | None = getattr(_here, "call", None)
    return call.error if call is not None and call.expired else None


@cache
def _unlimited(releasing: bool) -> "RunOptions":
    return _new_options(releasing=releasing)


def _new_options(*, releasing: bool = False) -> "RunOptions":
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry("gpu_graph_id", "0")  # the default, which takes onnxruntime 60 µs per run to find out
    if releasing:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


@contextmanager
def stop_runs_at_signals() -> Iterator[None]:
    """Stop all runs when a signal arrives, also while Python cannot handle it; for commands."""
    if current_thread() is not main_thread():  # which alone handles signals
        yield
        return
    reader, writer = os.pipe()
    if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12, where signals do not ask for it either
        os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _is_command.set()
    finished, ended = Event(), Event()  # the command, and the thread
    start_new_thread(_watch, (reader, finished, ended))
    try:
        yield
    finally:
        finished.set()
        signal.set_wakeup_fd(before)
        os.close(writer)  # ends the thread
        ended.wait(GRACE)  # else a late thread could stop the runs of what comes next
        _is_command.clear()
        _unlimited.cache_clear()


def _watch(reader: int, finished: Event, ended: Event) -> None:
    while number := os.read(reader, 1):
        if number[0] in SIGNALS:
            for call in (*_calls,):
                call.stop()
            with suppress(ImportError):  # it may be about to be imported
                if "onnxruntime" in sys.modules:
                    _unlimited(False).terminate = _unlimited(True).terminate = True
            start_new_thread(_end_if_computing, (number[0], finished))
    os.close(reader)
    ended.set()


def _end_if_computing(number: int, finished: Event) -> None:
    if finished.wait(GRACE):
        return
    if any(frame.f_code.co_filename.endswith(ONNXRUNTIME) for frame in sys._current_frames().values()):
        _end("stopped", SHELL_CODE + number)


def _end(message: str, code: int) -> None:
    with suppress(OSError):
        os.write(2, f"{message}\n".encode())
    os._exit(code)


def leave_signals() -> None:
    """End the watch: of a server that ends by itself, or of a forked process, whose signals are not the parent's."""
    if _is_command.is_set():
        _is_command.clear()
        signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=leave_signals)
