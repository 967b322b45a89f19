"""Bundles for devices whose execution providers need separate environments.

``make test-backends`` creates the environments and the bundles, and runs each test file in its environment.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "backends"
CHECKPOINT = ROOT / "models" / "en-pt"
Command = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Bundles:
    """The default checkpoint in the dialect and precisions of other devices, and a tiny model."""

    fp32: Path = FOLDER / "en-pt-fp32"
    fp16: Path = FOLDER / "en-pt-fp16"
    half: Path = FOLDER / "en-pt-half"
    int8: Path = FOLDER / "en-pt-int8"
    tiny: Path = FOLDER / "tiny"


@pytest.fixture(scope="session")
def bundles() -> Bundles:
    assert FOLDER.is_dir(), "run  make test-backends, which creates the bundles"
    return Bundles()


@pytest.fixture(scope="session")
def command() -> Command:
    """Run seq2edge in this environment."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "seq2edge", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """Write sentences to a file."""

    def write(*texts: str) -> Path:
        (tmp_path / "lines.en").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return tmp_path / "lines.en"

    return write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.backends)
