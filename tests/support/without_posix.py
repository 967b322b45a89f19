"""Take away what only POSIX systems have, as Windows and partly macOS do: import it, or load it with  pytest -p.

What the test runner needs to start processes stays, and so does os.set_blocking, which signals need on Linux alone.
PyTorch, which the runtime does not need, goes as well: on Linux it relies on what is taken away.
"""

import asyncio
import os
import signal
import sys

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "torch")
FUNCTIONS = ("fork", "forkpty", "getloadavg", "register_at_fork", "sched_getaffinity", "sysconf")
SIGNALS = ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM")


class Absent:
    """Find none of the modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in SIGNALS:
    if hasattr(signal, name):
        delattr(signal, name)
if hasattr(asyncio, "SelectorEventLoop"):
    for kind in asyncio.SelectorEventLoop.__mro__:
        if "add_signal_handler" in vars(kind) and kind.__module__ == "asyncio.unix_events":
            del kind.add_signal_handler
