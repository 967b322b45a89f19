"""What is shipped: few dependencies, nothing that is not needed, and the same bytes from every build."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names_of(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", one)[0].lower() for one in requirements}  # type: ignore[index]


def test_the_runtime_needs_four_packages() -> None:
    assert names_of(PROJECT["dependencies"]) == {"click", "numpy", "sentencepiece", "tokenizers"}


def test_everything_that_is_tested_with_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    extras = PROJECT["optional-dependencies"]
    wanted = names_of(
        [*PROJECT["dependencies"], *(one for name in ("cpu", "export", "dev", "sign") for one in extras[name])]
    )
    assert {name.replace("_", "-") for name in wanted} <= pinned


def test_the_lock_has_the_light_install_in_the_tested_versions_with_hashes() -> None:
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    )
    tested = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    locked = {name.lower().replace("_", "-"): version for name, version, _ in entries}
    assert len(entries) == text.count("==")
    assert names_of([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cpu"]]) <= locked.keys()
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


def test_the_wheel_holds_code_graphs_the_embedded_bundle_and_its_own_papers_alone(wheels: list[Path]) -> None:
    bundle = {"manifest.json", "encoder.onnx", "decoder.onnx", "scorer.onnx", "weights.bin", "tokenizer.model"}
    for name in zipfile.ZipFile(wheels[0]).namelist():
        path = Path(name)
        code = path.suffix == ".py" or path.name == "py.typed"
        embedded = path.parent.as_posix() == "seq2edge/models/en-de" and path.name in bundle
        device = path.parent.as_posix() == "seq2edge/devices/topk_graphs" and path.suffix == ".onnx"
        papers = path.parts[0].endswith(".dist-info")
        assert code or embedded or device or papers, name
