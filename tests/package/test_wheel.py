"""The built wheel, in a new environment, translates with [cpu] alone and quantizes with [cpu,quantize]."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from environments import install, packages_of, run
from tiny_checkpoint import write_checkpoint

from seq2edge_export.export import export_bundle

pytestmark = pytest.mark.package
WHEEL_BYTES = 17_000_000


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a tiny bundle in float32."""
    folder = tmp_path_factory.mktemp("full")
    write_checkpoint(folder / "checkpoint")
    return export_bundle(folder / "checkpoint", folder / "bundle", compare=False).folder


@pytest.fixture(scope="module")
def edge(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("edge") / "venv")


def test_the_wheel_holds_the_three_packages_and_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < WHEEL_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {"seq2edge", "seq2edge_graphs", "seq2edge_export"} == {top for top in tops if not top.endswith("dist-info")}
    for package in ("seq2edge", "seq2edge_graphs", "seq2edge_export"):
        assert f"{package}/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".safetensors")]


def test_the_light_install_has_eight_packages(edge: Path) -> None:
    light = {"click", "flatbuffers", "numpy", "onnxruntime", "packaging", "protobuf", "sentencepiece", "seq2edge"}
    assert packages_of(edge).keys() == light


def test_the_light_install_translates_with_the_default_model(edge: Path) -> None:
    assert run(edge / "seq2edge", "translate", "Good morning.", cwd=edge).strip().startswith("Bom dia")
    code = "from seq2edge import Translator; print(Translator().translate(['Good morning.'])[0].text)"
    assert run(edge / "python", "-c", code, cwd=edge).strip().startswith("Bom dia")


def test_the_light_install_answers_help_and_version(edge: Path) -> None:
    assert "translate" in run(edge / "seq2edge", "--help", cwd=edge)
    assert run(edge / "seq2edge", "--version", cwd=edge).startswith("seq2edge, version ")


def test_the_light_install_names_the_extra_that_export_needs(edge: Path) -> None:
    done = subprocess.run([edge / "seq2edge", "export", "a", "b"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "seq2edge[export]" in done.stderr


def test_quantizing_needs_no_pytorch(wheel: Path, full: Path, tmp_path: Path) -> None:
    scripts = install(wheel, tmp_path / "venv", extras="cpu,quantize")
    run(scripts / "seq2edge", "quantize", full, tmp_path / "half", "--precision", "fp16", cwd=tmp_path)
    (tmp_path / "pairs").write_text("Good morning.\tBom dia.\n", encoding="utf-8")
    run(scripts / "seq2edge", "shortlist", full, tmp_path / "short", "--learn", "pairs", cwd=tmp_path)
    translated = run(scripts / "seq2edge", "translate", "-m", tmp_path / "short", "Hi", cwd=tmp_path)
    assert translated.strip()
    assert "torch" not in packages_of(scripts)
