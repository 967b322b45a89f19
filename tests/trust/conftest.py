"""The sound material that the tests damage, and how much is done: a little, or with SEQ2EDGE_TRUST=full all of it."""

import os
from pathlib import Path

import pytest

from material import material

FULL = os.environ.get("SEQ2EDGE_TRUST") == "full"


@pytest.fixture(scope="session")
def bundles() -> Path:
    """A folder with small bundles of several kinds."""
    return material() / "bundles"


@pytest.fixture(scope="session")
def full() -> bool:
    return FULL
