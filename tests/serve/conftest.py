"""One server with the default model for all tests that do not need another."""

from collections.abc import Iterator

import pytest
from running_server import RunningServer, running_server

from seq2edge import Translator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/serve/" in str(item.path) and "/runtime/" not in str(item.path):
            item.add_marker(pytest.mark.serve)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def translator() -> Iterator[Translator]:
    with Translator(threads=1) as found:
        yield found
