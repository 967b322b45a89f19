"""Sentences, and what the default model makes of them without the code under test."""

from pathlib import Path

import pytest

from seq2edge import Translator

pytest.importorskip("pyarrow")
SENTENCES = (Path(__file__).parents[2] / "models/en-pt/dev.en").read_text(encoding="utf-8").splitlines()[:40]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("corpus")


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return SENTENCES


@pytest.fixture(scope="session")
def expected(sentences: list[str]) -> list[str]:
    with Translator(threads=1) as translator:
        return [result.text for result in translator.translate(sentences, num_beams=1)]
