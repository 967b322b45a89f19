"""What is shipped: few dependencies, nothing that is not needed, and the same bytes from every build."""

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
from packaging.requirements import Requirement

from seq2edge.errors import EXTRAS

ROOT = Path(__file__).parents[2]
WEB_SUFFIXES = (".css", ".html", ".js", ".mjs", ".svg", ".webmanifest")
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
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Built from two copies of the source, in folders of different names."""
    made = []
    for number in (1, 2):
        copy = tmp_path_factory.mktemp(f"copy{number}") / f"source{number}"
        for part in ("runtime", "graphs", "export", "README.md", "LICENSE", "pyproject.toml", "CHANGELOG.md"):
            source, target = ROOT / part, copy / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
                )
            else:
                shutil.copyfile(source, target)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(copy / "dist")]
        subprocess.run(command, cwd=copy, check=True, capture_output=True, env={"SOURCE_DATE_EPOCH": "1700000000"})
        made.append(next((copy / "dist").glob("*.whl")))
    return made


def test_two_builds_have_the_same_bytes(wheels: list[Path]) -> None:
    first, second = wheels
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_wheel_holds_code_graphs_the_default_bundle_and_its_own_papers_alone(wheels: list[Path]) -> None:
    bundle = {"manifest.json", "encoder.onnx", "decoder.onnx", "scorer.onnx", "weights.bin", "tokenizer.model"}
    for name in zipfile.ZipFile(wheels[0]).namelist():
        path = Path(name)
        code = path.suffix == ".py" or path.name == "py.typed"
        default = path.parent.as_posix() == "seq2edge/models/en-pt" and path.name in bundle
        page = path.parent.as_posix() == "seq2edge/serve/page" and path.suffix in (".html", ".css", ".js", ".svg")
        site = path.is_relative_to("seq2edge/web/static") and path.suffix in WEB_SUFFIXES
        device = path.parent.as_posix() == "seq2edge/devices/topk_graphs" and path.suffix == ".onnx"
        papers = path.parts[0].endswith(".dist-info")
        assert code or default or device or page or site or papers, name
