"""What is shipped: few dependencies, nothing that is not needed, the version of the tag, and links that exist."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from loaded_module import load_module
from packaging.requirements import Requirement

from seq2edge.errors import EXTRAS

ROOT = Path(__file__).parents[2]
WEB_SUFFIXES = (".css", ".html", ".js", ".mjs", ".svg", ".webmanifest")
PAPERS = ("README.md", "LICENSE", "LICENSE-MODEL", "pyproject.toml", "hatch_build.py", "CHANGELOG.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(requirement: Requirement) -> set[str]:
    """Return the package of a requirement and, as far as they are installed here, all that it needs in turn."""
    found, waiting = set(), [(canonical(requirement.name), extra) for extra in ("", *requirement.extras)]
    while waiting:
        name, extra = one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        for other in map(Requirement, requirements_of(name)):
            if other.marker is None or other.marker.evaluate({"extra": extra}):
                waiting += [(canonical(other.name), inner) for inner in ("", *other.extras)]
    return {name for name, _ in found} - {"seq2edge"}


def requirements_of(name: str) -> list[str]:
    """Read ours from the source, since the installed ones may be older."""
    if name == "seq2edge":
        extras = PROJECT["optional-dependencies"].items()
        return PROJECT["dependencies"] + [f'{one}; extra == "{extra}"' for extra, some in extras for one in some]
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def test_the_runtime_needs_three_packages() -> None:
    assert {canonical(Requirement(one).name) for one in PROJECT["dependencies"]} == {"click", "numpy", "sentencepiece"}


def test_the_light_install_has_no_package_that_reaches_the_network() -> None:
    light = {"click", "flatbuffers", "numpy", "onnxruntime", "packaging", "protobuf", "sentencepiece"}
    assert needed(Requirement("seq2edge[cpu]")) == light
    assert light < needed(Requirement("seq2edge[cpu,quantize]"))
    assert "torch" not in needed(Requirement("seq2edge[cpu,quantize]"))


def test_everything_that_an_extra_installs_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(line.split("==")[0]) for line in lines if "==" in line}
    wanted = needed(Requirement(f"seq2edge[{','.join(PROJECT['optional-dependencies'])}]"))
    # PyTorch itself pins what its builds for GPUs need
    assert {name for name in wanted if not re.match("cuda|nvidia|triton", name)} <= pinned


def imported_packages(folder: str) -> set[str]:
    nodes = [node for path in (ROOT / folder).rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names


@pytest.mark.parametrize("folder", ["runtime", "graphs", "export"])
def test_every_package_that_is_imported_is_required_or_has_an_extra(folder: str) -> None:
    ours = {"seq2edge", "seq2edge_graphs", "seq2edge_export", "_typeshed"}  # the last one is for mypy only
    with_own_environment = {"optimum"}  # needs an older transformers: make optimum
    always = {canonical(Requirement(one).name) for one in PROJECT["dependencies"]}
    assert imported_packages(folder) - ours - with_own_environment - always <= EXTRAS.keys()


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_the_extra_that_an_error_names_installs_the_package(package: str, extra: str) -> None:
    names = packages_distributions().get(package, [package])  # not all are installed where the tests run
    assert {canonical(name) for name in names} & needed(Requirement(f"seq2edge[{extra}]"))


def test_the_lock_has_the_light_install_in_the_tested_versions_with_hashes() -> None:
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    )
    tested = {canonical(name): version for name, version in pins.items()}
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    locked = {canonical(name): version for name, version, _ in entries}
    assert len(entries) == text.count("==")
    assert needed(Requirement("seq2edge[cpu]")) - {"seq2edge"} == locked.keys()
    assert {name: tested.get(name, version) for name, version in locked.items()} == locked


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Path]]:
    """Built from two copies of the source, in folders of different names."""
    made = []
    for number in (1, 2):
        copy = tmp_path_factory.mktemp(f"copy{number}") / f"source{number}"
        for part in ("runtime", "graphs", "export", *PAPERS):
            source, target = ROOT / part, copy / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
                )
            else:
                shutil.copyfile(source, target)
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(copy / "dist")]
        subprocess.run(command, cwd=copy, check=True, capture_output=True, env={"SOURCE_DATE_EPOCH": "1700000000"})
        made.append({path.name: path for path in (copy / "dist").iterdir()})
    return made


@pytest.fixture(scope="module")
def wheel(builds: list[dict[str, Path]]) -> Path:
    return next(path for name, path in builds[0].items() if name.endswith(".whl"))


def test_two_builds_have_the_same_bytes(builds: list[dict[str, Path]]) -> None:
    first, second = ({name: path.read_bytes() for name, path in build.items()} for build in builds)
    assert len(first) == 2  # wheel and sdist
    assert first == second


def test_the_wheel_holds_code_graphs_the_default_bundle_and_its_own_papers_alone(wheel: Path) -> None:
    bundle = {"manifest.json", "encoder.onnx", "decoder.onnx", "scorer.onnx", "weights.bin", "tokenizer.model"}
    for name in zipfile.ZipFile(wheel).namelist():
        path = Path(name)
        code = path.suffix == ".py" or path.name == "py.typed"
        default = path.parent.as_posix() == "seq2edge/models/en-pt" and path.name in bundle
        pages = ("seq2edge/serve/page", "seq2edge/explain/page")
        page = path.parent.as_posix() in pages and path.suffix in (".html", ".css", ".js", ".svg")
        site = path.is_relative_to("seq2edge/web/static") and path.suffix in WEB_SUFFIXES
        device = path.parent.as_posix() == "seq2edge/devices/topk_graphs" and path.suffix == ".onnx"
        papers = path.parts[0].endswith(".dist-info")
        assert code or default or device or page or site or papers, name


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_version_is_that_of_the_tag(tmp_path: Path) -> None:
    build = load_module(ROOT / "hatch_build.py")
    assert build.version(tmp_path) == build.NO_TAG  # no git
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    assert build.version(tmp_path) == build.NO_TAG  # no tag
    git(tmp_path, "tag", "v1.2.3")
    assert build.version(tmp_path) == "1.2.3"
    git(tmp_path, "commit", "--allow-empty", "-m", "second")
    assert build.version(tmp_path) == "1.2.4.dev1"
    (tmp_path / "PKG-INFO").write_text("Name: seq2edge\nVersion: 2.0.0\n\n", encoding="utf-8")
    assert build.version(tmp_path) == "2.0.0"  # an sdist


def test_the_links_of_the_readme_lead_to_files_and_become_absolute() -> None:
    build = load_module(ROOT / "hatch_build.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [target.split("#")[0] for _, _, target in build.LINK.findall(readme)]
    assert [target for target in targets if not (ROOT / target).exists()] == []
    assert not build.LINK.search(build.linked(readme, "1.0.0"))
    assert f"{build.REPOSITORY}/blob/v1.0.0/docs/" in build.linked(readme, "1.0.0")
    assert f"{build.REPOSITORY}/blob/main/docs/" in build.linked(readme, "1.0.0.dev3")


def test_the_readme_takes_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+] - \d{4}-\d{2}-\d{2}", release) for release in releases[1:])
    sections = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for release in releases:
        assert f"\n{release.split(' ')[0]}: https://" in text
