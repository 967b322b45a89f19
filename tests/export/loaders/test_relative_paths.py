"""Checkpoints are read by relative paths, from the folder above and from inside."""

from collections.abc import Callable
from pathlib import Path

import ctranslate2_model
import marian_model
import pytest
from t5_folder import write_t5

from seq2edge_export.loaders import load_checkpoint


def write_ctranslate2(folder: Path) -> Path:
    written = ctranslate2_model.written(ctranslate2_model.seeded(ctranslate2_model.opus_like()))
    return ctranslate2_model.write_folder(folder, written)


WRITERS: dict[str, Callable[[Path], Path]] = {
    "t5": write_t5,
    "marian-native": marian_model.write_folder,
    "ctranslate2": write_ctranslate2,
}


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize("inside", [False, True])
def test_a_relative_path_finds_the_tokenizer(
    family: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    WRITERS[family](tmp_path / "model")
    monkeypatch.chdir(tmp_path / "model" if inside else tmp_path)
    checkpoint = load_checkpoint(Path() if inside else Path("model"))
    assert checkpoint.family == family
    assert checkpoint.source_model().tokenizer().encode(["Hello"])
