"""Bundles and vocabularies for the tests of the browser's runtime, and the JavaScript that runs them."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from javascript import JAVASCRIPT, call_node

from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer

Node = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.web)


@pytest.fixture(scope="session")
def node() -> Node:
    """Return a function that calls the JavaScript in node."""
    if shutil.which("node") is None or not (JAVASCRIPT / "node_modules").is_dir():
        pytest.fail("node or its packages are missing: run  make test-web")
    return call_node


def python_tokenizer(folder: Path, rules: Tokenization, tokens: SpecialTokens) -> Tokenizer:
    return load_tokenizer(rules, tokens, {name: folder / name for name in rules.files})


def manifest_of(rules: Tokenization, tokens: SpecialTokens) -> dict[str, Any]:
    """Return the part of a manifest that a tokenizer reads."""
    return {"tokenizer": asdict(rules), "tokens": asdict(tokens)}
