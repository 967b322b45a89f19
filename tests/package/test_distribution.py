"""The sdist and the wheel: what they say about themselves, and that the runtime's tests pass with them alone."""

import re
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from environments import ROOT, build, install, packages_of, run, uv
from packaging.requirements import Requirement

pytestmark = pytest.mark.package
TOOLS = ["pytest", "hypothesis"]
UNMARKED = "not slow and not peers and not backends and not trust and not serve"


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


def test_the_wheel_is_the_same_from_the_checkout_and_from_the_sdist(wheel: Path, tmp_path: Path) -> None:
    direct = build("wheel", ROOT, tmp_path)
    assert direct.name == wheel.name
    assert direct.read_bytes() == wheel.read_bytes()


def test_the_metadata_names_authors_addresses_and_both_licences(metadata: Message, wheel: Path) -> None:
    assert metadata["Author"] == "seq2edge contributors"
    assert metadata["License-Expression"] == "Apache-2.0 AND LicenseRef-CC-BY-2.0-FR"
    assert {url.split(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Documentation", "Source", "Issues"}
    names = zipfile.ZipFile(wheel).namelist()
    for licence in metadata.get_all("License-File", []):
        assert any(name.endswith(f".dist-info/licenses/{licence}") for name in names)
    assert metadata.get_all("License-File") == ["LICENSE", "LICENSE-MODEL"]


def test_the_index_shows_a_readme_without_relative_links(metadata: Message) -> None:
    links = re.findall(r"]\(([^)]+)\)", str(metadata.get_payload()))
    assert links
    assert not [link for link in links if not link.startswith(("https://", "#"))]


@pytest.mark.parametrize("lowest", [False, True], ids=["newest", "lowest"])
def test_the_tests_of_the_runtime_pass_with_the_wheel_alone(
    wheel: Path, unpacked: Path, tmp_path: Path, lowest: bool
) -> None:
    scripts = install(wheel, tmp_path / "venv", lowest=lowest)
    if lowest:
        found = packages_of(scripts)
        assert all(found[one.name].startswith(floor(one)) for one in promised())
    uv(tmp_path, "pip", "install", "--quiet", "--python", scripts / "python", *TOOLS)
    run(scripts / "python", "-m", "pytest", "-q", "-m", UNMARKED, "tests/runtime", cwd=unpacked)


def promised() -> list[Requirement]:
    """Return what the light install requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(one) for one in project["dependencies"] + project["optional-dependencies"]["cpu"]]


def floor(requirement: Requirement) -> str:
    [specifier] = requirement.specifier
    return specifier.version


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_newer_pythons_translate(wheel: Path, tmp_path: Path, version: str) -> None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the tests run with it anyway")
    try:
        python = uv(tmp_path, "python", "find", "--no-python-downloads", version).strip()
    except AssertionError:
        pytest.skip(f"Python {version} is not installed here")
    scripts = install(wheel, tmp_path / "venv", python=python)
    uv(tmp_path, "pip", "install", "--quiet", "--python", scripts / "python", *TOOLS)
    run(
        scripts / "python",
        "-m",
        "pytest",
        "-q",
        "-m",
        UNMARKED,
        "tests/runtime/search",
        "tests/runtime/config",
        cwd=ROOT,
    )
    assert run(scripts / "seq2edge", "translate", "Good morning.", cwd=tmp_path).startswith("Bom dia")
