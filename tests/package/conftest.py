"""The distribution as users get it."""

from pathlib import Path

import pytest
from environments import ROOT, build, run


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def unpacked(sdist: Path) -> Path:
    run("tar", "xzf", sdist, cwd=sdist.parent)
    return sdist.parent / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="session")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the sdist alone."""
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))
