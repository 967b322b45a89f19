"""What takes long is made by one test process for all."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

LONGEST = 600  # seconds that another process may take


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that whoever wants it first fills; the others wait for it."""
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
    until = time.monotonic() + LONGEST
    while not ready.exists():
        assert not failed.exists(), f"another process could not make {ready.stem}"
        assert time.monotonic() < until, f"another process has not made {ready.stem}"
        time.sleep(0.05)
