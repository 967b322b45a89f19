"""The page about families names every family, and everything that is refused by a name of its own."""

import re
from pathlib import Path

from seq2edge_export.loaders import FAMILIES
from seq2edge_export.loaders.ctranslate2.config import WORDS
from seq2edge_export.loaders.ctranslate2.files import VERSIONS
from seq2edge_export.loaders.fairseq.config import WORDS as FAIRSEQ_WORDS
from seq2edge_export.loaders.marian.config import SWITCHES
from seq2edge_export.loaders.opennmt import config, files

PAGE = (Path(__file__).parents[3] / "docs" / "families.md").read_text(encoding="utf-8")


def test_every_family_has_its_row() -> None:
    assert re.findall(r"^\| `([a-z0-9_-]+)` \|", PAGE, re.MULTILINE)[: len(FAMILIES)] == list(FAMILIES)


def test_everything_that_is_refused_is_said() -> None:
    flowing = " ".join(PAGE.split())
    assert [
        words for words in (*WORDS.values(), *FAIRSEQ_WORDS.values(), *SWITCHES.values()) if words not in flowing
    ] == []
    tables = (files.LIMITS, files.MODEL_LIMITS, files.EMBEDDING_LIMITS, files.SIDE_LIMITS)
    limits = (*(limit for table in tables for limit in table), *files.TRAINING_LIMITS, *config.LIMITS)
    assert [limit.words for limit in limits if limit.words not in flowing] == []
    assert config.LORA in flowing
    assert f"binary versions {VERSIONS[0]} to {VERSIONS[-1]}" in flowing
