"""A checkpoint as optimum exports it, in the environment that optimum needs."""

import subprocess
from pathlib import Path

from seq2edge.bench.system import SystemPlan
from seq2edge.errors import CheckpointError, UsageError
from seq2edge_export.peers.hugging_face import inexpressible, write_folder
from seq2edge_export.peers.interface import PeerRequest, folder_size
from seq2edge_export.peers.optimum import INTERPRETER_FILE, last_line

EXPORT = """
import sys
from optimum.onnxruntime import ORTModelForSeq2SeqLM
ORTModelForSeq2SeqLM.from_pretrained(sys.argv[1], export=True).save_pretrained(sys.argv[2])
"""
VERSIONS = """
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in ("optimum-onnx", "transformers", "onnxruntime")))
"""


def prepare(request: PeerRequest) -> list[SystemPlan]:
    """Let optimum export a Hugging Face folder of the model."""
    problems = inexpressible(request.model.shape)
    if problems:
        raise CheckpointError(
            f"optimum cannot be given this model, which is neither Marian nor Pegasus: it has {'; '.join(problems)}"
        )
    python = _interpreter(request.optimum_python)
    tool = _run(python, "-c", VERSIONS).strip()
    source, target = request.folder / "model", request.folder / "onnx"
    source.mkdir()
    write_folder(request.original, source)
    _run(python, "-c", EXPORT, str(source), str(target))
    size = folder_size(target)
    (target / INTERPRETER_FILE).write_text(str(python), encoding="utf-8")
    return [SystemPlan(name="optimum", kind="optimum", path=str(target), precision="fp32", size=size, tool=tool)]


def _interpreter(python: Path | None) -> Path:
    if python is None or not python.is_file():
        raise UsageError(
            f"optimum needs an environment of its own, and {python} is not there: run  make optimum, or name another "
            "one's Python with --optimum-python"
        )
    return python.absolute()


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise UsageError(f"optimum cannot be used with {python}: {last_line(done.stderr)}")
    return done.stdout
