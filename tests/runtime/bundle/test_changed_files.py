"""Files of a bundle that are replaced after it was loaded: what runs is what was checked."""

import shutil
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.errors import BundleError

PAIR = ["Good morning."], ["Bom dia."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle"))


@pytest.mark.parametrize("content", [b"", (DEFAULT_BUNDLE / tensor_names.DECODER).read_bytes()])
def test_a_scorer_that_is_swapped_after_loading_is_not_run(content: bytes, folder: Path) -> None:
    with Translator(DEFAULT_BUNDLE, threads=1) as original:
        wanted = original.score(*PAIR)
    with Translator(folder, threads=1) as translator:
        (folder / tensor_names.SCORER).write_bytes(content)
        assert translator.score(*PAIR) == wanted


def test_weights_that_are_swapped_after_loading_are_not_used_for_another_graph(folder: Path) -> None:
    with Translator(folder, threads=1) as translator:
        path = folder / tensor_names.WEIGHTS
        weights = bytearray(path.read_bytes())
        weights[-1000:] = bytes(1000)
        path.unlink()
        path.write_bytes(weights)
        with pytest.raises(BundleError, match=r"weights\.bin is not the file that was exported"):
            translator.score(*PAIR)


def test_a_copy_with_the_same_weights_is_used(folder: Path) -> None:
    with Translator(folder, threads=1) as translator:
        path = folder / tensor_names.WEIGHTS
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
        assert translator.score(*PAIR)
