"""The runtime imports without the heavy packages, and commands say which extra they miss."""

import subprocess
import sys

import pytest

from seq2edge.cli.main import COMMANDS

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""
HEAVY = {"torch", "onnx", "onnx_ir", "onnxscript", "transformers", "safetensors", "rich", "sacrebleu", "matplotlib"}


def run_without(blocked: set[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = BLOCK.format(blocked=blocked) + code
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def command_without(blocked: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_without(blocked, "from seq2edge.cli.main import main; main(prog_name='seq2edge')", *arguments)


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


@pytest.mark.parametrize("arguments", [["export", "a", "b"], ["train", "--train", "a", "--dev", "b", "--output", "c"]])
def test_commands_that_need_pytorch_name_the_extra(arguments: list[str]) -> None:
    done = command_without(HEAVY, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'seq2edge[export]'" in done.stderr


def test_translating_loads_nothing_that_only_some_need() -> None:
    code = (
        "import sys; from seq2edge import Translator; Translator(threads=1).translate(['Hello']); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rare = {"asyncio", "click", "difflib", "importlib.metadata", "numpy.random", "subprocess", "tokenizers"}
    assert not rare & set(loaded)


def test_the_memory_of_a_peer_is_measured_without_our_engine() -> None:
    code = "import sys, seq2edge.bench.child_process, seq2edge_export.peers.{}; print(*sys.modules)"
    needless = {"importlib.metadata", "onnxruntime", "sentencepiece", "seq2edge.engine.engine", "torch"}
    for peer in ("ctranslate2", "optimum"):
        program = [sys.executable, "-c", code.format(peer)]
        loaded = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
        assert not {*needless, "seq2edge.text.tokenizer"} & set(loaded)
