"""A browser for the pages of ``seq2edge explain``."""

from collections.abc import Iterator
from typing import Any

import pytest
from chromium import started_chromium


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/explain/" in item.path.as_posix():
            item.add_marker(pytest.mark.explain)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started_chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started
