"""optimum-onnx as a peer, run by the interpreter of another environment because it needs an older transformers.

``make optimum`` creates that environment. The process runs ``generate.py``, reads requests from a pipe
and times itself.
"""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from seq2edge.bench.system import PeerRequest, SystemPlan, TimedOutputs
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import CheckpointError, UsageError, listed
from seq2edge_export.peers.interface import folder_size, generate_arguments, load_source_model, transformer_of

# -P: keep the script's folder off the path, because its modules torch and ctranslate2 would hide the packages.
INTERPRETER_OPTIONS = ("-P",)
GENERATE = Path(__file__).with_name("generate.py")
INTERPRETER_FILE = "python.txt"  # in the exported folder: the interpreter that runs it
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
    """Write the model as a Hugging Face folder and let optimum export it."""
    from seq2edge_export.peers.hugging_face import unsupported, write_folder

    source_model = load_source_model(request)
    problems = unsupported(transformer_of(source_model).architecture)
    if problems:
        raise CheckpointError(
            f"optimum cannot run this model, which is neither Marian nor Pegasus: it has {listed(problems)}"
        )
    python = _interpreter(request.optimum_python)
    tool = _run(python, "-c", VERSIONS).strip()
    source, target = request.folder / "model", request.folder / "onnx"
    source.mkdir()
    write_folder(source_model, source)
    _run(python, "-c", EXPORT, str(source), str(target))
    size = folder_size(target)
    (target / INTERPRETER_FILE).write_text(str(python), encoding="utf-8")
    return [
        SystemPlan(
            name="optimum",
            kind="optimum",
            module=__name__,
            path=str(target),
            precision="fp32",
            size=size,
            tool=tool,
        )
    ]


def open_peer(plan: SystemPlan) -> "OptimumSystem":
    return OptimumSystem(Path(plan.path), threads=plan.threads)


class OptimumSystem:
    """A process of the other environment."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        python = (folder / INTERPRETER_FILE).read_text(encoding="utf-8")
        command = [python, *INTERPRETER_OPTIONS, str(GENERATE), str(folder), str(threads)]
        # A file, because a pipe that nobody reads would fill up.
        self.errors = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, encoding="utf-8"
        )
        self._read()

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        reply = self._request(json.dumps({"sources": sources, "arguments": generate_arguments(options)}))
        return TimedOutputs(reply["outputs"], reply["seconds"])

    def peak_memory(self) -> int | None:
        peak: int | None = self._request("peak")
        return peak

    def close(self) -> None:
        self.process.communicate()  # closes its input, which ends it
        self.errors.close()

    def _request(self, line: str) -> Any:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self._read())

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise UsageError(f"the optimum process ended early: {_last_line(self.errors.read())}")
        return line


def _interpreter(python: Path | None) -> Path:
    if python is None or not python.is_file():
        raise UsageError(
            f"optimum needs its own environment, but {python} does not exist: run  make optimum, or name the Python "
            "of another one with --optimum-python"
        )
    return python.absolute()


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise UsageError(f"optimum cannot be used with {python}: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no error message"])[-1]
