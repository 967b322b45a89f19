"""Bundles of every format version still load and give the same tokens."""

import json
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import FORMAT_VERSION, UPGRADES

KEPT = Path(__file__).parent / "kept"
FOLDERS = sorted(KEPT.glob("format-*"))


def test_a_bundle_of_every_format_version_is_kept() -> None:
    assert [folder.name for folder in FOLDERS] == [f"format-{version}" for version in range(1, FORMAT_VERSION + 1)]
    assert list(UPGRADES) == list(range(1, FORMAT_VERSION + 1))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_kept_bundle_translates_as_it_did(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["sentences"]
    texts = [sentence["text"] for sentence in expected]
    with Translator(folder, threads=1) as translator:
        for beams, name in ((1, "greedy"), (4, "beam")):
            results = translator.translate(texts, num_beams=beams, split="none")
            assert [list(result.tokens) for result in results] == [sentence[name] for sentence in expected]
