"""The page about families names every family, and everything that is refused by a name of its own."""

import re
from pathlib import Path

from seq2edge_export.ctranslate2.binary import VERSIONS
from seq2edge_export.ctranslate2.settings import WORDS
from seq2edge_export.fairseq.settings import WORDS as FAIRSEQ_WORDS
from seq2edge_export.families import FAMILIES
from seq2edge_export.marian.config import SWITCHES
from seq2edge_export.opennmt import eole_folder, pt_file, search, shape

PAGE = (Path(__file__).parents[3] / "docs" / "families.md").read_text(encoding="utf-8")


def test_every_family_has_its_row() -> None:
    assert re.findall(r"^\| `([a-z0-9_-]+)` \|", PAGE, re.MULTILINE)[: len(FAMILIES)] == list(FAMILIES)


def test_everything_that_is_refused_is_said() -> None:
    flowing = " ".join(PAGE.split())
    assert [
        words for words in (*WORDS.values(), *FAIRSEQ_WORDS.values(), *SWITCHES.values()) if words not in flowing
    ] == []
    tables = (pt_file.LIMITS, eole_folder.MODEL_LIMITS, eole_folder.EMBEDDING_LIMITS, eole_folder.SIDE_LIMITS)
    limits = (*(limit for table in tables for limit in table), *eole_folder.TRAINING_LIMITS, *search.LIMITS)
    assert [limit.words for limit in limits if limit.words not in flowing] == []
    assert shape.LORA in flowing
    assert f"binary versions {VERSIONS[0]} to {VERSIONS[-1]}" in flowing
