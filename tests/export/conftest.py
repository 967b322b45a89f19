"""A tiny checkpoint and its bundles, made once for all tests, and training without pictures."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from marian_model import made as marian_model
from marian_model import write_folder
from once import once
from tiny_checkpoint import write_checkpoint

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.bundle.bundle import Dialect
from seq2edge_export.export import export_bundle
from seq2edge_export.training.report import Evaluation


@dataclass(frozen=True)
class Made:
    """A checkpoint and its bundles."""

    checkpoint: Path
    bundles: dict[Dialect, Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    dialects: tuple[Dialect, ...] = ("ort", "portable")

    def make(folder: Path) -> None:
        write_checkpoint(folder / "checkpoint")
        for dialect in dialects:
            export_bundle(folder / "checkpoint", folder / dialect, dialect=dialect)

    folder = once(tmp_path_factory, "made", make)
    return Made(folder / "checkpoint", {dialect: folder / dialect for dialect in dialects})


@pytest.fixture(scope="session")
def student(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a model with a recurrent decoder in the format of Bergamot, and its bundle."""

    def make(folder: Path) -> None:
        write_folder(folder / "checkpoint", marian_model(), "bergamot8")
        export_bundle(folder / "checkpoint", folder / "ort", compare=False)

    folder = once(tmp_path_factory, "student", make)
    return Made(folder / "checkpoint", {"ort": folder / "ort"})


@pytest.fixture(params=["ort", "portable"])
def bundle(made: Made, request: pytest.FixtureRequest) -> Path:
    return made.bundles[request.param]


@pytest.fixture
def quick_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip drawing the curves, which takes longer than training these models."""

    def draw(history: list[Evaluation], path: Path) -> None:
        with replaced_file(path) as new:
            new.write_bytes(b"\x89PNG")

    monkeypatch.setattr("seq2edge_export.training.loop.draw_curves", draw)
