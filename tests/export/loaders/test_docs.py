"""docs/families.md lists every family and every unsupported feature."""

import re
from pathlib import Path

from seq2edge_export.loaders import FAMILIES
from seq2edge_export.loaders.ctranslate2.config import UNSUPPORTED
from seq2edge_export.loaders.ctranslate2.files import VERSIONS
from seq2edge_export.loaders.fairseq.config import UNSUPPORTED as FAIRSEQ_UNSUPPORTED
from seq2edge_export.loaders.marian.config import SWITCHES
from seq2edge_export.loaders.opennmt import config
from seq2edge_export.loaders.opennmt.weights import LORA

PAGE = (Path(__file__).parents[3] / "docs" / "families.md").read_text(encoding="utf-8")


def test_every_family_has_its_row() -> None:
    assert re.findall(r"^\| `([a-z0-9_-]+)` \|", PAGE, re.MULTILINE)[: len(FAMILIES)] == list(FAMILIES)


def test_every_unsupported_feature_is_listed() -> None:
    flowing = " ".join(PAGE.split())
    descriptions = (*UNSUPPORTED.values(), *FAIRSEQ_UNSUPPORTED.values(), *SWITCHES.values(), LORA)
    assert [text for text in descriptions if text not in flowing] == []
    limits = (
        *config.OPENNMT_LIMITS,
        *config.EOLE_MODEL_LIMITS,
        *config.EOLE_EMBEDDING_LIMITS,
        *config.EOLE_SIDE_LIMITS,
        *config.EOLE_TRAINING_LIMITS,
        *config.EOLE_SEARCH_LIMITS,
    )
    assert [limit.description for limit in limits if limit.description not in flowing] == []
    assert f"binary versions {VERSIONS[0]} to {VERSIONS[-1]}" in flowing
