"""The built wheel, alone with [cpu] in a new environment, translates."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEEL_BYTES = 15_000_000


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def edge(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment that holds the wheel with [cpu] and nothing else."""
    folder = tmp_path_factory.mktemp("edge") / "venv"
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", ROOT / "constraints.txt", f"seq2edge[cpu] @ {wheel.as_uri()}", cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_the_three_packages_and_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < WHEEL_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {"seq2edge", "seq2edge_graphs", "seq2edge_export"} == {top for top in tops if not top.endswith("dist-info")}
    for package in ("seq2edge", "seq2edge_graphs", "seq2edge_export"):
        assert f"{package}/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".safetensors")]


def test_the_light_install_has_no_heavy_package(edge: Path) -> None:
    installed = run(edge / "python", "-m", "pip", "list", "--format=freeze", cwd=edge).lower()
    assert "onnxruntime==" in installed
    for heavy in ("torch==", "onnx==", "transformers==", "safetensors=="):
        assert f"\n{heavy}" not in f"\n{installed}"


def test_the_light_install_translates_with_the_embedded_model(edge: Path) -> None:
    assert run(edge / "seq2edge", "translate", "Good morning.", cwd=edge).strip().startswith("Guten Morgen")
    code = "from seq2edge import Translator; print(Translator().translate(['Good morning.'])[0].text)"
    assert run(edge / "python", "-c", code, cwd=edge).strip().startswith("Guten Morgen")


def test_the_light_install_answers_help_and_version(edge: Path) -> None:
    assert "translate" in run(edge / "seq2edge", "--help", cwd=edge)
    assert run(edge / "seq2edge", "--version", cwd=edge).startswith("seq2edge, version ")


def test_the_light_install_names_the_extra_that_export_needs(edge: Path) -> None:
    done = subprocess.run([edge / "seq2edge", "export", "a", "b"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "seq2edge[export]" in done.stderr
