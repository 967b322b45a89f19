"""The runtime imports without the heavy packages, and commands say which extra they miss."""

import subprocess
import sys
from pathlib import Path

import pytest
from hostile_bundle import change_manifest, copy_bundle, rehash
from missing_packages import command_without, packages_outside, run_without

from seq2edge.cli.main import COMMANDS

HEAVY = {"torch", "onnx", "onnx_ir", "onnxscript", "transformers", "safetensors", "rich", "sacrebleu", "matplotlib"}


def test_every_runtime_module_imports_without_torch_onnx_and_transformers() -> None:
    code = """
import importlib, pkgutil, seq2edge
names = [m.name for m in pkgutil.walk_packages(seq2edge.__path__, "seq2edge.") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    done = run_without(HEAVY, code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


def test_every_runtime_module_imports_without_onnxruntime() -> None:
    code = """
import importlib, pkgutil, seq2edge
for module in pkgutil.walk_packages(seq2edge.__path__, "seq2edge."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    done = run_without({*HEAVY, "onnxruntime"}, code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["translate", "--help"], ["train", "--help"]])
def test_help_loads_nothing_that_takes_time(arguments: list[str]) -> None:
    done = command_without({*HEAVY, "onnxruntime", "numpy", "sentencepiece", "tokenizers"}, *arguments)
    assert done.returncode == 0, done.stderr
    assert "seq2edge" in done.stdout


def test_help_lists_every_command() -> None:
    done = command_without(HEAVY, "--help")
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


def test_translating_without_onnxruntime_names_the_extra() -> None:
    done = command_without({"onnxruntime"}, "translate", "Hello.")
    assert done.returncode == 2
    assert done.stderr == ("Error: this needs onnxruntime, which is not installed: run  pip install 'seq2edge[cpu]'\n")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["export", "a", "b"], "export"),
        (["train", "--train", "a", "--dev", "b", "--output", "c"], "export"),
        (["verify", "a", "--against", "b"], "export"),
        (["recipe", "a"], "export"),
        (["quantize", "a", "b"], "quantize"),
        (["shortlist", "a", "b", "--marian", "c"], "quantize"),
        (["sign", "--new-key", "a"], "sign"),
        (["serve"], "serve"),
    ],
)
def test_commands_name_the_extra_that_they_need(arguments: list[str], extra: str) -> None:
    done = command_without(packages_outside("cpu"), *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"pip install 'seq2edge[{extra}]'" in done.stderr


def test_python_names_the_extra_too() -> None:
    done = run_without({"torch"}, "from seq2edge_export import export_bundle")
    assert done.stderr.splitlines()[-1].endswith(
        "this needs torch, which is not installed: run  pip install 'seq2edge[export]'"
    )


def test_a_bundle_with_a_tokenizer_json_names_the_extra(tmp_path: Path) -> None:
    def change(manifest: dict) -> None:
        manifest["tokenizer"] |= {"kind": "tokenizers", "source": "tokenizer.json", "target": "tokenizer.json"}
        manifest["files"]["tokenizer.json"] = manifest["files"].pop("tokenizer.model")

    folder = copy_bundle(tmp_path / "bundle")
    (folder / "tokenizer.model").unlink()
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    change_manifest(folder, change)
    rehash(folder)
    sentence = "this needs tokenizers, which is not installed: run  pip install 'seq2edge[tokenizers]'"
    done = command_without({"tokenizers"}, "translate", "-m", folder, "Hello.")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {sentence}\n")
    done = run_without({"tokenizers"}, "import sys, seq2edge; seq2edge.Translator(sys.argv[1])", folder)
    assert done.stderr.endswith(f"MissingExtraError: {sentence}\n")


def test_translating_loads_nothing_that_only_some_need() -> None:
    code = (
        "import sys; from seq2edge import Translator; Translator(threads=1).translate(['Hello']); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rare = {"asyncio", "click", "difflib", "importlib.metadata", "numpy.random", "subprocess", "tokenizers"}
    rare |= {"concurrent.futures", "hashlib", "logging"}
    rare |= {
        f"seq2edge.{name}" for name in ("bundle.graph_vetting", "bundle.protobuf", "files.lines", "scoring.scorer")
    }
    assert not rare & set(loaded)


def test_the_memory_of_a_peer_is_measured_without_our_engine() -> None:
    code = "import sys, seq2edge.bench.child_process, seq2edge_export.peers.{}; print(*sys.modules)"
    needless = {"importlib.metadata", "onnxruntime", "sentencepiece", "seq2edge.engine.engine", "torch"}
    for peer in ("ctranslate2", "optimum"):
        program = [sys.executable, "-c", code.format(peer)]
        loaded = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
        assert not {*needless, "seq2edge.text.tokenizer"} & set(loaded)
