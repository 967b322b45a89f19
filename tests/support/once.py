"""Share expensive fixtures between test processes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TIMEOUT = 600  # seconds to wait for another process


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process fills and the others wait for."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    ready, failed = folder.with_suffix(".ready"), folder.with_suffix(".failed")
    try:
        folder.mkdir()
    except FileExistsError:
        _wait(ready, failed)
        return folder
    try:
        make(folder)
        ready.touch()
    finally:
        if not ready.exists():
            failed.touch()
    return folder


def _wait(ready: Path, failed: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not ready.exists():
        assert not failed.exists(), f"another process failed to make {ready.stem}"
        assert time.monotonic() < until, f"another process has not made {ready.stem}"
        time.sleep(0.05)
