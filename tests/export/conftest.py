"""The tiny checkpoint and the bundles made from it, once for all tests."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_checkpoint import write_checkpoint

from seq2edge.bundle import Dialect
from seq2edge_export.export import export_bundle


@dataclass(frozen=True)
class Made:
    """A checkpoint and its bundles."""

    checkpoint: Path
    bundles: dict[Dialect, Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    checkpoint = write_checkpoint(folder / "checkpoint")
    dialects: tuple[Dialect, ...] = ("ort", "portable")
    for dialect in dialects:
        export_bundle(checkpoint, folder / dialect, dialect=dialect)
    return Made(checkpoint, {dialect: folder / dialect for dialect in dialects})


@pytest.fixture(params=["ort", "portable"])
def bundle(made: Made, request: pytest.FixtureRequest) -> Path:
    return made.bundles[request.param]
